import { OpenAI, RateLimitError } from "openai";
import { Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";
import { priceList, usd, usdText } from "../../src/entry/llm.ts";
import { limitOpenAI, refusalOf } from "../../src/entry/openai.ts";
import { startProvider } from "../fake-provider/provider.ts";

// A budget of one cent for a customer, over all models and keys; the provider is a stand-in on this machine.
// Run it: node examples/openai/main.ts

const provider = await startProvider(({ model }) => ({
  kind: "text",
  text: `An answer of ${model}.`,
  usage: { input: 1_000, cachedInput: 200, output: 400 },
}));
const prices = priceList({
  asOf: "2026-11-01",
  models: { "gpt-5": { input: 1.25, cachedInput: 0.125, output: 10 }, "gpt-5-mini": { input: 0.25, output: 2 } },
});

const limiter = await RateLimiter.open({ store: "memory" });
await limiter.createEntity({ id: "acme" });
await limiter.createEntity({ id: "key-1", parentId: "acme" });
await limiter.setTotals("acme", [Limit.quota("usd", usd(0.01), { reset: "monthly" })]);

const client = limitOpenAI(new OpenAI({ apiKey: "sk-none", baseURL: `${provider.url}/v1` }), {
  limiter,
  entityId: "key-1",
  weights: { usd: prices.weights },
});

const left = async () => {
  const [budget] = await limiter.available({ entityId: "acme", resource: "*" });
  return usdText(budget?.available ?? 0);
};

const messages = [{ role: "user" as const, content: "What is a token bucket?" }];
for (const model of ["gpt-5", "gpt-5-mini", "gpt-5"]) {
  try {
    const stream = await client.chat.completions.create({ model, messages, max_tokens: 500, stream: true });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    console.log(`${text} Left: ${await left()}`);
  } catch (error) {
    const refusal = refusalOf(error);
    if (!(error instanceof RateLimitError && refusal instanceof RateLimitExceeded)) throw error;
    const { entityId, available, requested } = refusal.primary;
    console.log(`${model}: ${entityId} has ${usdText(available)}, and the call may cost ${usdText(requested)}`);
  }
}
await limiter.close();
await provider.close();
