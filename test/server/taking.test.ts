import assert from "node:assert/strict";
import { test } from "node:test";
import { parseList } from "structured-headers";
import { Limit } from "../../src/entry/index.ts";
import { type Answered, NS, problem, serviceOf } from "./service-kit.ts";

const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, tpm: 500 } };

/** A rate-limit field as names with their parameters. */
function field(answer: Answered, name: string): Record<string, Record<string, unknown>> {
  const items = parseList(answer.headers.get(name) ?? "");
  return Object.fromEntries(items.map(([value, parameters]) => [String(value), Object.fromEntries(parameters)]));
}

test("an acquire holds, says where its lease is, and settling by totals charges the difference once", async (t) => {
  const { call, clock } = await serviceOf(t);
  const taken = await call("POST", `${NS}/acquire`, { body: { ...take, holdMs: 60_000, onExpiry: "refund" } });
  assert.equal(taken.status, 201);
  const { leaseId } = taken.body;
  assert.match(leaseId, /^l_[A-Za-z0-9_-]{22}$/);
  assert.equal(taken.headers.get("location"), `${NS}/leases/${leaseId}`);
  assert.deepEqual(taken.body, {
    ...{ leaseId, namespace: "default", entityId: "key-1", resource: "gpt-4", status: "open" },
    ...{ consumed: { rpm: 1, tpm: 500 }, also: {}, degraded: false, overdrawn: [], shadowed: [], bypassed: false },
    ...{ expiresAtMs: clock.now() + 60_000, onExpiry: "refund" },
    limits: [
      { entityId: "key-1", resource: "gpt-4", limit: "rpm", counts: "rpm", available: 99, capacity: 100 },
      { entityId: "key-1", resource: "gpt-4", limit: "tpm", counts: "tpm", available: 19_500, capacity: 20_000 },
    ],
  });
  assert.deepEqual((await call("GET", `${NS}/leases/${leaseId}`)).body, taken.body);
  assert.equal((await call("GET", `${NS}/leases?entityId=key-1`)).body.items[0].leaseId, leaseId);
  const left = async () => (await call("GET", `${NS}/available?entityId=key-1&resource=gpt-4`)).body.items[1].available;
  for (let i = 0; i < 3; i++) {
    const settled = await call("POST", `${NS}/leases/${leaseId}/settle`, { body: { consumed: { tpm: 730 } } });
    assert.deepEqual(
      [settled.status, settled.body.status, settled.body.consumed],
      [200, "settled", { rpm: 1, tpm: 730 }],
    );
    assert.equal(await left(), 20_000 - 730);
  }
  for (const [path, body] of [
    ["settle", { consumed: { tpm: 731 } }],
    ["settle", {}],
    ["rollback", undefined],
    ["adjust", { delta: { tpm: 1 } }],
    ["extend", { holdMs: 5_000 }],
  ] as const) {
    const closed = await call("POST", `${NS}/leases/${leaseId}/${path}`, body === undefined ? {} : { body });
    problem(closed, 409, "lease_closed");
    assert.equal(closed.body.leaseStatus, "settled");
  }
  assert.equal((await call("GET", `${NS}/leases`)).body.items.length, 0);
  await clock.advance(24 * 3_600_000);
  problem(
    await call("POST", `${NS}/leases/${leaseId}/settle`, { body: { consumed: { tpm: 730 } } }),
    404,
    "lease_not_found",
  );
});

test("a lease is adjusted, takes more, gives back, is extended and rolled back", async (t) => {
  const { call, clock, limiter } = await serviceOf(t);
  await limiter.registerNamespace("tenant-b");
  const { leaseId } = (await call("POST", `${NS}/acquire`, { body: take })).body;
  const at = `${NS}/leases/${leaseId}`;
  assert.deepEqual((await call("POST", `${at}/adjust`, { body: { delta: { tpm: 100 } } })).body.consumed, {
    rpm: 1,
    tpm: 600,
  });
  const more = await call("POST", `${at}/consume`, { body: { amounts: { tpm: 400 } } });
  assert.deepEqual(more.body.consumed, { rpm: 1, tpm: 1_000 });
  assert.equal(field(more, "ratelimit").tpm?.r, 19_000);
  const tooMuch = await call("POST", `${at}/consume`, { body: { amounts: { tpm: 19_001 } } });
  problem(tooMuch, 429, "rate_limit_exceeded");
  assert.ok(Number(tooMuch.headers.get("retry-after")) >= 1);
  assert.deepEqual((await call("POST", `${at}/release`, { body: { amounts: { tpm: 300 } } })).body.consumed, {
    rpm: 1,
    tpm: 700,
  });
  assert.equal((await call("POST", `${at}/extend`, { body: { holdMs: 5_000 } })).body.expiresAtMs, clock.now() + 5_000);
  problem(await call("POST", `${at}/extend`, { body: { holdMs: 86_400_001 } }), 400, "hold_invalid");
  problem(await call("GET", `/v1/namespaces/tenant-b/leases/${leaseId}`), 404, "lease_not_found");
  for (let i = 0; i < 2; i++) {
    const back = await call("POST", `${at}/rollback`);
    assert.deepEqual([back.status, back.body.status], [200, "rolledBack"]);
  }
  const available = (await call("GET", `${NS}/available?entityId=key-1&resource=gpt-4`)).body.items;
  assert.deepEqual(
    available.map((one: { available: number }) => one.available),
    [100, 20_000],
  );
});

test("what expires stays charged or is given back, at its very millisecond for every call that comes later", async (t) => {
  const { call, clock } = await serviceOf(t);
  const left = async (entityId: string) =>
    (await call("GET", `${NS}/available?entityId=${entityId}&resource=gpt-4`)).body.items[0].available;
  const quota = [{ name: "n", capacity: 10, refillAmount: 0, refillPeriodMs: 1_000, resetAfterMs: 3_600_000 }];
  await call("PUT", `${NS}/limits?resource=gpt-4`, { body: { limits: quota } });
  const ids = await Promise.all(
    (["charge", "refund"] as const).map(async (onExpiry) => {
      const body = { entityId: onExpiry, resource: "gpt-4", consume: { n: 4 }, holdMs: 5_000, onExpiry };
      return (await call("POST", `${NS}/acquire`, { body })).body.leaseId as string;
    }),
  );
  await clock.advance(4_999);
  for (const id of ids) assert.equal((await call("GET", `${NS}/leases/${id}`)).body.status, "open");
  await clock.advance(1);
  for (const id of ids) {
    const closed = await call("POST", `${NS}/leases/${id}/settle`, { body: {} });
    problem(closed, 409, "lease_closed");
    assert.equal(closed.body.leaseStatus, "expired");
  }
  assert.deepEqual([await left("charge"), await left("refund")], [6, 10]);
});

test("holdMs 0 charges at once: 200, no lease, nothing to settle", async (t) => {
  const { call } = await serviceOf(t);
  const taken = await call("POST", `${NS}/acquire`, { body: { ...take, holdMs: 0 } });
  assert.equal(taken.status, 200);
  assert.deepEqual([taken.body.leaseId, taken.body.expiresAtMs, taken.body.status], [null, null, "settled"]);
  assert.equal(taken.headers.get("location"), null);
  assert.deepEqual(taken.body.consumed, take.consume);
  assert.equal((await call("GET", `${NS}/leases`)).body.items.length, 0);
  for (const holdMs of [1, 999, 86_400_001]) {
    problem(await call("POST", `${NS}/acquire`, { body: { ...take, holdMs } }), 400, "hold_invalid");
  }
  for (const holdMs of [-1, 1.5, "0"]) {
    problem(await call("POST", `${NS}/acquire`, { body: { ...take, holdMs } }), 400, "request_invalid");
  }
});

test("header fields: every limit of every level by name, never an id; units; what is full has no t", async (t) => {
  const { call, limiter } = await serviceOf(t, { unit: { tpm: "tokens" } });
  await limiter.setResourceDefaults("gpu", [Limit.quota("slots", 5, { reset: { cron: "0 0 1 * *" } })]);
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "proj", parentId: "org" });
  await limiter.createEntity({ id: "key-1", parentId: "proj" });
  const taken = await call("POST", `${NS}/acquire`, {
    body: { ...take, consume: { tpm: 500 }, also: { gpu: { slots: 1 } }, holdMs: 0 },
  });
  assert.equal(
    taken.headers.get("ratelimit-policy"),
    '"rpm";q=100;w=60, "tpm";q=20000;qu="tokens";w=120, "rpm^1";q=100;w=60, "tpm^1";q=20000;qu="tokens";w=120, ' +
      '"rpm^2";q=100;w=60, "tpm^2";q=20000;qu="tokens";w=120, "gpu/slots";q=5, "gpu/slots^1";q=5, "gpu/slots^2";q=5',
  );
  const state = field(taken, "ratelimit");
  assert.deepEqual(state.rpm, { r: 100 });
  assert.deepEqual(state.tpm, { r: 19_500, t: 3 });
  assert.deepEqual(Object.keys(state["gpu/slots^2"] ?? {}), ["r", "t"]);
  assert.doesNotMatch(taken.headers.get("ratelimit") ?? "", /key-1|proj|org/);
  const bySession = await call("POST", `${NS}/acquire`, {
    body: {
      entityId: "s",
      resource: "chat",
      consume: { n: 1 },
      holdMs: 0,
      limits: [{ name: "n", capacity: 5, refillAmount: 0, refillPeriodMs: 1000, resetAfterMs: 18_000_000 }],
    },
  });
  assert.equal(bySession.headers.get("ratelimit-policy"), '"n";q=5;w=18000');
  assert.equal(bySession.headers.get("ratelimit"), '"n";r=4;t=18000');
});

test("a refusal: 429 with the problem of the library, only what stood in the way has a t, and Retry-After is no earlier", async (t) => {
  const { call, limiter } = await serviceOf(t);
  await limiter.createEntity({ id: "proj" });
  await limiter.createEntity({ id: "key-1", parentId: "proj" });
  await limiter.setLimits("proj", [Limit.perMinute("tpm", 600)]);
  await call("POST", `${NS}/acquire`, {
    body: { entityId: "proj", resource: "gpt-4", consume: { tpm: 600 }, holdMs: 0 },
  });
  for (const holdMs of [0, 5_000]) {
    const refused = await call("POST", `${NS}/acquire`, { body: { ...take, holdMs } });
    problem(refused, 429, "rate_limit_exceeded");
    assert.match(refused.body.type, /quota-exceeded$/);
    assert.deepEqual(refused.body["violated-policies"], ["tpm^1"]);
    assert.deepEqual(refused.body.violations, [{ limit: "tpm^1", kind: "rate" }]);
    assert.equal(refused.body.retryAfterMs, 50_000);
    assert.equal(refused.headers.get("retry-after"), "50");
    assert.equal(refused.headers.get("ratelimit"), '"rpm";r=100, "tpm";r=20000, "tpm^1";r=0;t=50');
    assert.equal(refused.headers.get("ratelimit-policy"), '"rpm";q=100;w=60, "tpm";q=20000;w=120, "tpm^1";q=600;w=60');
    const attempted = await call("POST", `${NS}/try`, { body: { ...take, holdMs } });
    assert.deepEqual([attempted.status, attempted.body.ok, attempted.body.retryAfterMs], [200, false, 50_000]);
    assert.equal(attempted.body.primary.entityId, "proj");
    assert.equal(attempted.headers.get("ratelimit"), refused.headers.get("ratelimit"));
  }
  const fits = await call("POST", `${NS}/try`, { body: { ...take, entityId: "other", holdMs: 0 } });
  assert.deepEqual([fits.status, fits.body.ok, fits.body.lease.status], [200, true, "settled"]);
  problem(
    await call("POST", `${NS}/acquire`, { body: { ...take, consume: { tpm: 20_001 } } }),
    413,
    "amount_above_capacity",
  );
  problem(await call("POST", `${NS}/acquire`, { body: { ...take, consume: {} } }), 400, "consume_empty");
  problem(await call("POST", `${NS}/acquire`, { body: { ...take, consume: { nope: 1 } } }), 400, "limit_unknown");
});

test("a repeat with the same key gets the first answer and charges nothing, in whichever form the key is written", async (t) => {
  const { call, clock } = await serviceOf(t);
  const left = async () => (await call("GET", `${NS}/available?entityId=key-1&resource=gpt-4`)).body.items[1].available;
  for (const [holdMs, key] of [
    [60_000, "held"],
    [0, "at-once"],
  ] as const) {
    const before = await left();
    const first = await call("POST", `${NS}/acquire`, {
      body: { ...take, holdMs },
      headers: { "idempotency-key": key },
    });
    assert.equal(first.headers.get("idempotency-replayed"), null);
    for (const written of [key, `"${key}"`]) {
      const again = await call("POST", `${NS}/acquire`, {
        body: { ...take, holdMs },
        headers: { "idempotency-key": written },
      });
      assert.deepEqual([again.status, again.body], [first.status, first.body]);
      assert.equal(again.headers.get("idempotency-replayed"), "true");
    }
    assert.equal(await left(), before - 500);
    const other = { body: { ...take, holdMs, consume: { tpm: 1 } }, headers: { "idempotency-key": key } };
    problem(await call("POST", `${NS}/acquire`, other), 422, "idempotency_key_reused");
    problem(
      await call("POST", `${NS}/try`, { body: { ...take, holdMs }, headers: { "idempotency-key": key } }),
      422,
      "idempotency_key_reused",
    );
  }
  // Only what was granted is remembered.
  const much = { body: { ...take, consume: { tpm: 20_000 }, holdMs: 0 }, headers: { "idempotency-key": "later" } };
  problem(await call("POST", `${NS}/acquire`, much), 429, "rate_limit_exceeded");
  await clock.advance(600_000);
  assert.equal((await call("POST", `${NS}/acquire`, much)).status, 200);
  await clock.advance(24 * 3_600_000);
  assert.equal((await call("POST", `${NS}/acquire`, much)).headers.get("idempotency-replayed"), null);
  const { leaseId } = (await call("POST", `${NS}/acquire`, { body: { ...take, entityId: "b" } })).body;
  for (const [path, body] of [
    [`leases/${leaseId}/adjust`, { delta: { tpm: 10 } }],
    [`leases/${leaseId}/consume`, { amounts: { tpm: 10 } }],
    [`leases/${leaseId}/release`, { amounts: { tpm: 5 } }],
    ["top-up", { entityId: "b", resource: "gpt-4", amounts: { tpm: 10 } }],
    ["reset", { entityId: "b", resource: "gpt-4" }],
  ] as const) {
    const headers = { "idempotency-key": `key-${path}`.replaceAll("/", ":") };
    const first = await call("POST", `${NS}/${path}`, { body, headers });
    const again = await call("POST", `${NS}/${path}`, { body, headers });
    assert.deepEqual([again.body, again.headers.get("idempotency-replayed")], [first.body, "true"], path);
  }
  for (const key of ["a b", '"', "x".repeat(65), "ü"]) {
    const wrong = await call("POST", `${NS}/acquire`, {
      body: take,
      headers: { "idempotency-key": Buffer.from(key).toString("latin1") },
    });
    problem(wrong, 400, "idempotency_key_invalid");
  }
});

test("of many repeats at once one charges; the others get its answer, or hear that it is under way", {
  timeout: 60_000,
}, async (t) => {
  const { call, clock } = await serviceOf(t);
  const headers = { "idempotency-key": "once" };
  const send = () => call("POST", `${NS}/acquire`, { body: take, headers });
  const answers = await Promise.all(Array.from({ length: 20 }, send));
  const granted = answers.filter(({ status }) => status === 201);
  for (const answer of answers) if (answer.status !== 201) problem(answer, 409, "idempotency_in_progress");
  assert.equal(new Set(granted.map(({ body }) => body.leaseId)).size, 1);
  assert.equal(granted.filter(({ headers: told }) => !told.has("idempotency-replayed")).length, 1);
  assert.equal((await call("GET", `${NS}/available?entityId=key-1&resource=gpt-4`)).body.items[1].available, 19_500);
  // One that waits for tokens is under way for long.
  const slow = {
    body: { ...take, consume: { tpm: 20_000 }, wait: { maxMs: 20_000 } },
    headers: { "idempotency-key": "slow" },
  };
  const first = call("POST", `${NS}/acquire`, slow);
  while (!/queued_requests\{[^}]*\} 1/.test((await call("GET", "/metrics")).body));
  const second = await call("POST", `${NS}/acquire`, slow);
  problem(second, 409, "idempotency_in_progress");
  assert.equal(second.headers.get("retry-after"), "1");
  await clock.advance(10_000);
  const { body, status } = await first;
  assert.equal(status, 201);
  assert.equal((await call("POST", `${NS}/acquire`, slow)).body.leaseId, body.leaseId);
});

test("a wait ends with tokens, or is refused at its end; whoever leaves has taken nothing", {
  timeout: 60_000,
}, async (t) => {
  const { call, clock, url, limiter } = await serviceOf(t);
  const drain = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 100 }, holdMs: 0 };
  assert.equal((await call("POST", `${NS}/acquire`, { body: drain })).status, 200);
  const waits = (maxMs: number, holdMs: number) =>
    call("POST", `${NS}/acquire`, { body: { ...drain, consume: { rpm: 10 }, wait: { maxMs }, holdMs } });
  const [served, refused] = [waits(10_000, 5_000), waits(1_000, 0)];
  const waiting = async (n: number) => {
    while (
      !(await call("GET", "/metrics")).body.includes(
        `zae_limiter_queued_requests{resource="gpt-4",namespace="default"} ${n}`,
      )
    );
  };
  await waiting(2);
  await clock.advance(1_000);
  assert.equal((await refused).status, 429);
  await clock.advance(5_000);
  assert.equal((await served).status, 201);
  const leaving = new AbortController();
  const left = fetch(new URL(`${NS}/acquire`, url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...drain, consume: { rpm: 10 }, wait: { maxMs: 30_000 } }),
    signal: leaving.signal,
  }).catch(() => "left");
  await waiting(1);
  leaving.abort();
  assert.equal(await left, "left");
  await waiting(0);
  assert.match((await call("GET", "/metrics")).body, /result="canceled"/);
  await clock.advance(60_000);
  assert.equal((await limiter.available({ entityId: "key-1", resource: "gpt-4" }))[0]?.available, 100);
});

test("limits count measures: an acquire need not name what is a request, and is told what to name", async (t) => {
  const { call } = await serviceOf(t);
  const limits = [
    Limit.perMinute("rpm", 10, { counts: "requests" }),
    Limit.perMinute("tpm", 1_000),
    Limit.quota("month", 5_000, { counts: "tpm", reset: { cron: "0 0 1 * *", tz: "UTC" } }),
  ];
  assert.equal((await call("PUT", `${NS}/limits?resource=images`, { body: { limits } })).status, 200);
  assert.deepEqual((await call("GET", `${NS}/limits?resource=images`)).body.limits, limits);
  const about = { entityId: "key-1", resource: "images" };
  const plain = await call("POST", `${NS}/acquire`, { body: { ...about, holdMs: 0 } });
  assert.deepEqual([plain.status, plain.body.consumed], [200, { requests: 1 }]);
  const held = await call("POST", `${NS}/acquire`, { body: { ...about, consume: { tpm: 500 }, holdMs: 60_000 } });
  assert.deepEqual(held.body.consumed, { tpm: 500, requests: 1 });
  assert.deepEqual(
    held.body.limits.map(({ limit, counts, available }: Record<string, unknown>) => [limit, counts, available]),
    [
      ["rpm", "requests", 8],
      ["tpm", "tpm", 500],
      ["month", "tpm", 4_500],
    ],
  );
  const settle = (consumed: object) => call("POST", `${NS}/leases/${held.body.leaseId}/settle`, { body: { consumed } });
  const wrong = await settle({ month: 730 });
  problem(wrong, 400, "limit_unknown");
  assert.match(wrong.body.detail, /month counts tpm; name tpm/);
  assert.deepEqual((await settle({ tpm: 730 })).body.consumed, { tpm: 730, requests: 1 });
  const refused = await call("POST", `${NS}/try`, { body: { ...about, consume: { tpm: 999 } } });
  assert.equal(refused.body.primary.counts, "tpm");
});

test("a shadow limit is set over HTTP, passes requests by that it would refuse, and /metrics counts them", async (t) => {
  const { call } = await serviceOf(t);
  const body = { limits: [Limit.perMinute("rpm", 100), Limit.perDay("tpd", 1_000, { shadow: true })] };
  assert.equal((await call("PUT", `${NS}/limits?resource=gpt-5`, { body })).status, 200);
  const stored = await call("GET", `${NS}/limits?resource=gpt-5`);
  assert.deepEqual(stored.body.limits[1], { ...body.limits[1] });
  const ask = { entityId: "key-1", resource: "gpt-5", consume: { rpm: 1, tpd: 700 } };
  const atOnce = { body: { ...ask, holdMs: 0 } };
  assert.deepEqual((await call("POST", `${NS}/acquire`, atOnce)).body.shadowed, []);
  assert.deepEqual((await call("POST", `${NS}/acquire`, atOnce)).body.shadowed, ["tpd"]);
  const held = await call("POST", `${NS}/acquire`, { body: { ...ask, holdMs: 60_000 } });
  assert.deepEqual([held.body.shadowed, held.body.consumed], [["tpd"], { rpm: 1, tpd: 700 }]);
  const settled = await call("POST", `${NS}/leases/${held.body.leaseId}/settle`, { body: { consumed: { tpd: 900 } } });
  assert.deepEqual([settled.body.shadowed, settled.body.consumed], [["tpd"], { rpm: 1, tpd: 900 }]);
  const left = await call("GET", `${NS}/available?entityId=key-1&resource=gpt-5`);
  assert.equal(left.body.items[1].available, 300);
  const buckets = await call("GET", `${NS}/buckets?resource=gpt-5`);
  assert.deepEqual([buckets.body.items[0].limits[1].shadow, buckets.body.items[0].limits[0].shadow], [true, false]);
  const usage = await call("GET", `${NS}/usage/summary?window=hourly&resource=gpt-5`);
  assert.deepEqual(
    [usage.body.wouldRefuse, usage.body.total, usage.body.requests],
    [{ tpd: 2 }, { rpm: 3, tpd: 700 }, 3],
  );
  const metrics = (await call("GET", "/metrics")).body as string;
  assert.match(metrics, /^zael_would_refuse_total\{limit="tpd",resource="gpt-5",namespace="default"\} 2$/m);
  problem(
    await call("PUT", `${NS}/limits?resource=gpt-5`, { body: { limits: [{ ...body.limits[1], soft: true }] } }),
    400,
    "limit_invalid",
  );
});
