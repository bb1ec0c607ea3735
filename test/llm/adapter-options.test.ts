import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import { type TestContext, test } from "node:test";
import { OpenAI, RateLimitError } from "openai";
import type { Answer, Call } from "../../examples/fake-provider/provider.ts";
import {
  type Acquiring,
  CHANNELS,
  Limit,
  RateLimitExceeded,
  RateLimiter,
  type RefusedEvent,
  ValidationError,
} from "../../src/entry/index.ts";
import { learnedEstimate } from "../../src/entry/llm.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { type LimitModelOptions, limitOpenAI, refusalOf } from "../../src/entry/openai.ts";
import { FaultStore, SeededRandom } from "../../src/entry/testing.ts";
import {
  eventually,
  KEY,
  limitedProvider,
  MODEL,
  promised,
  TEXT_ANSWER,
  TPM,
  thrownBy,
  USED,
} from "./limited-provider.ts";

// Rows of the options that do not depend on the client: with the newest OpenAI client, over HTTP.

const ASKED = [{ role: "user" as const, content: "What is a token bucket?" }];
const INPUT = 6;
const PARAMS = { model: MODEL, messages: ASKED, max_tokens: 200 };

async function setUp(
  t: TestContext,
  script: (call: Call) => Answer | Promise<Answer>,
  options: Partial<LimitModelOptions> = {},
) {
  const on = await limitedProvider(t, script);
  const plain = new OpenAI({ apiKey: "sk-test", baseURL: `${on.provider.url}/v1`, maxRetries: 0 });
  const limit = (more: Partial<LimitModelOptions>) =>
    limitOpenAI(plain, { limiter: on.limiter, entityId: KEY, ...options, ...more });
  const client = limit({});
  return {
    ...on,
    plain,
    limit,
    client,
    chat: (more: object = {}) => client.chat.completions.create({ ...PARAMS, ...more }),
  };
}

test("options are checked when the client is made, not at its first call", async (t) => {
  const { limit, plain, limiter } = await setUp(t, () => TEXT_ANSWER);
  const wrong: [Record<string, unknown>, string, RegExp][] = [
    [{ limiter: 7 }, "options_invalid", /limiter of limitOpenAI is 7; give a RateLimiter/],
    [{ entityId: undefined }, "options_invalid", /entityId of limitOpenAI is undefined/],
    [{ resource: "" }, "options_invalid", /resource/],
    [{ estimate: 5 }, "options_invalid", /estimate .* learnedEstimate/],
    [{ outputDefault: -1 }, "options_invalid", /outputDefault/],
    [{ clampMaxMs: "1s" }, "options_invalid", /clampMaxMs/],
    [{ provider: { resource: "x" } }, "options_invalid", /provider.entityId/],
    [{ provider: { entityId: "x", limit: 1 } }, "option_unknown", /limit/],
    [{ wait: { maxMs: -1 } }, "options_invalid", /wait.maxMs/],
    [{ onUnavailable: "maybe" }, "options_invalid", /onUnavailable/],
    [{ shadow: 1 }, "options_invalid", /shadow/],
    [{ weights: { tpm: { tokens: 1 } } }, "weights_invalid", /tokens/],
    [{ entity: "key-1" }, "option_unknown", /entity/],
  ];
  for (const [more, code, message] of wrong) {
    assert.throws(
      () => limit(more as Partial<LimitModelOptions>),
      (error: ValidationError) => {
        assert.ok(error instanceof ValidationError, String(error));
        assert.equal(error.code, code, JSON.stringify(more));
        assert.match(error.message, message);
        return true;
      },
    );
  }
  const options = { limiter, entityId: KEY };
  assert.throws(() => limitOpenAI({} as OpenAI, options), { code: "client_invalid" });
  const strict = { ...plain, withOptions: () => assert.fail("no other fetch") };
  assert.throws(() => limitOpenAI(strict, options), { code: "fetch_unsupported", message: /no other fetch/ });
});

test("entity and resource may be functions of the call, and the limiter a promise", async (t) => {
  const { limit, charged, limiter } = await setUp(t, () => TEXT_ANSWER);
  const client = limit({
    limiter: Promise.resolve(limiter),
    entityId: async ({ params }) => `user-${params.user}`,
    resource: ({ model }) => `llm:${model}`,
  });
  await client.chat.completions.create({ ...PARAMS, user: "7" });
  assert.deepEqual(await charged("user-7", `llm:${MODEL}`), { rpm: 1, tpm: USED });
});

test("a limiter that could not be opened is told by each call, and is no unhandled rejection", async (t) => {
  const { limit, provider } = await setUp(t, () => TEXT_ANSWER);
  const limiter = Promise.reject(new ValidationError("store_invalid", "no such store"));
  const error = await thrownBy(() => limit({ limiter }).chat.completions.create(PARAMS));
  assert.equal(refusalOf(error)?.code, "store_invalid");
  assert.equal(provider.calls.length, 0);
});

test("a model whose id is no resource is charged under the name that resourceOf makes of it", async (t) => {
  const { chat, charged } = await setUp(t, () => TEXT_ANSWER);
  await chat({ model: "tuned model" });
  assert.deepEqual(await charged(KEY, "text:tuned_20model"), { rpm: 1, tpm: USED });
});

test("an estimate of one's own is charged as it is, requests once", async (t) => {
  const gate = promised();
  const { chat, charged } = await setUp(t, () => ({ ...TEXT_ANSWER, pause: () => gate.promise }) as Answer, {
    estimate: async (params) => ({ input: 11, output: Number(params.max_tokens) }),
  });
  const asked = chat();
  await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: 211 }));
  gate.keep();
  await asked;
  assert.deepEqual(await charged(), { rpm: 1, tpm: USED });
});

test("an estimate that learns is charged by what calls came to, and is told what they came to", async (t) => {
  const gates = [promised()];
  const estimate = learnedEstimate();
  const { chat, charged, clock } = await setUp(
    t,
    ({ number }) => ({ ...TEXT_ANSWER, pause: async () => (number > 20 ? gates[0]?.promise : undefined) }) as Answer,
    { estimate },
  );
  for (let call = 0; call < 20; call++) {
    await chat();
    clock.nowMs += 60_000;
  }
  assert.deepEqual(estimate.stats()[MODEL], { calls: 20, estimated: 4_000, actual: 700, over: 3_300, under: 0 });
  const asked = chat();
  await eventually(async () => assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 35 }));
  gates[0]?.keep();
  await asked;
});

test("the provider's budget is taken in the same take; where it refuses nothing is taken, and the error names it", async (t) => {
  const { chat, charged, limiter, provider } = await setUp(t, () => TEXT_ANSWER, { provider: { entityId: "openai" } });
  await limiter.setLimits("openai", [Limit.perMinute("tpm", 300)]);
  await chat();
  assert.deepEqual([await charged(), await charged("openai")], [{ rpm: 1, tpm: USED }, { tpm: USED }]);
  const refusal = refusalOf(await thrownBy(chat));
  assert.ok(refusal instanceof RateLimitExceeded);
  assert.equal(refusal.primary.entityId, "openai");
  assert.deepEqual(await charged(), { rpm: 1, tpm: USED });
  assert.equal(provider.calls.length, 1);
});

const THROTTLED: [string, Record<string, string>, number][] = [
  ["retry-after-ms", { "retry-after-ms": "1500" }, 1_500],
  ["retry-after in seconds", { "retry-after": "3" }, 3_000],
  [
    "retry-after as a date",
    { date: "Thu, 01 Jan 2026 12:00:00 GMT", "retry-after": "Thu, 01 Jan 2026 12:00:05 GMT" },
    5_000,
  ],
  ["a time beyond clampMaxMs", { "retry-after": "3600" }, 60_000],
];

for (const [what, headers, waitMs] of THROTTLED) {
  test(`a provider's 429 with ${what} empties its bucket for so long, for every process, and ends by itself`, async (t) => {
    const { chat, charged, limiter, clock, provider } = await setUp(
      t,
      ({ number }) => (number === 1 ? { kind: "error", status: 429, headers } : TEXT_ANSWER),
      { provider: { entityId: "openai", resource: "all" } },
    );
    await limiter.setLimits("openai", [Limit.perMinute("tpm", 60_000)]);
    assert.ok((await thrownBy(chat)) instanceof RateLimitError);
    assert.deepEqual(await charged(), { rpm: 0, tpm: 0 }, "the tenant pays nothing");
    const ask = () => limiter.tryAcquire({ entityId: "openai", resource: "all", consume: { tpm: 1 } });
    clock.nowMs += waitMs - 1;
    assert.equal((await ask()).ok, false, "a millisecond before");
    clock.nowMs += 2;
    assert.equal((await ask()).ok, true, "when the time has passed");
    assert.equal(provider.calls.length, 1);
  });
}

test("a 429 without a time is believed for 1 s, then 2, then 4; an answer begins anew", async (t) => {
  const statuses = [429, 529, 429, 200, 429];
  const { chat, limiter, clock } = await setUp(
    t,
    ({ number }) =>
      statuses[number - 1] === 200 ? TEXT_ANSWER : { kind: "error", status: statuses[number - 1] as number },
    { provider: { entityId: "openai" } },
  );
  await limiter.setLimits("openai", [Limit.perMinute("tpm", 60_000)]);
  const waits: number[] = [];
  for (const _ of statuses) {
    await chat().catch(() => {});
    const outcome = await limiter.tryAcquire({ entityId: "openai", resource: MODEL, consume: { tpm: 1 } });
    if (outcome.ok) await outcome.lease.rollback();
    waits.push(outcome.ok ? 0 : outcome.retryAfterMs);
    // Until it is full again.
    clock.nowMs += 120_000;
  }
  assert.deepEqual(waits, [1_001, 2_001, 4_001, 0, 1_001]);
});

test("several calls that meet a 429 together empty the bucket once, and a budget of the provider is never drained", async (t) => {
  const gate = promised();
  const { chat, charged, limiter } = await setUp(
    t,
    async () => {
      await gate.promise;
      return { kind: "error", status: 429, headers: { "retry-after": "10" } };
    },
    { provider: { entityId: "openai" }, weights: { tpm: { input: 1, output: 1 }, usd: { output: 1 } } },
  );
  await limiter.setLimits("openai", [
    Limit.perMinute("tpm", 60_000),
    Limit.quota("usd", 1_000_000, { reset: "monthly" }),
  ]);
  const asked = [chat(), chat(), chat(), chat()].map((call) => call.catch(() => {}));
  await eventually(async () => assert.equal((await charged("openai")).tpm, 4 * (INPUT + 200)));
  gate.keep();
  await Promise.all(asked);
  // Full, and ten seconds' refill besides.
  assert.deepEqual(await charged("openai"), { tpm: 70_000, usd: 0 });
});

test("processes that meet a 429 together empty the bucket once, not once each", async (t) => {
  const gate = promised();
  const { limit, charged, limiter } = await setUp(t, async () => {
    await gate.promise;
    return { kind: "error", status: 429, headers: { "retry-after": "10" } };
  });
  await limiter.setLimits("openai", [
    Limit.perMinute("tpm", 60_000),
    Limit.quota("rpd", 1_000, { reset: "daily", counts: "requests" }),
  ]);
  // All of them look at what the bucket holds before any of them takes it.
  const all = promised();
  let looking = 0;
  const slow: Acquiring = {
    acquire: (request) => limiter.acquire(request),
    withLease: (request, body) => limiter.withLease(request, body),
    resolveLimits: (entityId, resource) => limiter.resolveLimits(entityId, resource),
    async tryAcquire(request) {
      const outcome = await limiter.tryAcquire(request);
      if (request.consume?.tpm !== 0) return outcome;
      looking++;
      if (looking === 4) all.keep();
      await all.promise;
      return outcome;
    },
  };
  // Each knows of its own drains alone, as processes do.
  const processes = Array.from({ length: 4 }, () => limit({ limiter: slow, provider: { entityId: "openai" } }));
  const asked = processes.map((client) => client.chat.completions.create(PARAMS).catch(() => {}));
  await eventually(async () => assert.equal((await charged("openai")).tpm, 4 * (INPUT + 200)));
  gate.keep();
  await Promise.all(asked);
  // Full, and ten seconds' refill besides.
  assert.deepEqual(await charged("openai"), { tpm: 70_000, rpd: 0 });
});

test("a call waits for its tokens, and leaves the queue when it is aborted", async (t) => {
  const { limit, limiter, clock, provider } = await setUp(t, () => TEXT_ANSWER);
  await limiter.setLimits(KEY, [Limit.perMinute("tpm", 300)]);
  await limiter.acquire({ entityId: KEY, resource: MODEL, consume: { tpm: 300 } });
  const controller = new AbortController();
  const client = limit({ wait: { maxMs: 600_000 } });
  const waiting = client.chat.completions.create(PARAMS, { signal: controller.signal }).then(
    () => "answered",
    (error: Error) => error.constructor.name,
  );
  await new Promise((resolve) => setImmediate(resolve));
  controller.abort();
  assert.equal(await waiting, "APIUserAbortError");
  assert.equal(provider.calls.length, 0);
  clock.nowMs += 60_000;
  await client.chat.completions.create(PARAMS);
});

test("in shadow mode what does not fit passes without a lease, also in part of the calls", async (t) => {
  const { limit, limiter, charged, provider } = await setUp(t, () => TEXT_ANSWER);
  await limiter.setLimits(KEY, [Limit.perMinute("tpm", 300)]);
  const client = limit({ shadow: ({ params }) => params.user === "shadow" });
  const ask = (user: string) => client.chat.completions.create({ ...PARAMS, user });
  const refused: RefusedEvent[] = [];
  const listener = (event: unknown) => void refused.push(event as RefusedEvent);
  diagnostics.subscribe(CHANNELS.refused, listener);
  t.after(() => diagnostics.unsubscribe(CHANNELS.refused, listener));
  await ask("shadow");
  assert.deepEqual(await charged(), { tpm: USED }, "what fits is taken");
  await ask("shadow");
  assert.deepEqual(await charged(), { tpm: USED });
  await limiter.setAccess({ resource: MODEL }, "disabled");
  await ask("shadow");
  assert.equal(provider.calls.length, 3);
  assert.deepEqual(
    refused.map(({ shadow, primary }) => [shadow, primary.limit]),
    [[true, "tpm"]],
  );
  assert.equal((await thrownBy(() => ask("real"))).status, 403);
});

test("an outage blocks with 503, or passes uncounted, as onUnavailable says", async (t) => {
  const { plain, provider } = await setUp(t, () => TEXT_ANSWER);
  const faults = { rates: { take: 1 }, random: new SeededRandom(1) };
  const open = (onUnavailable: "allow" | "block") =>
    RateLimiter.open({ store: new FaultStore(openMemory(), faults), clock: { now: () => 0 }, onUnavailable });
  const [blocking, allowing] = [await open("block"), await open("allow")];
  t.after(() => Promise.all([blocking.close(), allowing.close()]));
  for (const limiter of [blocking, allowing]) await limiter.setSystemDefaults([Limit.perMinute("tpm", TPM)]);
  const ask = (limiter: RateLimiter, more: Partial<LimitModelOptions>) =>
    limitOpenAI(plain, { limiter, entityId: KEY, ...more }).chat.completions.create(PARAMS);
  for (const [limiter, more] of [
    [blocking, {}],
    [allowing, { onUnavailable: "block" }],
  ] as const) {
    const error = await thrownBy(() => ask(limiter, more));
    assert.deepEqual(
      [error.status, error.headers?.get("retry-after"), refusalOf(error)?.code],
      [503, "1", "unavailable"],
    );
  }
  assert.equal(provider.calls.length, 0);
  await ask(allowing, {});
  await ask(blocking, { onUnavailable: "allow" });
  await ask(blocking, { shadow: true });
  assert.equal(provider.calls.length, 3);
});

test("a body that is signed is sent as it is", async (t) => {
  const { provider, limiter, charged } = await setUp(t, () => TEXT_ANSWER);
  const signed = new OpenAI({
    apiKey: "unused",
    baseURL: `${provider.url}/v1`,
    defaultHeaders: { authorization: "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=y" },
  });
  const client = limitOpenAI(signed, { limiter, entityId: "other" });
  const stream = await client.chat.completions.create({ ...PARAMS, stream: true }, { headers: { "zael-entity": KEY } });
  for await (const _ of stream);
  assert.equal(provider.calls[0]?.params.stream_options, undefined);
  assert.equal(provider.calls[0]?.headers["zael-entity"], KEY, "it is signed as well");
  // Without a usage to go by: as estimated.
  assert.deepEqual(await charged(), { rpm: 1, tpm: INPUT + 200 });
});

test("a refusal is found in the client's error, also where another Response is the global one, as beside a server of Hono", async (t) => {
  const { limit, limiter } = await setUp(t, () => TEXT_ANSWER);
  await limiter.setLimits(KEY, [Limit.perMinute("tpm", 1)]);
  const { Response: own } = globalThis;
  t.after(() => {
    globalThis.Response = own;
  });
  /** Its headers are another object with each reading. */
  const headers = { get: (of: object) => new Headers(Reflect.get(own.prototype, "headers", of)) };
  globalThis.Response = class extends own {};
  Object.defineProperty(globalThis.Response.prototype, "headers", {
    get() {
      return headers.get(this);
    },
  });
  const error = await thrownBy(() => limit({}).embeddings.create({ model: MODEL, input: "What is a token bucket?" }));
  assert.equal(refusalOf(error)?.code, "amount_above_capacity");
});

test("limits that a token may not read are asked for once", async (t) => {
  const { limit, limiter } = await setUp(t, () => TEXT_ANSWER);
  let asked = 0;
  const client = limit({
    limiter: {
      acquire: (request) => limiter.acquire(request),
      tryAcquire: (request) => limiter.tryAcquire(request),
      withLease: (request, body) => limiter.withLease(request, body),
      async resolveLimits() {
        asked++;
        throw new ValidationError("scope_missing", "The token may not read.");
      },
    } as Acquiring,
  });
  for (const _ of [1, 2]) await client.chat.completions.create(PARAMS);
  assert.equal(asked, 1);
});

test("completions of old and compacted responses are metered, too", async (t) => {
  const { limiter, charged } = await setUp(t, () => TEXT_ANSWER);
  const answers: Readonly<Record<string, object>> = {
    "/v1/completions": { choices: [{ text: "hi" }], usage: { prompt_tokens: 5, completion_tokens: 20 } },
    "/v1/responses/compact": { output: [], usage: { input_tokens: 7, output_tokens: 30 } },
  };
  const fetch = async (url: string | URL | Request) => Response.json(answers[new URL(String(url)).pathname]);
  const client = limitOpenAI(new OpenAI({ apiKey: "k", fetch }), { limiter, entityId: KEY });
  await client.completions.create({ model: MODEL, prompt: "hi" });
  assert.deepEqual(await charged(), { rpm: 1, tpm: 25 });
  await client.responses.compact({ model: MODEL, input: "hi" });
  assert.deepEqual(await charged(), { rpm: 2, tpm: 62 });
});
