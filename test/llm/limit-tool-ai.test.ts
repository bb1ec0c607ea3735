import assert from "node:assert/strict";
import { test } from "node:test";
import { currentLease, Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";
import { limitTool } from "../../src/entry/llm.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { peersOf } from "./peers.ts";

type AiModule = typeof import("ai");
type Model = Parameters<AiModule["generateText"]>[0]["model"];

const USAGE = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };

/** A model that asks for a tool as often as it is asked itself, and then says what it was told. */
function modelThatSearches(): Model {
  let calls = 0;
  return {
    ...{ specificationVersion: "v3", provider: "fake", modelId: "fake", supportedUrls: {} },
    async doGenerate({ prompt }: { prompt: readonly { role: string; content: unknown }[] }) {
      const told = prompt.filter(({ role }) => role === "tool");
      const search = {
        type: "tool-call",
        toolCallId: String(++calls),
        toolName: "search",
        input: JSON.stringify({ words: "token buckets" }),
      };
      const content = told.length === 0 ? [search] : [{ type: "text", text: JSON.stringify(told.at(-1)?.content) }];
      const unified = told.length === 0 ? "tool-calls" : "stop";
      return { content, finishReason: { unified, raw: unified }, usage: USAGE, warnings: [] };
    },
  } as unknown as Model;
}

for (const { label, module } of peersOf<AiModule>("ai")) {
  const { generateText, jsonSchema, stepCountIs, tool } = module;

  test(`${label}: a limited tool is called by the SDK with what it gives to tools; a refusal is told to the model`, async () => {
    const clock = new SimulatedClock(1_800_000_000_000);
    const limiter = await RateLimiter.open({ store: "memory", clock });
    await limiter.setResourceDefaults("tool:search", [Limit.perMinute("calls", 2)]);
    const seen: unknown[] = [];
    const execute = limitTool(
      async ({ words }: { words: string }, { toolCallId }: { readonly toolCallId: string }) => {
        seen.push([words, toolCallId, currentLease()?.status]);
        if (seen.length === 1) throw new RangeError("the index is away");
        return `pages about ${words}`;
      },
      { limiter, entityId: "key-1", resource: "tool:search" },
    );
    const inputSchema = jsonSchema<{ words: string }>({ type: "object", properties: { words: { type: "string" } } });
    const search = tool({ description: "Searches", inputSchema, execute });
    const ask = async () => {
      const model = modelThatSearches();
      const { text, steps } = await generateText({
        ...{ model, prompt: "What is a token bucket?", tools: { search }, stopWhen: stepCountIs(3) },
      });
      const parts: readonly { readonly type: string; readonly error?: unknown }[] = steps[0]?.content ?? [];
      return { text, error: parts.find(({ type }) => type === "tool-error")?.error };
    };
    const left = async () => (await limiter.available({ entityId: "key-1", resource: "tool:search" }))[0]?.available;
    assert.ok((await ask()).error instanceof RangeError);
    assert.equal(await left(), 2, "given back");
    for (let i = 0; i < 2; i++) assert.match((await ask()).text, /pages about token buckets/);
    assert.equal(await left(), 0);
    const { error, text } = await ask();
    assert.ok(error instanceof RateLimitExceeded);
    assert.match(text, /Rate limit exceeded for key-1 on tool:search: calls; retry in 30 seconds/);
    assert.deepEqual(seen, Array(3).fill(["token buckets", "1", "open"]));
    await limiter.close();
  });
}
