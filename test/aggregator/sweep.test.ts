import assert from "node:assert/strict";
import { test } from "node:test";
import type { DynamoClient } from "../../src/adapters/dynamodb/client.ts";
import { namespaceOf } from "../../src/adapters/dynamodb/namespaces-record.ts";
import { collected } from "../../src/adapters/dynamodb/paging.ts";
import { Records } from "../../src/adapters/dynamodb/records.ts";
import { itemPlace } from "../../src/adapters/dynamodb/schema.ts";
import { readClosedUntil } from "../../src/adapters/dynamodb/usage-resources.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import { createLog } from "../../src/aggregator/log.ts";
import { Metrics } from "../../src/aggregator/metrics.ts";
import { type SweepParts, sweepAll } from "../../src/aggregator/sweep.ts";
import { SweepLedger } from "../../src/aggregator/sweep-ledger.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { HourCloser, ShardClosed } from "../../src/protocol/usage/close-hours.ts";
import { atDepth } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { cutOffAfter, type Ground, newGround, S, Wire } from "../dynamodb/store-kit.ts";

const HOUR_MS = 3_600_000;
const NOW_MS = Date.UTC(2026, 2, 15, 12, 30);
const NOW_HOUR = Math.floor(NOW_MS / HOUR_MS);

/** Buckets whose hours are kept here instead of on the items, so that what the sweep asks for can be looked at. */
class SimulatedHours implements HourCloser {
  /** By bucket and shard: the hour that is open, or that nothing is. */
  readonly open = new Map<string, number | "closed">();
  readonly asked: string[] = [];
  readonly joined: string[] = [];
  fails: (id: string) => boolean = () => false;

  async close(places: Parameters<HourCloser["close"]>[0], options: Parameters<HourCloser["close"]>[1]) {
    return places.map(({ bucket, shard }): ShardClosed => {
      const id = `${bucket.entityId}#${shard}`;
      this.asked.push(id);
      const hour = this.open.get(id);
      const shardCount = bucket.entityId === "split" ? 2 : 1;
      if (this.fails(id)) return { kind: "failed", cause: new Error("others wrote") };
      if (hour === undefined) return { kind: "gone" };
      if (hour === "closed") return { kind: "closed", hours: 0, shardCount };
      if (hour + 1 + options.afterHours > options.nowMs / HOUR_MS) {
        return { kind: "open", hours: 0, shardCount, openHour: hour };
      }
      this.open.set(id, "closed");
      return { kind: "closed", hours: 1, shardCount };
    });
  }

  async joinIdle(bucket: { readonly entityId: string }): Promise<boolean> {
    this.joined.push(bucket.entityId);
    return this.joined.length === 1;
  }
}

class SweepGround {
  readonly hours = new SimulatedHours();
  readonly metrics = new Metrics();
  nowMs = NOW_MS;
  readonly #ground: Ground;

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  async bucket(
    entityId: string,
    hour: number | "closed",
    shard = 0,
    namespaceId = this.#ground.namespaceId,
  ): Promise<void> {
    const place = itemPlace(namespaceId, { bucket: bucketKey(entityId, "api"), shard });
    const attributes = Object.fromEntries(Object.entries(place).map(([name, value]) => [name, S(value)]));
    await this.#ground.put({ pk: `${namespaceId}/BUCKET#${entityId}#api#${shard}`, sk: "#STATE" }, attributes);
    this.hours.open.set(`${entityId}#${shard}`, hour);
  }

  sweep(client: DynamoClient, given: Partial<SweepParts> = {}) {
    const { table } = this.#ground;
    // Faults are retried in real time; leases go by the simulated one.
    const records = new Records({
      ...{ client, tableName: table, clock: systemClock, random: Math.random, ids: systemRandom, timeoutMs: 10_000 },
    });
    const clock = { now: () => this.nowMs, sleep: systemClock.sleep };
    return sweepAll({
      ...{ records, ledger: new SweepLedger(records, systemRandom.id(), clock) },
      namespaces: async function* () {
        for (const item of await collected(records.query({ partition: "_/SYSTEM#", range: { prefix: "#NSID#" } })))
          yield namespaceOf(item);
      },
      scope: () => ({ hours: this.hours, finishDeletion: async () => {} }),
      finishPurge: async () => {},
      copySnapshots: undefined,
      ...{ afterHours: 2, anew: false, untilMs: Number.POSITIVE_INFINITY, stopping: new AbortController().signal },
      ...{ metrics: this.metrics, log: createLog({ level: "error", write: () => {}, now: () => 0 }), clock },
      ...given,
    });
  }

  async closedUntil(namespaceId = this.#ground.namespaceId): Promise<number | undefined> {
    return readClosedUntil(this.#ground.records, namespaceId);
  }
}

await describeDynamo("the sweep", (dynamodb) => {
  test("goes through every bucket of every namespace, and notes up to where all is closed", async (t) => {
    const ground = await newGround(dynamodb, t);
    const own = new SweepGround(ground);
    const other = await ground.store.namespaces.register(
      { id: "zzz-other", name: "other", status: "active", createdAtMs: 0 },
      ground.place.event("namespace_registered", "$NAMESPACE:other"),
      ground.namespaceId,
    );
    for (let i = 0; i < 120; i++) await own.bucket(`e${i}`, NOW_HOUR - 10);
    await own.bucket("recent", NOW_HOUR - 2);
    await own.bucket("there", NOW_HOUR - 5, 0, other.id);
    await own.bucket("split", "closed", 0);
    await own.bucket("split", "closed", 1);
    const report = await own.sweep(dynamodb.client);
    const until = (NOW_HOUR - 2) * HOUR_MS;
    assert.deepEqual(report, {
      ...{ complete: true, bucketsSwept: 124, hoursClosed: 121, shardsJoined: 1, deletionsFinished: 0 },
      ...{ purgesFinished: 0, failures: 0, shardsUnreadable: 0, closedUntilMs: until },
    });
    assert.equal(new Set(own.hours.asked).size, 124);
    assert.equal(await own.closedUntil(), until);
    assert.equal(await own.closedUntil(other.id), until);
    assert.deepEqual(own.metrics.take(), {
      ...{ BucketsSwept: 124, HoursClosed: 121, ShardsJoined: 1, ClosedUntilAgeHours: 2.5 },
    });
    // What is open since longer holds it back, and it never goes back.
    await own.bucket("old", NOW_HOUR - 1);
    own.nowMs += HOUR_MS;
    await own.sweep(dynamodb.client);
    assert.equal(await own.closedUntil(), (NOW_HOUR - 1) * HOUR_MS);
    own.nowMs -= 5 * HOUR_MS;
    await own.sweep(dynamodb.client);
    assert.equal(await own.closedUntil(), (NOW_HOUR - 1) * HOUR_MS);
  });

  test("a bucket that could not be closed keeps the mark where it was", async (t) => {
    const own = new SweepGround(await newGround(dynamodb, t));
    await own.bucket("a", NOW_HOUR - 9);
    await own.bucket("b", NOW_HOUR - 9);
    own.hours.fails = (id) => id === "a#0";
    const { failures, complete } = await own.sweep(dynamodb.client);
    assert.deepEqual([failures, complete, await own.closedUntil()], [1, true, undefined]);
    own.hours.fails = () => false;
    await own.sweep(dynamodb.client);
    assert.equal(await own.closedUntil(), (NOW_HOUR - 2) * HOUR_MS);
  });

  test("one that fails still tells how old what is closed has become: an alarm goes by it", async (t) => {
    const own = new SweepGround(await newGround(dynamodb, t));
    await own.bucket("a", NOW_HOUR - 9);
    await own.sweep(dynamodb.client);
    own.metrics.take();
    own.nowMs += 6 * HOUR_MS;
    own.hours.close = async () => {
      throw new Error("no bucket can be read");
    };
    await assert.rejects(own.sweep(dynamodb.client), /no bucket can be read/);
    assert.equal(own.metrics.take().ClosedUntilAgeHours, 8.5);
  });

  test("without the time for all of it, the next one goes on where it stopped, and closes by the same hour", async (t) => {
    const own = new SweepGround(await newGround(dynamodb, t));
    for (let i = 0; i < 230; i++) await own.bucket(`e${1000 + i}`, NOW_HOUR - 9);
    let chunks = 0;
    const close = own.hours.close.bind(own.hours);
    own.hours.close = (...args) => {
      // The time is over after the second hundred.
      if (++chunks === 2) own.nowMs += 60_000;
      return close(...args);
    };
    const first = await own.sweep(dynamodb.client, { untilMs: NOW_MS + 30_000 });
    assert.deepEqual([first.complete, first.bucketsSwept], [false, 200]);
    assert.equal(await own.closedUntil(), undefined);
    own.nowMs += 3 * HOUR_MS;
    const second = await own.sweep(dynamodb.client);
    assert.deepEqual([second.complete, second.bucketsSwept], [true, 30]);
    assert.equal(new Set(own.hours.asked).size, 230);
    // By the beginning of the pass: buckets of the first part may have been used since.
    assert.equal(await own.closedUntil(), (NOW_HOUR - 2) * HOUR_MS);
    assert.equal((await own.sweep(dynamodb.client)).bucketsSwept, 230);
    assert.equal(await own.closedUntil(), (NOW_HOUR + 1) * HOUR_MS);
  });

  test("killed after any of its calls, the next one ends it: all is closed, and never is more claimed", async (t) => {
    const ground = await newGround(dynamodb, t);
    let kills = 0;
    for (let calls = 0; ; calls += atDepth(3, 1)) {
      const own = new SweepGround(ground);
      own.nowMs = NOW_MS + calls * 24 * HOUR_MS;
      const hour = Math.floor(own.nowMs / HOUR_MS);
      for (let i = 0; i < 3; i++) await own.bucket(`e${i}`, hour - 9);
      const before = await own.closedUntil();
      const wire = new Wire(dynamodb.client);
      wire.fault = cutOffAfter(calls);
      const ended = await own.sweep(wire).then(
        () => true,
        () => false,
      );
      if (ended) break;
      kills += 1;
      const claimed = await own.closedUntil();
      const isAllClosed = [...own.hours.open.values()].every((state) => state === "closed");
      if (claimed !== before) assert.ok(isAllClosed, `after ${calls} calls: claimed, and not closed`);
      // Its lease is over after a while.
      own.nowMs += 3 * 60_000;
      assert.equal((await own.sweep(dynamodb.client)).complete, true);
      assert.ok([...own.hours.open.values()].every((state) => state === "closed"));
      assert.equal(await own.closedUntil(), (hour - 2) * HOUR_MS);
    }
    assert.ok(kills >= atDepth(2, 8), `${kills} kills`);
  });

  test("one that cannot go on says why, and the next one begins at once where it was", async (t) => {
    const own = new SweepGround(await newGround(dynamodb, t));
    for (let i = 0; i < 120; i++) await own.bucket(`e${1000 + i}`, NOW_HOUR - 9);
    const close = own.hours.close.bind(own.hours);
    let chunks = 0;
    own.hours.close = (...args) => (++chunks === 2 ? Promise.reject(new Error("access denied")) : close(...args));
    await assert.rejects(own.sweep(dynamodb.client), /access denied/);
    const { complete, bucketsSwept } = await own.sweep(dynamodb.client);
    assert.deepEqual([complete, bucketsSwept, new Set(own.hours.asked).size], [true, 20, 120]);
  });

  test("two do not do the same work; one that begins anew minds nobody", async (t) => {
    const own = new SweepGround(await newGround(dynamodb, t));
    await own.bucket("a", NOW_HOUR - 9);
    let inside: Promise<unknown> = Promise.resolve();
    const close = own.hours.close.bind(own.hours);
    own.hours.close = async (...args) => {
      own.hours.close = close;
      inside = own.sweep(dynamodb.client);
      await inside;
      return close(...args);
    };
    assert.equal((await own.sweep(dynamodb.client)).complete, true);
    assert.equal(((await inside) as { complete: boolean }).complete, false);
    assert.equal(own.hours.asked.length, 1);
    const { hoursClosed } = await own.sweep(dynamodb.client, { anew: true, afterHours: 0 });
    assert.equal(hoursClosed, 0);
    assert.equal(await own.closedUntil(), NOW_HOUR * HOUR_MS);
  });
});
