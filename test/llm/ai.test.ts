import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Answer, Call } from "../../examples/fake-provider/provider.ts";
import { type LimitModelOptions, rateLimitMiddleware } from "../../src/entry/ai.ts";
import { Limit, RateLimitExceeded } from "../../src/entry/index.ts";
import { chatModel } from "./chat-model.ts";
import {
  degradedEvents,
  eventually,
  KEY,
  limitedProvider,
  MODEL,
  TEXT,
  TEXT_ANSWER,
  thrownBy,
  USED,
} from "./limited-provider.ts";
import { peersOf } from "./peers.ts";

type AiModule = typeof import("ai");
type Model = Parameters<AiModule["wrapLanguageModel"]>[0]["model"];

const PROMPT = "What is a token bucket?";
const INPUT = 6;

for (const { label, module } of peersOf<AiModule>("ai")) {
  const { APICallError, generateText, streamText, wrapLanguageModel } = module;

  const setUp = async (
    t: TestContext,
    script: (call: Call) => Answer | Promise<Answer>,
    options: Partial<LimitModelOptions> = {},
  ) => {
    const on = await limitedProvider(t, script);
    const middleware = rateLimitMiddleware({ limiter: on.limiter, entityId: KEY, ...options });
    const wrapped = (modelId: string) =>
      wrapLanguageModel({ model: chatModel(on.provider.url, modelId, APICallError) as unknown as Model, middleware });
    const asked = { model: wrapped(MODEL), prompt: PROMPT, maxOutputTokens: 200 };
    return { ...on, wrapped, asked };
  };

  test(`${label}: a text is settled by its usage, cached and reasoning kinds apart`, async (t) => {
    const weights = { tpm: { input: 1, cachedInput: 10, cacheWrite: 100, output: 1_000, reasoning: 0 } };
    const { asked, charged, limiter } = await setUp(t, () => TEXT_ANSWER, { weights });
    await limiter.setLimits(KEY, [Limit.perMinute("tpm", 1_000_000)]);
    assert.equal((await generateText(asked)).text, TEXT);
    assert.deepEqual(await charged(), { tpm: 100 + 400 + 800 + 30_000 });
  });

  test(`${label}: a stream is settled at its end`, async (t) => {
    const { asked, charged } = await setUp(t, () => TEXT_ANSWER);
    let text = "";
    for await (const delta of streamText(asked).textStream) text += delta;
    assert.equal(text, TEXT);
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: USED }));
  });

  test(`${label}: a stream that is aborted costs its input and what came`, async (t) => {
    const { asked, charged } = await setUp(
      t,
      () =>
        ({
          ...TEXT_ANSWER,
          pause: (word: number) => (word === 2 ? new Promise(() => {}) : Promise.resolve()),
        }) as Answer,
    );
    const controller = new AbortController();
    let text = "";
    const { textStream } = streamText({ ...asked, abortSignal: controller.signal, onError: () => {} });
    for await (const delta of textStream) {
      text += delta;
      if (text === "A bucket ") controller.abort();
    }
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 3 }));
  });

  test(`${label}: a stream that is cut costs its input and what came`, async (t) => {
    const { asked, charged } = await setUp(t, () => ({ ...TEXT_ANSWER, cutAfterWords: 2 }) as Answer);
    const { textStream } = streamText({ ...asked, onError: () => {} });
    await assert.rejects(async () => {
      for await (const _ of textStream);
    });
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 3 }));
  });

  test(`${label}: what is refused is not sent and not tried again: RateLimitExceeded itself is thrown`, async (t) => {
    const { asked, limiter, provider } = await setUp(t, () => TEXT_ANSWER);
    await limiter.setLimits(KEY, [Limit.perMinute("tpm", 300)]);
    await generateText(asked);
    const error = await thrownBy(() => generateText(asked));
    assert.ok(error instanceof RateLimitExceeded, String(error));
    assert.equal(error.primary.limit, "tpm");
    assert.equal(provider.calls.length, 1);
  });

  test(`${label}: a retry of the SDK is charged once`, async (t) => {
    const answers: Answer[] = [{ kind: "error", status: 500, headers: { "retry-after-ms": "1" } }, TEXT_ANSWER];
    const { asked, charged, provider } = await setUp(t, ({ number }) => answers[number - 1] as Answer);
    await generateText(asked);
    assert.equal(provider.calls.length, 2);
    assert.deepEqual(await charged(), { rpm: 1, tpm: USED });
  });

  test(`${label}: a provider's 429 is given back and empties the provider's bucket`, async (t) => {
    const headers = { "retry-after": "2" };
    const { asked, charged, limiter } = await setUp(t, () => ({ kind: "error", status: 429, headers }), {
      provider: { entityId: "openai" },
    });
    await limiter.setLimits("openai", [Limit.perMinute("tpm", 60_000)]);
    await thrownBy(() => generateText({ ...asked, maxRetries: 0 }));
    assert.deepEqual([await charged(), await charged("openai")], [{ rpm: 0, tpm: 0 }, { tpm: 62_000 }]);
  });

  test(`${label}: another model after a failure is charged on its own resource`, async (t) => {
    const { asked, wrapped, charged } = await setUp(t, ({ model }) =>
      model === "big" ? { kind: "error", status: 400 } : TEXT_ANSWER,
    );
    await thrownBy(() => generateText({ ...asked, model: wrapped("big") }));
    await generateText(asked);
    assert.deepEqual(
      [await charged(KEY, "big"), await charged()],
      [
        { rpm: 0, tpm: 0 },
        { rpm: 1, tpm: USED },
      ],
    );
  });

  test(`${label}: without a usage the estimate stays, and degraded says so; one call may name its entity`, async (t) => {
    const told = degradedEvents(t);
    const { asked, charged } = await setUp(t, () => ({ ...TEXT_ANSWER, usage: "missing" }) as Answer);
    await generateText({ ...asked, providerOptions: { zaeLimiter: { entityId: "key-2" } } });
    assert.deepEqual(
      [await charged(), await charged("key-2")],
      [
        { rpm: 0, tpm: 0 },
        { rpm: 1, tpm: INPUT + 200 },
      ],
    );
    assert.equal(told.length, 1);
  });
}
