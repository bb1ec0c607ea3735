import { generateText, wrapLanguageModel } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { rateLimitMiddleware } from "../../src/entry/ai.ts";
import { Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";

// Three calls a minute for each user, and tokens as they are used. The model is the stand-in of the AI SDK itself.
// Run it: node examples/ai/main.ts

const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => 0 } });
await limiter.setSystemDefaults([Limit.perMinute("rpm", 3), Limit.perMinute("tpm", 5_000)]);

const model = wrapLanguageModel({
  model: new MockLanguageModelV3({
    modelId: "small-1",
    doGenerate: async () => ({
      content: [{ type: "text", text: "A bucket of tokens." }],
      finishReason: { unified: "stop", raw: "stop" },
      usage: {
        inputTokens: { total: 90, noCache: 90, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 210, text: 210, reasoning: 0 },
      },
      warnings: [],
    }),
  }),
  middleware: rateLimitMiddleware({ limiter, entityId: "nobody" }),
});

for (let i = 1; i <= 4; i++) {
  try {
    const providerOptions = { zaeLimiter: { entityId: "ada" } };
    const { text } = await generateText({ model, prompt: "What is it?", maxOutputTokens: 500, providerOptions });
    const held = await limiter.available({ entityId: "ada", resource: "small-1" });
    console.log(`${text} Left: ${held.map(({ limit, available }) => `${available} ${limit}`).join(", ")}`);
  } catch (error) {
    if (!(error instanceof RateLimitExceeded)) throw error;
    console.log(`call ${i}: refused by ${error.primary.limit}; retry in ${error.retryAfterSeconds} s`);
  }
}
await limiter.close();
