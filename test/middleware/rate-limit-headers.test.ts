import assert from "node:assert/strict";
import { test } from "node:test";
import { carryFields } from "../../src/domain/charge/rate-limit-headers.ts";
import { RateLimitExceeded, RateLimiterUnavailable, ValidationError } from "../../src/domain/names/errors.ts";
import { type Acquiring, Limit, RateLimiter, rateLimitHeaders } from "../../src/entry/index.ts";

const NOON_MS = Date.UTC(2026, 2, 15, 12);

async function opened() {
  let nowMs = NOON_MS;
  const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => nowMs } });
  await limiter.createEntity({ id: "acme" });
  await limiter.createEntity({ id: "key-1", parentId: "acme", cascade: true });
  await limiter.setLimits("acme", [Limit.perMinute("rpm", 100)], { resource: "api" });
  await limiter.setLimits("key-1", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 1000)], { resource: "api" });
  return { limiter, advance: (ms: number) => (nowMs += ms) };
}

const request = { entityId: "key-1", resource: "api", consume: { rpm: 30, tpm: 10 } };

test("a lease tells what is left of the own limits, and of the parents' only when asked", async () => {
  const { limiter } = await opened();
  const lease = await limiter.acquire(request);
  assert.deepEqual(rateLimitHeaders(lease), {
    "ratelimit-policy": '"rpm";q=60;w=60, "tpm";q=1000;w=60',
    ratelimit: '"rpm";r=30;t=30, "tpm";r=990;t=1',
  });
  assert.deepEqual(rateLimitHeaders(lease, { levels: "all", units: { tpm: "tokens" } }), {
    "ratelimit-policy": '"rpm";q=60;w=60, "tpm";q=1000;qu="tokens";w=60, "rpm^1";q=100;w=60',
    ratelimit: '"rpm";r=30;t=30, "tpm";r=990;t=1, "rpm^1";r=70;t=18',
  });
  assert.deepEqual(rateLimitHeaders(lease, { headers: "legacy" }), {
    "x-ratelimit-limit": "60",
    "x-ratelimit-remaining": "30",
    "x-ratelimit-reset": String(NOON_MS / 1000 + 30),
  });
  assert.deepEqual(Object.keys(rateLimitHeaders(lease, { headers: "both" })).length, 5);
});

test("a key without limits of its own is told those of its customer, by their names, granted and refused", async () => {
  const { limiter } = await opened();
  await limiter.createEntity({ id: "beta" });
  await limiter.createEntity({ id: "team", parentId: "beta" });
  await limiter.createEntity({ id: "key-2", parentId: "team" });
  await limiter.setLimits("beta", [Limit.perMinute("rpm", 2)], { resource: "api" });
  await limiter.setTotals("team", [Limit.perMinute("day", 50, { counts: "rpm" })]);
  const bare = { entityId: "key-2", resource: "api", consume: { rpm: 2 } };
  const policy = { "ratelimit-policy": '"*/day";q=50;w=60' };
  assert.deepEqual(rateLimitHeaders(await limiter.acquire(bare)), { ...policy, ratelimit: '"*/day";r=48;t=3' });
  const error = await limiter.acquire(bare).catch((thrown: unknown) => thrown);
  assert.ok(error instanceof RateLimitExceeded);
  assert.deepEqual(rateLimitHeaders(error), { ...policy, ratelimit: '"*/day";r=48', "retry-after": "60" });
  assert.deepEqual(error.toProblem()["violated-policies"], ["rpm^1"]);
  await limiter.deleteTotals("team");
  const alone = await limiter.acquire(bare).catch((thrown: unknown) => thrown);
  assert.ok(alone instanceof RateLimitExceeded);
  const told = { "ratelimit-policy": '"rpm";q=2;w=60', ratelimit: '"rpm";r=0;t=60', "retry-after": "60" };
  assert.deepEqual(rateLimitHeaders(alone), told);
  assert.match(String(alone.toProblem().detail), /^Rate limit exceeded for key-2 on api: rpm; retry in 1 minute/);
});

test("a refusal has Retry-After and a wait only for what stood in the way, as a value and as an error", async () => {
  const { limiter } = await opened();
  await limiter.acquire(request);
  const outcome = await limiter.tryAcquire({ ...request, consume: { rpm: 45, tpm: 1 } });
  assert.ok(!outcome.ok);
  const expected = {
    "ratelimit-policy": '"rpm";q=60;w=60, "tpm";q=1000;w=60',
    ratelimit: '"rpm";r=30;t=15, "tpm";r=990',
    "retry-after": "15",
  };
  assert.deepEqual(rateLimitHeaders(outcome), expected);
  const error = await limiter.acquire({ ...request, consume: { rpm: 45, tpm: 1 } }).catch((error: unknown) => error);
  assert.ok(error instanceof RateLimitExceeded);
  assert.deepEqual(rateLimitHeaders(error), expected);
  assert.deepEqual(rateLimitHeaders(error, { headers: "legacy" }), {
    "x-ratelimit-limit": "60",
    "x-ratelimit-remaining": "30",
    "x-ratelimit-reset": String(NOON_MS / 1000 + 15),
    "retry-after": "15",
  });
});

test("an outage says when to come again; an error about something else says nothing", () => {
  assert.deepEqual(rateLimitHeaders(new RateLimiterUnavailable("down")), { "retry-after": "1" });
  assert.deepEqual(rateLimitHeaders(new ValidationError("option_invalid", "x")), {});
});

test("fields that came with a lease or an error over the network are passed on in the form that is asked for", async () => {
  const { limiter } = await opened();
  const refusal = await limiter.tryAcquire({ ...request, consume: { rpm: 61, tpm: 1 } }).catch((error) => error);
  assert.ok(refusal instanceof ValidationError);
  const lease = await limiter.acquire(request);
  const all = rateLimitHeaders(lease, { levels: "all", units: { tpm: 'to"kens' } });
  const [policy, state] = [all["ratelimit-policy"] ?? "", all.ratelimit ?? ""];
  // Of another process: it has nothing but the fields.
  const remote = { status: "open" } as unknown as typeof lease;
  assert.deepEqual(rateLimitHeaders(remote), {});
  carryFields(remote, {
    policy: `${policy}, "gpu/x/slots";q=1, "*/usd";q=9`,
    state: `${state}, "gpu/x/slots";r=1, "*/usd";r=3;t=7`,
    atMs: NOON_MS,
  });
  assert.deepEqual(rateLimitHeaders(remote), {
    "ratelimit-policy": '"rpm";q=60;w=60, "tpm";q=1000;w=60, "gpu/x/slots";q=1, "*/usd";q=9',
    ratelimit: '"rpm";r=30;t=30, "tpm";r=990;t=1, "gpu/x/slots";r=1, "*/usd";r=3;t=7',
  });
  assert.match(rateLimitHeaders(remote, { levels: "all" }).ratelimit ?? "", /"rpm\^1";r=70;t=18/);
  assert.equal(rateLimitHeaders(remote, { headers: "legacy" })["x-ratelimit-reset"], String(NOON_MS / 1000 + 7));
  const status = { entityId: "key-1", resource: "api", limit: "rpm", counts: "rpm", available: 0, capacity: 60 };
  const primary = {
    ...status,
    requested: 1,
    exceeded: true,
    kind: "drip",
    soft: false,
    shadow: false,
    retryAfterMs: 1500,
  } as const;
  const error = new RateLimitExceeded({ statuses: [primary], primary, retryAfterMs: 1500 });
  carryFields(error, { policy: '"rpm";q=60;w=60', state: '"rpm";r=0;t=2', atMs: NOON_MS });
  assert.deepEqual(rateLimitHeaders(error), {
    "ratelimit-policy": '"rpm";q=60;w=60',
    ratelimit: '"rpm";r=0;t=2',
    "retry-after": "2",
  });
});

test("wrong options of header fields are told by name", async () => {
  const { limiter } = await opened();
  const lease = await limiter.acquire(request);
  for (const [options, words] of [
    [{ headers: "draft-7" }, /headers is "draft-7"; give "draft-10", "legacy" or "both"/],
    [{ levels: "some" }, /levels is "some"/],
    [{ units: { tpm: "tökens" } }, /units is/],
    [{ unit: {} }, /unknown name "unit"; did you mean `units`/],
  ] as const) {
    assert.throws(() => rateLimitHeaders(lease, options as never), words);
  }
});

test("a RateLimiter is what middleware and adapters take", async () => {
  const { limiter } = await opened();
  const acquiring: Acquiring = limiter;
  const { limits } = await acquiring.resolveLimits("key-1", "api");
  assert.deepEqual(
    limits.map(({ name }) => name),
    ["rpm", "tpm"],
  );
});
