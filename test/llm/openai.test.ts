import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answer, Call } from "../../examples/fake-provider/provider.ts";
import { warnThrough } from "../../src/adapters/system/environment.ts";
import {
  Limit,
  RateLimitExceeded,
  RateLimiter,
  ResourceDisabled,
  type ValidationError,
} from "../../src/entry/index.ts";
import { type LimitModelOptions, limitOpenAI, refusalOf } from "../../src/entry/openai.ts";
import {
  degradedEvents,
  eventually,
  KEY,
  limitedProvider,
  MODEL,
  promised,
  TEXT,
  TEXT_ANSWER,
  TPM,
  thrownBy,
  USED,
} from "./limited-provider.ts";
import { peersOf } from "./peers.ts";

type OpenAIModule = typeof import("openai");
type Script = (call: Call) => Answer | Promise<Answer>;

const ASKED = [{ role: "user" as const, content: "What is a token bucket?" }];
const INPUT = 6;

for (const { label, module } of peersOf<OpenAIModule>("openai")) {
  const { OpenAI, AzureOpenAI, RateLimitError, BadRequestError, PermissionDeniedError, APIError } = module;

  const setUp = async (
    t: Parameters<typeof limitedProvider>[0],
    script: Script,
    options: Partial<LimitModelOptions> = {},
  ) => {
    const on = await limitedProvider(t, script);
    const plain = new OpenAI({ apiKey: "sk-test", baseURL: `${on.provider.url}/v1` });
    const client = limitOpenAI(plain, { limiter: on.limiter, entityId: KEY, ...options });
    const chat = (more: object = {}) =>
      client.chat.completions.create({ model: MODEL, messages: ASKED, max_tokens: 200, ...more });
    const stream = (more: object = {}, request: object = {}) =>
      client.chat.completions.create(
        { model: MODEL, messages: ASKED, max_tokens: 200, stream: true, ...more },
        request,
      );
    return { ...on, plain, client, chat, stream };
  };

  test(`${label}: an answer is settled by the usage that is reported, each kind once`, async (t) => {
    const { chat, charged, client, plain, provider } = await setUp(t, () => TEXT_ANSWER);
    const reply = await chat();
    assert.equal(reply.choices[0]?.message.content, TEXT);
    assert.deepEqual(await charged(), { rpm: 1, tpm: USED });
    assert.ok(client instanceof OpenAI && client !== plain);
    assert.equal(provider.calls[0]?.headers["zael-entity"], undefined);
  });

  test(`${label}: responses, whole and streamed, and embeddings are metered; other calls pass`, async (t) => {
    const { client, charged } = await setUp(t, () => TEXT_ANSWER);
    const reply = await client.responses.create({ model: MODEL, input: "Say it." });
    assert.equal(reply.output_text, TEXT);
    assert.deepEqual(await charged(), { rpm: 1, tpm: USED });
    let text = "";
    for await (const event of await client.responses.create({ model: MODEL, input: "Say it.", stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    assert.equal(text, TEXT);
    assert.deepEqual(await charged(), { rpm: 2, tpm: 2 * USED });
    const { data } = await client.embeddings.create({ model: "embed-1", input: ["a", "b"] });
    assert.deepEqual(
      data.map(({ embedding }) => embedding),
      [
        [0.5, -0.25],
        [0.5, -0.25],
      ],
    );
    assert.deepEqual(await charged(KEY, "embed-1"), { rpm: 1, tpm: 148 });
    await client.models.list();
    assert.deepEqual(await charged(), { rpm: 2, tpm: 2 * USED });
  });

  test(`${label}: kinds are weighed apart, and prices in micro-dollars`, async (t) => {
    const weights = { usd: { input: 2.5, cachedInput: 0.25, cacheWrite: 3, output: 10, reasoning: 10 } };
    const { limiter, chat, charged } = await setUp(t, () => TEXT_ANSWER, { weights });
    await limiter.setTotals(KEY, [Limit.quota("usd", 1_000_000, { reset: "monthly" })]);
    await chat();
    // 100 x 2.5 + 40 x 0.25 + 8 x 3 + 35 x 10
    assert.equal((await charged()).usd, 634);
    assert.equal((await charged()).tpm, 0);
  });

  test(`${label}: a measure that no level counts is left out, and one that only a parent counts is not`, async (t) => {
    const weights = { tpm: { input: 1, output: 1 }, usd: { output: 10 }, cents: { output: 1 } };
    const { limiter, chat, charged } = await setUp(t, () => TEXT_ANSWER, { weights, entityId: "child" });
    await limiter.createEntity({ id: "acme" });
    await limiter.createEntity({ id: "child", parentId: "acme" });
    await limiter.setTotals("acme", [Limit.quota("cents", 1_000, { reset: "monthly" })]);
    await chat();
    const [own, all] = [await charged("child"), await charged("acme")];
    assert.deepEqual([own.tpm, all.cents, "usd" in all], [130, 30, false]);
  });

  test(`${label}: a budget of another name than the weight is warned of at its first call, or refused`, async (t) => {
    const weights = { rpm: { requests: 1 }, tpm: { output: 1 }, usd: { output: 10 } };
    const { limiter, chat } = await setUp(t, () => TEXT_ANSWER, { weights });
    await limiter.setTotals(KEY, [Limit.quota("budget_usd", 1, { reset: "monthly" })]);
    const told: string[] = [];
    t.after(warnThrough((line) => told.push(line)));
    for (let i = 0; i < 2; i++) await chat();
    assert.equal(told.length, 1, told.join("\n"));
    assert.match(
      told[0] ?? "",
      /budget_usd of key-1 counts it\. usd is used, and nothing counts it: if budget_usd is meant/,
    );
    // Without a hard limit that could be meant, the weight itself is told.
    const again = await setUp(t, () => TEXT_ANSWER, { weights });
    await again.limiter.setTotals(KEY, [Limit.quota("budget_usd", 1, { reset: "monthly", soft: true })]);
    for (let i = 0; i < 2; i++) await again.chat();
    assert.equal(told.length, 2, told.join("\n"));
    assert.match(told[1] ?? "", /^ZAEL_LIMIT_UNNAMED: No limit "usd" applies to key-1/);
    const strict = await RateLimiter.open({ store: "memory", strict: true });
    t.after(() => strict.close());
    await strict.createEntity({ id: KEY });
    await strict.setSystemDefaults([Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 10_000)]);
    const refusing = await setUp(t, () => TEXT_ANSWER, { weights, limiter: strict });
    const unknown = await thrownBy(() => refusing.chat());
    assert.equal((refusalOf(unknown) as ValidationError).code, "limit_unknown");
    await strict.setTotals(KEY, [Limit.quota("budget_usd", 1, { reset: "monthly" })]);
    const missing = await thrownBy(() => refusing.chat());
    assert.equal((refusalOf(missing) as ValidationError).code, "measure_missing");
    assert.equal(refusing.provider.calls.length, 0);
    // Default weights are nobody's word for a limit on each of them.
    await strict.setTotals(KEY, [Limit.quota("tokens", 10_000, { reset: "monthly", counts: "tpm" })]);
    await strict.setLimits(KEY, [Limit.perMinute("tpm", 10_000)]);
    await (await setUp(t, () => TEXT_ANSWER, { limiter: strict })).chat();
    assert.equal(told.length, 2);
  });

  test(`${label}: what is refused is not sent: the client's own error, and no second try`, async (t) => {
    const { limiter, chat, charged, provider } = await setUp(t, () => TEXT_ANSWER);
    await limiter.setLimits(KEY, [Limit.perMinute("tpm", 300)]);
    await chat();
    const error = await thrownBy(() => chat({ max_tokens: 250 }));
    assert.ok(error instanceof RateLimitError, String(error));
    assert.equal(error.status, 429);
    assert.deepEqual([error.headers?.get("retry-after"), error.headers?.get("x-should-retry")], ["28", "false"]);
    const refusal = refusalOf(error);
    assert.ok(refusal instanceof RateLimitExceeded);
    assert.deepEqual([refusal.primary.limit, refusal.primary.requested], ["tpm", 256]);
    assert.equal(provider.calls.length, 1);
    assert.deepEqual(await charged(), { tpm: USED });
    assert.equal(refusalOf(new Error("another")), undefined);
  });

  test(`${label}: every error of the limiter comes as the client's error of its status, untried`, async (t) => {
    const { limiter, chat, client, provider, charged } = await setUp(t, () => TEXT_ANSWER);
    await limiter.setAccess({ resource: MODEL }, "disabled");
    const disabled = await thrownBy(chat);
    assert.ok(disabled instanceof PermissionDeniedError, String(disabled));
    assert.ok(refusalOf(disabled) instanceof ResourceDisabled);
    const priceless = limitOpenAI(client, {
      limiter,
      entityId: KEY,
      weights: () => {
        throw new Error("no price");
      },
    });
    const missing = await thrownBy(() => priceless.embeddings.create({ model: "embed-1", input: "a" }));
    assert.ok(missing instanceof BadRequestError, String(missing));
    assert.equal(refusalOf(missing)?.code, "option_threw");
    await limiter.close();
    const closed = await thrownBy(() => client.embeddings.create({ model: "embed-1", input: "a" }));
    assert.ok(closed instanceof APIError && closed.status === 503, String(closed));
    assert.equal(refusalOf(closed)?.code, "closed");
    assert.equal(provider.calls.length, 0);
    void charged;
  });

  test(`${label}: a stream is settled at its end by the usage that was asked for in secret`, async (t) => {
    const { stream, charged, provider } = await setUp(t, () => TEXT_ANSWER);
    let text = "";
    let withoutChoices = 0;
    for await (const chunk of await stream()) {
      text += chunk.choices[0]?.delta.content ?? "";
      if (chunk.choices.length === 0) withoutChoices++;
    }
    assert.equal(text, TEXT);
    assert.equal(withoutChoices, 0);
    assert.deepEqual(provider.calls[0]?.params.stream_options, { include_usage: true });
    assert.deepEqual(await charged(), { rpm: 1, tpm: USED });
    let asked = 0;
    for await (const chunk of await stream({ stream_options: { include_usage: true } })) {
      if (chunk.usage !== null && chunk.usage !== undefined) asked++;
    }
    assert.equal(asked, 1, "who asks for it gets it");
  });

  test(`${label}: a chunk is passed on as soon as it is there`, async (t) => {
    const second = promised();
    const { stream } = await setUp(
      t,
      () =>
        ({
          ...TEXT_ANSWER,
          pause: async (word: number) => (word === 1 ? second.promise : undefined),
        }) as Answer,
    );
    let text = "";
    for await (const chunk of await stream()) {
      text += chunk.choices[0]?.delta.content ?? "";
      if (text !== "") second.keep();
    }
    assert.equal(text, TEXT);
  });

  test(`${label}: a stream that is left by break costs its input and what came`, async (t) => {
    const { stream, charged, provider } = await setUp(t, () => TEXT_ANSWER);
    let text = "";
    for await (const chunk of await stream()) {
      text += chunk.choices[0]?.delta.content ?? "";
      if (text === "A bucket ") break;
    }
    // 9 characters are 3 tokens.
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 3 }));
    void provider;
  });

  test(`${label}: a stream that is aborted costs what came, also where nothing reads it`, async (t) => {
    const { stream, charged, provider } = await setUp(
      t,
      () =>
        ({
          ...TEXT_ANSWER,
          pause: (word: number) => (word === 2 ? new Promise(() => {}) : Promise.resolve()),
        }) as Answer,
    );
    const controller = new AbortController();
    let text = "";
    const reading = (async () => {
      for await (const chunk of await stream({}, { signal: controller.signal })) {
        text += chunk.choices[0]?.delta.content ?? "";
        if (text === "A bucket ") controller.abort();
      }
    })();
    await reading.catch(() => {});
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 3 }));
    assert.equal(await provider.calls[0]?.ended, "left");
  });

  test(`${label}: a stream that is cut in the middle costs what came`, async (t) => {
    const { stream, charged } = await setUp(t, () => ({ ...TEXT_ANSWER, cutAfterWords: 2 }) as Answer);
    await assert.rejects(async () => {
      for await (const _ of await stream());
    });
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 3 }));
  });

  test(`${label}: a client that cancels the raw stream is settled, too`, async (t) => {
    const { client, charged } = await setUp(t, () => TEXT_ANSWER);
    const { response } = await client.chat.completions
      .create({ model: MODEL, messages: ASKED, max_tokens: 200, stream: true })
      .withResponse();
    assert.equal(response.status, 200);
    await response.body?.cancel();
    await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT }));
  });

  test(`${label}: each try that was sent is charged, and one that the provider answers by an error is not`, async (t) => {
    const answers: Answer[] = [
      { kind: "cut" },
      { kind: "error", status: 500, headers: { "retry-after-ms": "1" } },
      TEXT_ANSWER,
    ];
    const { chat, charged, provider } = await setUp(t, ({ number }) => answers[number - 1] as Answer);
    await chat();
    assert.equal(provider.calls.length, 3);
    assert.deepEqual(await charged(), { rpm: 2, tpm: INPUT + USED });
  });

  test(`${label}: a call that the provider rejects costs nothing`, async (t) => {
    const { chat, charged } = await setUp(t, () => ({ kind: "error", status: 400 }));
    assert.ok((await thrownBy(chat)) instanceof BadRequestError);
    assert.deepEqual(await charged(), { rpm: 0, tpm: 0 });
  });

  test(`${label}: without a usage the estimate stays, and degraded says so`, async (t) => {
    const told = degradedEvents(t);
    const { chat, stream, charged } = await setUp(t, () => ({ ...TEXT_ANSWER, usage: "missing" }) as Answer);
    await chat();
    assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 200 });
    for await (const _ of await stream());
    assert.deepEqual(await charged(), { rpm: 2, tpm: 2 * (INPUT + 200) });
    assert.deepEqual(
      told.map(({ entityId, resource }) => [entityId, resource]),
      [
        [KEY, MODEL],
        [KEY, MODEL],
      ],
    );
    assert.match(told[0]?.reason ?? "", /reported no usage/);
  });

  test(`${label}: another model after a failure is charged on its own resource`, async (t) => {
    const { chat, charged } = await setUp(t, ({ model }) =>
      model === "big" ? { kind: "error", status: 400 } : TEXT_ANSWER,
    );
    await thrownBy(() => chat({ model: "big" }));
    await chat();
    assert.deepEqual(
      [await charged(KEY, "big"), await charged()],
      [
        { rpm: 0, tpm: 0 },
        { rpm: 1, tpm: USED },
      ],
    );
  });

  test(`${label}: the estimate is the call's own maximum, 1,024 without one, at most what the limit holds`, async (t) => {
    const gate = promised();
    const { limiter, client, charged } = await setUp(
      t,
      () => ({ ...TEXT_ANSWER, pause: () => gate.promise }) as Answer,
    );
    await limiter.setLimits("small", [Limit.perMinute("tpm", 50)]);
    await limiter.setLimits("no-max", [Limit.perMinute("tpm", TPM)]);
    // One call names its entity; the provider does not see it.
    const of = (entity: string, more: object) =>
      client.chat.completions.create(
        { model: MODEL, messages: ASKED, ...more },
        { headers: { "zael-entity": entity } },
      );
    const calls = [of("small", { max_tokens: 200 }), of("no-max", {}), of("own", { max_completion_tokens: 300, n: 2 })];
    await eventually(async () => {
      assert.deepEqual(
        [await charged("small"), await charged("no-max"), (await charged("own")).tpm],
        [{ tpm: 50 }, { tpm: INPUT + 1_024 }, INPUT + 600],
      );
    });
    gate.keep();
    await Promise.all(calls);
    assert.deepEqual(await charged("small"), { tpm: USED });
  });

  test(`${label}: Azure's client is limited, and keeps its deployment, its version and its key`, async (t) => {
    const { limiter, provider, charged } = await setUp(t, () => TEXT_ANSWER);
    const azure = { apiVersion: "2026-01-01", endpoint: provider.url, deployment: "mine" };
    for (const key of [{ apiKey: "k" }, { azureADTokenProvider: async () => "token" }]) {
      const client = limitOpenAI(new AzureOpenAI({ ...azure, ...key }), { limiter, entityId: KEY });
      assert.ok(client instanceof AzureOpenAI);
      await client.chat.completions.create({ model: MODEL, messages: ASKED });
    }
    assert.equal(provider.calls[0]?.path, "/openai/deployments/mine/chat/completions?api-version=2026-01-01");
    assert.deepEqual(
      provider.calls.map(({ headers }) => headers["api-key"] ?? headers.authorization),
      ["k", "Bearer token"],
    );
    assert.deepEqual(await charged(), { rpm: 2, tpm: 2 * USED });
  });

  test(`${label}: the fetch that the client has stays in use`, async (t) => {
    const { limiter, provider, charged } = await setUp(t, () => TEXT_ANSWER);
    let used = 0;
    const own: typeof fetch = (url, init) => {
      used++;
      return fetch(url, init);
    };
    const plain = new OpenAI({ apiKey: async () => "rotated", baseURL: `${provider.url}/v1`, fetch: own });
    await limitOpenAI(plain, { limiter, entityId: KEY }).embeddings.create({ model: "embed-1", input: "a" });
    assert.deepEqual([used, provider.calls[0]?.headers.authorization], [1, "Bearer rotated"]);
    assert.deepEqual(await charged(KEY, "embed-1"), { rpm: 1, tpm: 148 });
  });
}
