import { readFileSync } from "node:fs";
import { Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";
import { estimateTokens, limitTool, meter, priceList, type TokenUsage, usd, usdText } from "../../src/entry/llm.ts";

// One budget of two cents for a customer, over two models and a tool, spent by streamed answers until it is used up. Everything
// runs in this process: the model is a generator. In your program, imports are from "zae-limiter" and "zae-limiter/llm".

const prices = priceList.fromLiteLLM(readFileSync(new URL("prices.json", import.meta.url), "utf8"), {
  asOf: "2026-11-01",
});
const count = meter({ usd: prices.weights });
const OUTPUT_MAX = 300;

const limiter = await RateLimiter.open({ store: "memory" });
await limiter.createEntity({ id: "acme" });
await limiter.createEntity({ id: "key-1", parentId: "acme" });
await limiter.setTotals("acme", [Limit.quota("usd", usd("0.02"), { reset: "monthly" })]);
await limiter.setResourceDefaults("tool:search", [Limit.perMinute("calls", 1)], { appliesTo: "callers" });

/** Stands in for a provider: words one by one, and at the end the usage. */
async function* model(words: number): AsyncGenerator<{ text: string; usage?: TokenUsage }> {
  for (let word = 0; word < words; word++) yield { text: "word " };
  yield { text: "", usage: { input: 500, cachedInput: 100, output: words } };
}

/** Streams an answer, charged by its usage; `wordsRead`: the reader leaves after so many. */
async function answer(name: string, { words, wordsRead }: { words: number; wordsRead: number }): Promise<void> {
  const prompt = "p".repeat(2_400);
  const input = estimateTokens(prompt);
  const lease = await limiter.acquire({
    entityId: "key-1",
    resource: name,
    consume: count({ input, output: OUTPUT_MAX }, name),
  });
  const estimated = lease.consumed.usd ?? 0;
  let characters = 0;
  const stream = lease.track(model(words), {
    usageOf: ({ text, usage }) => {
      characters += text.length;
      return count(usage ?? { input, output: Math.ceil(characters / 4) }, name);
    },
  });
  let read = 0;
  for await (const _ of stream) if (++read === wordsRead) break;
  const left = read === wordsRead ? `, left after ${read} words` : "";
  console.log(`${name}: estimated ${usdText(estimated)}, came to ${usdText(lease.consumed.usd ?? 0)}${left}`);
}

const search = limitTool(async (_words: string) => "a page", {
  ...{ limiter, entityId: "key-1", resource: "tool:search" },
  consume: { calls: 1, usd: 0 },
});

async function refusedBy(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof RateLimitExceeded)) throw new Error(`not refused: ${String(error)}`);
  const { entityId, limit, resource } = error.primary;
  return `${limit} of ${entityId} on ${resource}`;
}

await answer("small-model-2026-08-07", { words: 120, wordsRead: Number.POSITIVE_INFINITY });
await answer("large-model", { words: 200, wordsRead: 40 });
for (let i = 0; i < 3; i++) await answer("large-model", { words: 200, wordsRead: Number.POSITIVE_INFINITY });
const tooMuch = answer("large-model", { words: 200, wordsRead: Number.POSITIVE_INFINITY });
console.log("refused by", await refusedBy(tooMuch));
console.log(await search("token buckets"), "was found, then refused by", await refusedBy(search("leaky buckets")));
const [budget] = await limiter.available({ entityId: "acme", resource: "*" });
console.log("left of the month:", usdText(budget?.available ?? 0), "of", usdText(budget?.capacity ?? 0));
await limiter.close();
