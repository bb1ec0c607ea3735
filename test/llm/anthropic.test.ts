import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Middleware } from "@anthropic-ai/sdk";
import type { Answer, Call } from "../../examples/fake-provider/provider.ts";
import { type LimitModelOptions, limitAnthropic, refusalOf } from "../../src/entry/anthropic.ts";
import { Limit, RateLimitExceeded } from "../../src/entry/index.ts";
import {
  degradedEvents,
  eventually,
  KEY,
  limitedProvider,
  promised,
  TEXT,
  TEXT_ANSWER,
  thrownBy,
  USED,
} from "./limited-provider.ts";
import { peersOf } from "./peers.ts";

type AnthropicModule = typeof import("@anthropic-ai/sdk");

const MODEL = "claude-sonnet-5";
const ASKED = [{ role: "user" as const, content: "What is a token bucket?" }];
const INPUT = 6;

for (const { label, module } of peersOf<AnthropicModule>("@anthropic-ai/sdk")) {
  const { Anthropic, RateLimitError, APIError } = module;

  const setUp = async (
    t: TestContext,
    script: (call: Call) => Answer | Promise<Answer>,
    options: Partial<LimitModelOptions> = {},
  ) => {
    const on = await limitedProvider(t, script);
    const seen: string[] = [];
    const plain = new Anthropic({
      apiKey: "sk-test",
      baseURL: on.provider.url,
      middleware: [
        (request, next) => {
          seen.push(request.url);
          return next(request);
        },
      ],
    });
    const client = limitAnthropic(plain, { limiter: on.limiter, entityId: KEY, ...options });
    const params = { model: MODEL, max_tokens: 200, messages: ASKED };
    return { ...on, seen, plain, client, params, charged: (entity = KEY) => on.charged(entity, MODEL) };
  };

  test(`${label}: a message is settled by its usage, the thinking and both cache kinds once`, async (t) => {
    const weights = { tpm: { input: 1, cachedInput: 10, cacheWrite: 100, output: 1_000, reasoning: 0 } };
    const { client, plain, params, charged, seen, limiter } = await setUp(t, () => TEXT_ANSWER, { weights });
    await limiter.setLimits(KEY, [Limit.perMinute("tpm", 1_000_000)]);
    const message = await client.messages.create(params);
    assert.deepEqual(message.content, [{ type: "text", text: TEXT }]);
    assert.deepEqual(await charged(), { tpm: 100 + 400 + 800 + 30_000 });
    assert.ok(client instanceof Anthropic && client !== plain);
    assert.equal(seen.length, 1, "the middleware that the client has stays in use");
  });

  test(`${label}: streams, and the helper for them, are settled at their end`, async (t) => {
    const { client, params, charged } = await setUp(t, () => TEXT_ANSWER);
    for await (const _ of await client.messages.create({ ...params, stream: true }));
    assert.deepEqual(await charged(), { rpm: 1, tpm: USED });
    assert.equal(await client.messages.stream(params).finalText(), TEXT);
    assert.deepEqual(await charged(), { rpm: 2, tpm: 2 * USED });
  });

  test(`${label}: a stream that is left costs the reported input and what came`, async (t) => {
    const { client, params, charged } = await setUp(t, () => TEXT_ANSWER);
    let text = "";
    for await (const event of await client.messages.create({ ...params, stream: true })) {
      if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text;
      if (text === "A bucket ") break;
    }
    // 148 of input, of which the estimate knew 6, and 9 characters.
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: 148 + 3 }));
  });

  test(`${label}: a stream that is cut costs the reported input and what came`, async (t) => {
    const { client, params, charged } = await setUp(t, () => ({ ...TEXT_ANSWER, cutAfterWords: 2 }) as Answer);
    await assert.rejects(async () => {
      for await (const _ of await client.messages.create({ ...params, stream: true }));
    });
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: 148 + 3 }));
  });

  test(`${label}: a stream that is aborted is settled once`, async (t) => {
    const { client, params, charged, provider } = await setUp(
      t,
      () =>
        ({
          ...TEXT_ANSWER,
          pause: (word: number) => (word === 2 ? new Promise(() => {}) : Promise.resolve()),
        }) as Answer,
    );
    const stream = client.messages.stream(params);
    stream.on("text", (_, snapshot) => {
      if (snapshot === "A bucket ") stream.abort();
    });
    await assert.rejects(stream.done());
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: 148 + 3 }));
    assert.equal(await provider.calls[0]?.ended, "left");
  });

  test(`${label}: what is refused is not sent: the client's own error, and no second try`, async (t) => {
    const { client, params, limiter, provider } = await setUp(t, () => TEXT_ANSWER);
    await limiter.setLimits(KEY, [Limit.perMinute("tpm", 300)]);
    await client.messages.create(params);
    const error = await thrownBy(() => client.messages.create(params));
    assert.ok(error instanceof RateLimitError, String(error));
    assert.deepEqual([error.status, error.headers?.get("x-should-retry")], [429, "false"]);
    const refusal = refusalOf(error);
    assert.ok(refusal instanceof RateLimitExceeded && refusal.primary.limit === "tpm");
    assert.equal(provider.calls.length, 1);
    const never = await thrownBy(() => client.messages.create(params, { headers: { "zael-entity": "a b" } }));
    assert.ok(never instanceof APIError && never.status === 400, String(never));
    assert.equal(refusalOf(never)?.code, "entity_id_invalid");
  });

  test(`${label}: an overloaded provider (529) costs nothing, a broken connection its input, and the retry what it used`, async (t) => {
    const answers: Answer[] = [
      { kind: "error", status: 529, headers: { "retry-after-ms": "1" } },
      { kind: "cut" },
      TEXT_ANSWER,
    ];
    const { client, params, charged, provider } = await setUp(t, ({ number }) => answers[number - 1] as Answer);
    await client.messages.create(params);
    assert.equal(provider.calls.length, 3);
    assert.deepEqual(await charged(), { rpm: 2, tpm: INPUT + USED });
  });

  test(`${label}: without a usage the estimate stays, and degraded says so`, async (t) => {
    const told = degradedEvents(t);
    const { client, params, charged } = await setUp(t, () => ({ ...TEXT_ANSWER, usage: "missing" }) as Answer);
    for await (const _ of await client.messages.create({ ...params, stream: true }));
    assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 200 });
    assert.equal(told.length, 1);
  });

  test(`${label}: one call may name its entity, which the provider does not see; other calls pass`, async (t) => {
    const gate = promised();
    const { client, params, charged, provider } = await setUp(
      t,
      () => ({ ...TEXT_ANSWER, pause: () => gate.promise }) as Answer,
    );
    const asked = client.messages.create(params, { headers: { "zael-entity": "key-2" } });
    await eventually(async () => assert.deepEqual(await charged("key-2"), { rpm: 1, tpm: INPUT + 200 }));
    gate.keep();
    await asked;
    assert.equal(provider.calls[0]?.headers["zael-entity"], undefined);
    await client.messages.countTokens({ model: MODEL, messages: ASKED });
    assert.deepEqual(
      [await charged(), await charged("key-2")],
      [
        { rpm: 0, tpm: 0 },
        { rpm: 1, tpm: USED },
      ],
    );
  });

  test(`${label}: a client for Bedrock is limited before its requests are rewritten and signed`, async (t) => {
    const { provider, limiter, params, charged } = await setUp(t, () => TEXT_ANSWER);
    const wire: unknown[] = [];
    /** What the clients for other backends do: their package is not needed to do it. */
    class Bedrock extends Anthropic {
      protected override backendMiddleware(): readonly Middleware[] {
        return [
          (request, next) => {
            const { model, stream, ...body } = JSON.parse(String(request.body));
            const url = `${provider.url}/model/${model}/${stream ? "invoke-with-response-stream" : "invoke"}`;
            const headers = new Headers(request.headers);
            headers.set("authorization", "AWS4-HMAC-SHA256 Credential=signed");
            const rewritten = { anthropic_version: "bedrock-2023-05-31", ...body };
            return next({ ...request, url, headers, body: JSON.stringify(rewritten) });
          },
        ];
      }
    }
    /** Stands in for Bedrock before the provider of these tests. */
    const bedrock: typeof fetch = (url, init) => {
      const { pathname } = new URL(String(url));
      const { anthropic_version, ...body } = JSON.parse(String(init?.body));
      const sent = new Headers(init?.headers);
      wire.push([pathname, anthropic_version, sent.get("authorization")?.slice(0, 16), sent.has("zael-entity")]);
      const stream = pathname.endsWith("stream");
      return fetch(`${provider.url}/v1/messages`, {
        method: "POST",
        body: JSON.stringify({ ...body, model: MODEL, stream }),
        signal: init?.signal ?? null,
      });
    };
    const client = limitAnthropic(new Bedrock({ apiKey: "sk-test", fetch: bedrock, maxRetries: 0 }), {
      limiter,
      entityId: "somebody",
    });
    assert.ok(client instanceof Bedrock);
    const named = { headers: { "zael-entity": KEY } };
    await client.messages.create(params, named);
    assert.deepEqual(await charged(), { rpm: 1, tpm: USED });
    for await (const _ of await client.messages.create({ ...params, stream: true }, named));
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 2, tpm: 2 * USED }));
    assert.deepEqual(wire, [
      [`/model/${MODEL}/invoke`, "bedrock-2023-05-31", "AWS4-HMAC-SHA256", false],
      [`/model/${MODEL}/invoke-with-response-stream`, "bedrock-2023-05-31", "AWS4-HMAC-SHA256", false],
    ]);
    await limiter.setLimits(KEY, [Limit.perMinute("tpm", 1)]);
    await assert.rejects(() => client.messages.create(params, named), APIError);
    assert.equal(wire.length, 2, "nothing was sent");
  });
}
