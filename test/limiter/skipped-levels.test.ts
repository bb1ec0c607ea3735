import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit, RateLimiter, type Refusal } from "../../src/entry/index.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { type ConditionalStore, conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import type { ConditionalTable } from "../kit/conditional-table.ts";
import { calendar } from "../limits/kind-arbitraries.ts";

// A level that is not asked, because another one refuses, is looked at before anything is said of it. On stores that take all
// levels in one transaction there is no such level; here each is an item of its own.

const T0 = Date.UTC(2026, 2, 15, 12);
const DEFAULT_DENY_MS = 1_000;

const slow = (capacity: number) => Limit.custom("r", { capacity, refillAmount: 1, refillPeriodMs: 1_000 });
const quick = (capacity: number) => Limit.custom("r", { capacity, refillAmount: 10, refillPeriodMs: 1_000 });

type Process = Awaited<ReturnType<Family["process"]>>;

interface Ask {
  readonly atomic?: boolean;
  readonly also?: Readonly<Record<string, { readonly r: number }>>;
}

/** `k` (10, 10 a second) and `k2` (100, 10 a second) below `p` (100, 1 a second), for as many processes as are opened. */
class Family {
  readonly clock = new SimulatedClock(T0);
  readonly #random = new SeededRandom(5);
  readonly #world = conditionalWorld(
    { now: () => this.clock.now(), random: this.#random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
    calendar,
  );

  get table(): ConditionalTable {
    return this.#world.table;
  }

  async process(denyMemoryMs: number) {
    const random = this.#random.fork();
    const store = openConditional(this.#world, { clock: this.clock, random: () => random.next(), denyMemoryMs });
    const limiter = await RateLimiter.open({ store, clock: this.clock, denyMemoryMs });
    const ask = (entityId: string, r: number, how: Ask = {}) =>
      limiter.tryAcquire({ entityId, resource: "api", consume: { r }, ...how });
    const refused = async (entityId: string, r: number, how: Ask = {}): Promise<Refusal> => {
      const outcome = await ask(entityId, r, how);
      assert.ok(!outcome.ok, `${r} were granted`);
      return outcome;
    };
    return { limiter, store, ask, refused };
  }

  async made(denyMemoryMs: number) {
    const first = await this.process(denyMemoryMs);
    const { limiter } = first;
    await limiter.createEntity({ id: "p" });
    for (const id of ["k", "k2"]) await limiter.createEntity({ id, parentId: "p", cascade: true });
    await limiter.setLimits("p", [slow(100)]);
    await limiter.setLimits("k", [quick(10)]);
    await limiter.setLimits("k2", [quick(100)]);
    return first;
  }

  /** What the table has counted since the last time it was asked. */
  spent() {
    const { writes, transactions, reads } = this.table.counts;
    const before = this.#counted;
    this.#counted = { writes, transactions, reads };
    return {
      writes: writes - before.writes,
      transactions: transactions - before.transactions,
      reads: reads - before.reads,
    };
  }

  #counted = { writes: 0, transactions: 0, reads: 0 };
}

function statusOf({ statuses }: Refusal, entityId: string, resource = "api") {
  const status = statuses.find((one) => one.entityId === entityId && one.resource === resource);
  assert.ok(status !== undefined, `nothing is said of ${entityId}`);
  return status;
}

/** It comes back when it was told to: granted then, and not a millisecond earlier. */
async function comesBack(
  { clock }: Family,
  { limiter }: Process,
  { retryAfterMs }: Refusal,
  request: { readonly r: number; readonly how?: Ask },
): Promise<void> {
  const { r, how = {} } = request;
  const question = { entityId: "k", resource: "api", consume: { r } };
  await clock.advance(retryAfterMs - 1);
  if (how.also === undefined) assert.equal(await limiter.timeUntilAvailable(question), 1);
  await clock.advance(1);
  const { ok } = await limiter.tryAcquire({ ...question, ...how });
  assert.ok(ok, "refused again, when it came back as told");
}

describe("a refusal tells the truth of a level that was not asked", () => {
  test("alone: after a transaction of one's own, which shows no image, the parent does not count as full", async () => {
    const family = new Family();
    const first = await family.made(DEFAULT_DENY_MS);
    const { ask, refused } = first;
    assert.ok((await ask("k", 10)).ok);
    await refused("k", 5);
    assert.ok((await ask("k2", 90, { atomic: true })).ok);
    const told = await refused("k", 5);
    assert.equal(statusOf(told, "p").available, 0);
    assert.equal(statusOf(told, "p").exceeded, true);
    assert.equal(told.retryAfterMs, 5_000);
    await comesBack(family, first, told, { r: 5 });
  });

  for (const denyMemoryMs of [0, DEFAULT_DENY_MS]) {
    test(`other: what another process took before is seen, with a deny memory of ${denyMemoryMs} ms`, async () => {
      const family = new Family();
      const first = await family.made(denyMemoryMs);
      const { ask, refused } = first;
      const other = await family.process(denyMemoryMs);
      assert.ok((await ask("k", 10)).ok);
      await refused("k", 5);
      assert.ok((await other.ask("k2", 90)).ok);
      const told = await refused("k", 5);
      assert.equal(statusOf(told, "p").available, 0);
      assert.equal(told.retryAfterMs, 5_000);
      await comesBack(family, first, told, { r: 5 });
    });
  }

  test("also: of a further resource that was not asked, too", async () => {
    const family = new Family();
    const first = await family.made(DEFAULT_DENY_MS);
    const { limiter, ask, refused } = first;
    await limiter.setLimits("k", [slow(100)], { resource: "gpu" });
    const other = await family.process(DEFAULT_DENY_MS);
    const both = { also: { gpu: { r: 5 } } };
    assert.ok((await ask("k", 5, both)).ok);
    assert.ok((await ask("k", 5)).ok);
    await refused("k", 5, both);
    assert.ok((await other.limiter.tryAcquire({ entityId: "k", resource: "gpu", consume: { r: 95 } })).ok);
    const told = await refused("k", 5, both);
    assert.equal(statusOf(told, "k", "gpu").available, 0);
    assert.equal(told.retryAfterMs, 5_000);
    await comesBack(family, first, told, { r: 5, how: both });
  });

  test("tooLong: what another process gave back before is seen, too", async () => {
    const family = new Family();
    const first = await family.made(0);
    const { ask, refused } = first;
    const other = await family.process(0);
    const lease = await other.ask("k2", 90);
    assert.ok(lease.ok && (await ask("k", 10)).ok);
    await refused("k", 6);
    await lease.lease.rollback();
    const told = await refused("k", 6);
    assert.equal(statusOf(told, "p").available, 90);
    assert.equal(told.retryAfterMs, 600);
    await comesBack(family, first, told, { r: 6 });
  });

  test("split: a shard of the parent without an image counts as what it holds", async () => {
    const family = new Family();
    const first = await family.made(0);
    const { limiter, store, ask, refused } = first;
    const other = await family.process(0);
    assert.ok((await ask("k", 10)).ok);
    await refused("k", 5);
    assert.ok(await bucketsOf(store).resize(bucketKey("p", "api"), "more", family.clock.now()));
    // Of 45 and 45 that are left no shard has 60 alone.
    const gathered = await other.ask("k2", 60);
    assert.ok(gathered.ok);
    const told = await refused("k", 5);
    const [held] = await limiter.available({ entityId: "p", resource: "api" });
    assert.equal(statusOf(told, "p").available, held?.available);
    assert.equal(statusOf(told, "p").available, 30);
    const all = await refused("k", 9);
    assert.equal(statusOf(all, "p").available, 30);
    await comesBack(family, first, all, { r: 9 });
  });

  test("split: nor is a shard that gave, before another level refused, told as if it were the whole", async () => {
    const family = new Family();
    const first = await family.made(0);
    const { limiter, store, ask, refused } = first;
    const other = await family.process(0);
    assert.ok((await ask("k", 10)).ok);
    assert.ok(await bucketsOf(store).resize(bucketKey("p", "api"), "more", family.clock.now()));
    assert.ok((await other.ask("k2", 60)).ok);
    // The first refusal in ten seconds: both levels are asked at once, and a shard of the parent gives.
    await family.clock.advance(20_000);
    assert.ok((await ask("k", 10)).ok);
    const told = await refused("k", 5);
    const [held] = await limiter.available({ entityId: "p", resource: "api" });
    assert.equal(statusOf(told, "p").available, held?.available);
  });
});

describe("a refusal from memory costs no call, and says when its buckets were looked at", () => {
  test("otherAtomic: within the deny memory it tells what the last look showed, by its time; then the truth", async () => {
    const family = new Family();
    const first = await family.made(DEFAULT_DENY_MS);
    const { ask, refused } = first;
    const other = await family.process(DEFAULT_DENY_MS);
    const atomic = { atomic: true };
    assert.ok((await ask("k", 10, atomic)).ok);
    const seen = await refused("k", 8, atomic);
    assert.ok(
      seen.statuses.every((status) => !("asOfMs" in status)),
      "looked at for this request",
    );
    await other.ask("k2", 90, atomic);
    await family.clock.advance(100);
    family.spent();
    const told = await refused("k", 8, atomic);
    assert.deepEqual(family.spent(), { writes: 0, transactions: 0, reads: 0 });
    assert.deepEqual(
      told.statuses.map(({ entityId, available, asOfMs }) => ({ entityId, available, asOfMs })),
      [
        { entityId: "k", available: 1, asOfMs: T0 },
        { entityId: "p", available: 90, asOfMs: T0 },
      ],
    );
    // 800 ms after the look its own bucket has enough: the store is asked, and says what there is to be said.
    await family.clock.advance(told.retryAfterMs);
    const truth = await refused("k", 8, atomic);
    assert.equal(statusOf(truth, "p").available, 0);
    assert.ok(!("asOfMs" in statusOf(truth, "p")));
    await comesBack(family, first, truth, { r: 8, how: atomic });
  });

  test("a key that hammers costs one read of its parent in a deny memory, and a refusal of one level none", async () => {
    const family = new Family();
    const first = await family.made(DEFAULT_DENY_MS);
    const { ask, refused } = first;
    assert.ok((await ask("k", 10)).ok);
    await refused("k", 10);
    family.spent();
    for (let i = 0; i < 9; i++) {
      await family.clock.advance(100);
      await refused("k", 10);
    }
    assert.deepEqual(family.spent(), { writes: 0, transactions: 0, reads: 1 });
    assert.ok((await ask("p", 50)).ok);
    await refused("p", 90);
    family.spent();
    for (let i = 0; i < 9; i++) {
      await family.clock.advance(100);
      await refused("p", 90);
    }
    assert.deepEqual(family.spent(), { writes: 0, transactions: 0, reads: 0 });
  });

  test("what is remembered does not become newer by being told: after the deny memory the store is asked", async () => {
    const family = new Family();
    const first = await family.made(DEFAULT_DENY_MS);
    const { ask, refused } = first;
    const other = await family.process(DEFAULT_DENY_MS);
    assert.ok((await ask("k", 10)).ok);
    await refused("k", 10);
    await family.clock.advance(900);
    // This one has to look at the parent, and knows of the key what was seen 900 ms ago.
    assert.equal(statusOf(await refused("k", 10), "k").asOfMs, T0);
    const reset = { entityId: "k", resource: "api", idempotencyKey: "again" };
    await other.limiter.resetBucket(reset);
    await family.clock.advance(99);
    await refused("k", 10);
    await family.clock.advance(1);
    assert.ok((await ask("k", 10)).ok, "a second after the key was looked at, the store was not asked");
  });
});

function bucketsOf(store: ConditionalStore) {
  return store.bucketsOf("default");
}

test("a skipped level whose limits were raised is told of them, so that the wait by them is true", async () => {
  const family = new Family();
  const { limiter, store, ask, refused } = await family.made(0);
  assert.ok((await ask("k2", 90)).ok);
  assert.ok((await ask("k", 10)).ok);
  await refused("k", 5);
  await limiter.setLimits("p", [quick(100)]);
  const { retryAfterMs } = await refused("k", 5);
  await store.bucketsOf("default").settled();
  await family.clock.advance(retryAfterMs);
  assert.ok((await ask("k", 5)).ok, `not granted after ${retryAfterMs} ms`);
});
