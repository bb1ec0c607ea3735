import { Anthropic, RateLimitError } from "@anthropic-ai/sdk";
import { limitAnthropic, refusalOf } from "../../src/entry/anthropic.ts";
import { Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";
import { startProvider } from "../fake-provider/provider.ts";

// Tokens a minute for a key, and a stream that is left early: what did not come is given back.
// Run it: node examples/anthropic/main.ts

const provider = await startProvider(() => ({
  kind: "text",
  text: "A bucket holds tokens, and time refills it.",
  usage: { input: 60, cachedInput: 140, output: 300 },
}));
const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => 0 } });
await limiter.setLimits("key-1", [Limit.perMinute("tpm", 1_000)]);
const client = limitAnthropic(new Anthropic({ apiKey: "sk-none", baseURL: provider.url }), {
  limiter,
  entityId: "key-1",
});

const model = "claude-sonnet-5";
const params = { model, max_tokens: 600, messages: [{ role: "user" as const, content: "What is a token bucket?" }] };
const left = async () => (await limiter.available({ entityId: "key-1", resource: model }))[0]?.available;

await client.messages.create(params);
console.log("a whole answer; left:", await left());

let text = "";
for await (const event of await client.messages.create({ ...params, max_tokens: 300, stream: true })) {
  if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text;
  if (text === "A bucket holds ") break;
}
// The lease of a stream that is left is settled a moment later.
while ((await left()) === 194) await new Promise((resolve) => setImmediate(resolve));
console.log("left after three words; left:", await left());

try {
  await client.messages.create(params);
} catch (error) {
  const refusal = refusalOf(error);
  if (!(error instanceof RateLimitError && refusal instanceof RateLimitExceeded)) throw error;
  console.log(`refused by ${refusal.primary.limit}; retry in ${refusal.retryAfterSeconds} s`);
}
await limiter.close();
await provider.close();
