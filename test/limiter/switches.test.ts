import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { Propagation } from "../../src/protocol/config/propagate.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { claim, kinds, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster } from "../protocol/kit.ts";
import { type TwoLimiters, tellSwitchStories } from "./switch-stories.ts";

async function twoOn(stores: readonly [Store | string, Store | string], after: () => void): Promise<TwoLimiters> {
  const clock = new SimulatedClock(T0);
  const [admin, worker] = await Promise.all(stores.map((store) => RateLimiter.open({ store, clock })));
  assert.ok(admin !== undefined && worker !== undefined);
  const close = async () => {
    await Promise.all([admin.close(), worker.close()]);
    after();
  };
  return { admin, worker, clock, close };
}

describe("memory", () => {
  tellSwitchStories(async () => {
    const store = openMemory();
    return twoOn([store, store], () => {});
  });
});

describe("sqlite", () => {
  tellSwitchStories(async () => {
    const folder = mkdtempSync(join(tmpdir(), "zae-limiter-switches-"));
    const file = `sqlite:${join(folder, "limiter.db")}`;
    return twoOn([file, file], () => rmSync(folder, { recursive: true }));
  });
});

for (const coalesce of [true, false]) {
  describe(`conditional writes, ${coalesce ? "joined" : "each by itself"}`, () => {
    tellSwitchStories(async () => {
      const clock = new SimulatedClock(T0);
      const random = new SeededRandom(7);
      const world = conditionalWorld(
        { now: () => clock.now(), random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
        calendar,
      );
      const process = () => openConditional(world, { clock, random: () => random.next(), coalesce });
      const [admin, worker] = await Promise.all(
        [process(), process()].map((store) => RateLimiter.open({ store, clock })),
      );
      assert.ok(admin !== undefined && worker !== undefined);
      const close = async () => {
        await Promise.all([admin.close(), worker.close()]);
      };
      return { admin, worker, clock, close };
    });
  });
}

const Kinds = limitMakers(calendar);
const rpd = [Kinds.perDay("rpd", 100)];
const KEY = bucketKey("ada", "api");

/** A claim of a request whose configuration was read once, at the beginning. */
function remembered(reading: number) {
  const origin = { asOfMs: T0, generation: null, reading };
  return { ...claim("ada", rpd, { rpd: 1 }, { origin }), isConfigJustRead: false };
}

test("a bucket in shards is off in all of them, also in one that is split off while it is being switched", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  let stamps = 0;
  const through = (line: ItemStore): ItemStore =>
    overriding<ItemStore>(line, {
      write: async (write, call) => {
        // Between the stamp of the first shard and that of the second another process doubles them.
        if ("disabled" in write.set && ++stamps === 2) {
          cluster.clock.set(T0 + 20_000);
          assert.ok(await a.buckets.resize(KEY, "more", T0 + 20_000));
        }
        return line.write(write, call);
      },
    });
  const admin = await cluster.open({ through });
  await a.place.take([claim("ada", rpd, { rpd: 1 })], T0);
  assert.ok(await a.buckets.resize(KEY, "more", T0 + 1));
  assert.equal(await admin.buckets.stampAccess(KEY, "disabled", T0 + 2), 4);
  for (let shard = 0; shard < 4; shard++) {
    assert.equal(cluster.item(a.place.namespaceId, "ada", shard)?.disabled, true, `shard ${shard}`);
  }
});

for (const access of ["disabled", "announced"] as const) {
  test(`a shard that is split off a bucket that is ${access} says the same`, async () => {
    const cluster = new Cluster();
    const { place, buckets } = await cluster.open();
    await place.take([claim("ada", rpd, { rpd: 1 })], T0);
    if (access === "disabled") await buckets.stampAccess(KEY, access, T0 + 1);
    else await buckets.announce(KEY, T0 + 1);
    assert.ok(await buckets.resize(KEY, "more", T0 + 2));
    const [first, second] = [0, 1].map((shard) => cluster.item(place.namespaceId, "ada", shard));
    for (const name of ["disabled", "vu", "bn"]) assert.equal(second?.[name], first?.[name], name);
    const taking = await cluster.open();
    assert.deepEqual(kinds(await taking.place.take([remembered(0)], T0 + 3)), ["configSuspect"]);
  });
}

for (const late of ["bypass", "enforce"] as const) {
  test(`a switch to ${late} that arrives after a later one that turned it off opens nothing`, async () => {
    const cluster = new Cluster();
    const { place, buckets } = await cluster.open();
    await place.take([claim("ada", rpd, { rpd: 1 })], T0);
    await buckets.stampAccess(KEY, "disabled", T0 + 1);
    await buckets.stampAccess(KEY, late, T0 + 1);
    // Of a process that remembers what the earlier switch said.
    const taking = await cluster.open();
    const known = { ...remembered(0), bypass: late === "bypass" };
    assert.deepEqual(kinds(await taking.place.take([known], T0 + 3)), ["configSuspect"]);
  });
}

test("a switch that did not reach a bucket says so", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  await a.place.take([claim("ada", rpd, { rpd: 1 })], T0);
  const through = (line: ItemStore): ItemStore =>
    overriding<ItemStore>(line, { write: () => ({ kind: "refused", why: "throttled", cause: new Error("busy") }) });
  const admin = await cluster.open({ through });
  const stamping = admin.buckets.stampAccess(KEY, "disabled", T0 + 1);
  stamping.catch(() => {});
  await cluster.clock.advance(60_000);
  await assert.rejects(stamping, { code: "unavailable" });
});

test("a bucket that a request under way makes while access is switched is told before the switch returns", async () => {
  const cluster = new Cluster();
  const { place, buckets, clock } = await cluster.open();
  // Its configuration was read before the switch, for this very request, and it is slow.
  const underWay = { ...remembered(0), isConfigJustRead: true };
  const there = () => (cluster.item(place.namespaceId, "ada") === undefined ? [] : [KEY]);
  const propagation = new Propagation({
    ...{ buckets, clock, stampsBelow: false },
    places: { under: async () => there(), childrenOf: async () => [] },
    accessOf: async () => "disabled",
    settle: async () => assert.deepEqual(kinds(await place.take([underWay], T0)), ["taken"]),
  });
  await propagation.accessChanged({ level: "entityDefault", entityId: "ada" }, "disabled");
  assert.deepEqual(kinds(await place.take([remembered(0)], T0 + 1)), ["configSuspect"]);
});

test("however many requests come at once for a bucket that is not there, its configuration is read again once", async () => {
  const cluster = new Cluster();
  const { store } = await cluster.open();
  const reads = { any: 0, consistent: 0 };
  const eventually = overriding<Store>(store, {
    scope: (namespaceId) => {
      const scope = store.scope(namespaceId);
      const config = overriding(scope.config, {
        resolve: async (entityId, resource, read) => {
          reads[read ?? "any"]++;
          const { isConsistent: _, ...level } = await scope.config.resolve(entityId, resource, read);
          return level;
        },
      });
      return { ...scope, config };
    },
  });
  const limiter = await RateLimiter.open({ store: eventually, clock: cluster.clock });
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 100)]);
  const ask = () => limiter.tryAcquire({ entityId: "ada", resource: "api", consume: { rpm: 1 } });
  const outcomes = await Promise.all(Array.from({ length: 50 }, ask));
  assert.ok(outcomes.every(({ ok }) => ok));
  assert.deepEqual(reads, { any: 1, consistent: 1 });
  await limiter.close();
});
