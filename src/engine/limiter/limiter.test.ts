import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import { test } from "node:test";
import { gpt, heldBy as held, openLimiter as open } from "../../../test/limiter/limiter-kit.ts";
import {
  CHANNELS,
  ConflictError,
  ExistsError,
  LeaseClosed,
  Limit,
  NotFoundError,
  RateLimitExceeded,
  ValidationError,
} from "../../entry/index.ts";

async function openFamily() {
  const { limiter, clock } = await open();
  await limiter.createEntity({ id: "org" });
  await limiter.createEntity({ id: "proj", parentId: "org", cascade: true });
  await limiter.createEntity({ id: "key-1", parentId: "proj", cascade: true });
  return { limiter, clock };
}

test("a body that returns keeps what it consumed, one that throws gives back all of it, adjustments included", async () => {
  const { limiter } = await open();
  const value = await limiter.withLease({ ...gpt, consume: { rpm: 1, tpm: 500 } }, async (lease) => {
    await lease.adjust({ tpm: 250 });
    return lease.consumed;
  });
  assert.deepEqual(value, { rpm: 1, tpm: 750 });
  assert.deepEqual(await held(limiter, "key-1"), { "key-1.rpm": 59, "key-1.tpm": 5_250 });
  const failing = limiter.withLease({ ...gpt, consume: { rpm: 1, tpm: 500 } }, async (lease) => {
    await lease.adjust({ tpm: 300 });
    await lease.consume({ rpm: 2 });
    throw new Error("the model is down");
  });
  await assert.rejects(failing, /the model is down/);
  assert.deepEqual(await held(limiter, "key-1"), { "key-1.rpm": 59, "key-1.tpm": 5_250 });
});

test("all levels are charged or none, and the refusal shows every level", async () => {
  const { limiter } = await openFamily();
  await limiter.setLimits("org", [Limit.perMinute("rpm", 2)]);
  await limiter.acquire({ ...gpt, consume: { rpm: 2, tpm: 100 } });
  const outcome = await limiter.tryAcquire({ ...gpt, consume: { rpm: 1, tpm: 100 } });
  assert.ok(!outcome.ok);
  assert.deepEqual(
    outcome.statuses.map((s) => [s.entityId, s.limit, s.available, s.exceeded]),
    [
      ["key-1", "rpm", 58, false],
      ["key-1", "tpm", 5_900, false],
      ["proj", "rpm", 58, false],
      ["proj", "tpm", 5_900, false],
      ["org", "rpm", 0, true],
    ],
  );
  assert.equal(outcome.primary.entityId, "org");
  assert.equal(outcome.retryAfterMs, 30_000);
  assert.deepEqual(await held(limiter, "key-1"), {
    "key-1.rpm": 58,
    "key-1.tpm": 5_900,
    "proj.rpm": 58,
    "proj.tpm": 5_900,
    "org.rpm": 0,
  });
});

test("the wait that a refusal names is the first millisecond that works", async () => {
  const { limiter, clock } = await open();
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const refused = await limiter.tryAcquire({ ...gpt, consume: { rpm: 3 } });
  assert.ok(!refused.ok);
  assert.equal(refused.retryAfterMs, 3_000);
  await clock.advance(2_999);
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 3 } })).ok, false);
  await clock.advance(1);
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 3 } })).ok, true);
});

test("an adjustment may reach a limit that was not consumed at the start, on every level, and make debt", async () => {
  const { limiter } = await openFamily();
  await limiter.withLease({ ...gpt, consume: { rpm: 1 } }, (lease) => lease.adjust({ tpm: 7_000 }));
  const now = await held(limiter, "key-1");
  assert.equal(now["key-1.tpm"], -1_000);
  assert.equal(now["org.tpm"], -1_000);
  const zero = await limiter.tryAcquire({ ...gpt, consume: { tpm: 0 } });
  assert.ok(!zero.ok, "a limit named with 0 refuses while it is in debt");
  assert.equal(zero.retryAfterMs, 10_000);
  assert.ok((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, "a limit not named does not");
});

test("release gives back at most what the lease holds, and so does a negative adjustment", async () => {
  const { limiter } = await open();
  await limiter.acquire({ ...gpt, consume: { tpm: 5_000 } });
  const lease = await limiter.acquire({ ...gpt, consume: { tpm: 100 } });
  await lease.release({ tpm: 4_000 });
  assert.deepEqual(lease.consumed, { tpm: 0 });
  await lease.adjust({ tpm: -4_000 });
  assert.equal((await held(limiter, "key-1"))["key-1.tpm"], 1_000);
});

test("a closed lease does nothing when closed again and refuses everything else", async () => {
  const { limiter } = await open();
  const lease = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  await lease.settle();
  await lease.rollback();
  assert.equal(lease.status, "settled");
  assert.equal((await held(limiter, "key-1"))["key-1.rpm"], 59);
  await assert.rejects(() => lease.adjust({ rpm: 1 }), LeaseClosed);
  await assert.rejects(() => lease.consume({ rpm: 1 }), LeaseClosed);
  await assert.rejects(() => lease.release({ rpm: 1 }), LeaseClosed);
});

test("await using rolls back unless the lease was settled", async () => {
  const { limiter } = await open();
  {
    await using lease = await limiter.acquire({ ...gpt, consume: { rpm: 5 } });
    assert.equal(lease.status, "open");
  }
  {
    await using lease = await limiter.acquire({ ...gpt, consume: { rpm: 7 } });
    await lease.settle();
  }
  assert.equal((await held(limiter, "key-1"))["key-1.rpm"], 53);
});

test("consuming more is a real take: two leases cannot both have the last tokens", async () => {
  const { limiter } = await open();
  const [a, b] = await Promise.all([
    limiter.acquire({ ...gpt, consume: { rpm: 1 } }),
    limiter.acquire({ ...gpt, consume: { rpm: 1 } }),
  ]);
  const outcomes = await Promise.allSettled([a.consume({ rpm: 50 }), b.consume({ rpm: 50 })]);
  assert.deepEqual(outcomes.map((o) => o.status).sort(), ["fulfilled", "rejected"]);
  assert.equal((await held(limiter, "key-1"))["key-1.rpm"], 8);
  await a.rollback();
  await b.rollback();
  assert.equal((await held(limiter, "key-1"))["key-1.rpm"], 60);
});

test("a body that throws when it is aborted is given everything back, and who is aborted already takes nothing", async () => {
  const { limiter } = await open();
  const controller = new AbortController();
  const request = { ...gpt, consume: { rpm: 9 }, signal: controller.signal };
  const aborted = limiter.withLease(request, async ({ signal }) => {
    controller.abort(new Error("the client left"));
    signal.throwIfAborted();
  });
  await assert.rejects(aborted, /the client left/);
  assert.equal((await held(limiter, "key-1"))["key-1.rpm"], 60);
  await assert.rejects(limiter.acquire({ ...gpt, consume: { rpm: 1 }, signal: controller.signal }), /the client left/);
});

test("limits given in the request stand in for the stored ones, on the same bucket, and only in that request", async () => {
  const { limiter } = await open();
  const small = [Limit.perMinute("rpm", 5)];
  await limiter.acquire({ ...gpt, limits: small, consume: { rpm: 5 } });
  assert.equal((await limiter.tryAcquire({ ...gpt, limits: small, consume: { rpm: 1 } })).ok, false);
  await assert.rejects(limiter.acquire({ ...gpt, limits: small, consume: { rpm: 6 } }), /capacity is 5/);
  // The bucket is one: what was taken under the small limit is gone under the stored one, too.
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, false);
  assert.equal((await held(limiter, "key-1"))["key-1.rpm"], 0);
});

test("a misspelled limit name does not compile when the limits are given", async () => {
  const { limiter } = await open();
  const limits = [Limit.perMinute("rpm", 5), Limit.perMinute("tpm", 5)];
  const lease = await limiter.acquire({ ...gpt, limits, consume: { rpm: 1 } });
  // @ts-expect-error rmp is not a limit
  await assert.rejects(limiter.acquire({ ...gpt, limits, consume: { rmp: 1 } }), ValidationError);
  // @ts-expect-error rmp is not a limit
  await assert.rejects(lease.adjust({ rmp: 1 }), ValidationError);
  const counting = [
    Limit.perMinute("rpm", 50, { counts: "requests" }),
    Limit.perMinute("month", 50, { counts: "tpm" }),
  ];
  const other = await limiter.acquire({ ...gpt, limits: counting, consume: { tpm: 1, requests: 2 } });
  await other.settle({ tpm: 2, requests: 1 });
  // @ts-expect-error month is a limit, and counts tpm
  await assert.rejects(limiter.acquire({ ...gpt, limits: counting, consume: { month: 1 } }), ValidationError);
  // What only a parent counts is not known here.
  const unchecked: Record<string, number> = { usd: 1 };
  await assert.rejects(limiter.acquire({ ...gpt, limits: counting, consume: unchecked }), ValidationError);
});

test("the synchronous way does the same as the asynchronous one", async () => {
  const { limiter } = await openFamily();
  const outcome = limiter.tryAcquireSync({ ...gpt, consume: { rpm: 60 } });
  assert.ok(outcome.ok);
  const refused = limiter.tryAcquireSync({ ...gpt, consume: { rpm: 1 } });
  assert.ok(!refused.ok);
  assert.equal(refused.retryAfterMs, 1_000);
  await outcome.lease.rollback();
  assert.equal((await held(limiter, "key-1"))["org.rpm"], 60);
});

test("bad requests say what, the value and the remedy, and change nothing", async () => {
  const { limiter } = await open();
  const bad: [object, RegExp][] = [
    [{ consume: { rpm: -1 } }, /-1.*whole number/],
    [{ consume: { rpm: 0.5 } }, /0\.5.*whole number/],
    [{ consume: { rpm: "1" } }, /"1".*whole number/],
    [{ consume: { rpm: 61 } }, /61.*capacity is 60/],
    [{ consume: { wcu: 1 } }, /No limit "wcu".*measures: rpm, tpm/],
    [{ consume: null }, /null/],
    [{ consume: { rpm: 1 }, entityId: "key\n" }, /"key\\n"/],
    [{ consume: { rpm: 1 }, entityId: "" }, /must not be empty/],
    [{ consume: { rpm: 1 }, resource: "9lives" }, /"9lives"/],
    [{ consume: { rpm: 1 }, resource: "nowhere" }, /No limits apply to key-1 on nowhere.*setLimits/],
    [{ consume: { rpm: 1 }, limits: [] }, /empty/],
    [{ consume: { rpm: 1 }, wait: { maxMs: -1 } }, /-1/],
  ];
  for (const [request, message] of bad) {
    await assert.rejects(limiter.acquire({ ...gpt, ...request } as never), (error) => {
      assert.ok(error instanceof ValidationError, String(error));
      assert.match(error.message, message);
      return true;
    });
  }
  assert.deepEqual(await held(limiter, "key-1"), { "key-1.rpm": 60, "key-1.tpm": 6_000 });
  assert.deepEqual(await limiter.usage({ window: "hourly" }), []);
});

test("timeUntilAvailable looks at the whole chain and says Infinity for what can never be", async () => {
  const { limiter, clock } = await openFamily();
  await limiter.setLimits("org", [Limit.perHour("rpm", 60)]);
  assert.equal(await limiter.timeUntilAvailable({ ...gpt, consume: { rpm: 10 } }), 0);
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  assert.equal(await limiter.timeUntilAvailable({ ...gpt, consume: { rpm: 2 } }), 120_000);
  await clock.advance(119_999);
  assert.equal(await limiter.timeUntilAvailable({ ...gpt, consume: { rpm: 2 } }), 1);
  assert.equal(await limiter.timeUntilAvailable({ ...gpt, consume: { rpm: 61 } }), Number.POSITIVE_INFINITY);
});

test("entities are locked by version, and the tree stays a tree", async () => {
  const { limiter } = await openFamily();
  const entity = await limiter.getEntity("key-1");
  assert.equal(entity.version, 1);
  const changed = await limiter.updateEntity("key-1", { name: "Key" }, { version: 1 });
  assert.equal(changed.version, 2);
  await assert.rejects(limiter.updateEntity("key-1", { name: "Late" }, { version: 1 }), ConflictError);
  await assert.rejects(limiter.createEntity({ id: "key-1" }), ExistsError);
  await assert.rejects(limiter.createEntity({ id: "x", parentId: "nobody" }), NotFoundError);
  await assert.rejects(limiter.updateEntity("org", { parentId: "key-1" }), /org -> key-1 -> proj -> org/);
  await assert.rejects(limiter.deleteEntity("org"), /proj/);
  await assert.rejects(limiter.getEntity("nobody"), NotFoundError);
});

test("moving an entity charges its new parent from the next request on, and settles old leases where they were taken", async () => {
  const { limiter } = await openFamily();
  await limiter.createEntity({ id: "other" });
  const lease = await limiter.acquire({ ...gpt, consume: { rpm: 5 } });
  await limiter.updateEntity("key-1", { parentId: "other" });
  await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
  assert.equal((await held(limiter, "other"))["other.rpm"], 59);
  assert.equal((await held(limiter, "proj"))["proj.rpm"], 55);
  await lease.rollback();
  assert.equal((await held(limiter, "proj"))["proj.rpm"], 60);
});

test("a list is a page when awaited and everything when iterated", async () => {
  const { limiter } = await open();
  for (const id of ["c", "a", "b"]) await limiter.createEntity({ id });
  const page = await limiter.listEntities({ limit: 2 });
  assert.deepEqual(
    page.map(({ id }) => id),
    ["a", "b"],
  );
  const rest = await limiter.listEntities({ limit: 2, cursor: page.cursor! });
  assert.deepEqual([rest.map(({ id }) => id), rest.cursor], [["c"], undefined]);
  const all: string[] = [];
  for await (const { id } of limiter.listEntities({ limit: 1 })) all.push(id);
  assert.deepEqual(all, ["a", "b", "c"]);
  const { events } = await limiter.auditEvents({ limit: 2 });
  assert.deepEqual(
    events.map(({ action, entityId }) => [action, entityId]),
    [
      ["entity_created", "b"],
      ["entity_created", "a"],
    ],
  );
});

test("a namespace sees nothing of another, and a deleted one takes nothing more", async () => {
  const { limiter } = await open();
  assert.throws(() => limiter.namespace("tenant-b"), NotFoundError);
  await limiter.registerNamespace("tenant-b");
  const tenant = limiter.namespace("tenant-b");
  await tenant.setSystemDefaults([Limit.perMinute("rpm", 3)]);
  await tenant.acquire({ ...gpt, consume: { rpm: 3 } });
  assert.equal((await held(limiter, "key-1"))["key-1.rpm"], 60);
  const { id } = await limiter.deleteNamespace("tenant-b");
  await assert.rejects(tenant.acquire({ ...gpt, consume: { rpm: 0 } }), NotFoundError);
  await limiter.recoverNamespace(id);
  assert.equal((await tenant.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, false);
  await limiter.deleteNamespace("tenant-b");
  assert.deepEqual(
    (await limiter.listOrphanNamespaces()).map(({ name }) => name),
    ["tenant-b"],
  );
  let told = 0;
  const { records } = await limiter.purgeNamespace(id, { onProgress: (deleted) => (told = deleted) });
  assert.equal(told, records);
  await assert.rejects(limiter.recoverNamespace(id), NotFoundError);
});

test("a refusal can be sent as it is: header, JSON and problem details", async () => {
  const { limiter } = await open();
  await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  const error = await limiter.acquire({ ...gpt, consume: { rpm: 2, tpm: 1 } }).catch((e: unknown) => e);
  assert.ok(error instanceof RateLimitExceeded);
  assert.equal(error.code, "rate_limit_exceeded");
  assert.equal(error.retryAfterSeconds, 2);
  assert.deepEqual(
    error.violations.map((v) => v.limit),
    ["rpm"],
  );
  const json = JSON.parse(JSON.stringify(error));
  assert.equal(json.retryAfterMs, 2_000);
  assert.equal(json.statuses.length, 2);
  const problem = error.toProblem();
  assert.equal(problem.status, 429);
  assert.deepEqual(problem["violated-policies"], ["rpm"]);
});

test("whoever listens hears of grants, refusals, leases, give-backs and changed limits", async () => {
  const heard: string[] = [];
  const listeners = Object.values(CHANNELS).map((name) => [name, () => heard.push(name)] as const);
  for (const [name, listen] of listeners) diagnostics.subscribe(name, listen);
  try {
    const { limiter } = await open();
    const lease = await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
    await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } });
    await lease.rollback();
  } finally {
    for (const [name, listen] of listeners) diagnostics.unsubscribe(name, listen);
  }
  assert.deepEqual(heard, [
    CHANNELS.limitsChanged,
    CHANNELS.acquired,
    CHANNELS.leaseOpened,
    CHANNELS.acquireEnded,
    CHANNELS.refused,
    CHANNELS.acquireEnded,
    CHANNELS.leaseEnded,
    CHANNELS.gaveBack,
  ]);
});
