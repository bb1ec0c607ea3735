import assert from "node:assert/strict";
import { test } from "node:test";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import type { ItemCall, ItemStore } from "../../src/ports/item-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { claim, kinds, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster } from "./kit.ts";

// No take outlasts the time that its caller gave, and where the store is the reason it is unavailable, not a refusal.

const Kinds = limitMakers(calendar);
const drip = [Kinds.perDay("q", 100)];
const session = [Kinds.quota("q", 100, { resetAfterMs: 3_600_000 })];
const TIMEOUT_MS = 1_000;

type Manner = "fine" | "stalled" | "busy";

/** A line that answers to nothing, or to no transaction, from the moment on that it is told so. */
class Line {
  manner: Manner = "fine";
  readonly #clock: SimulatedClock;

  constructor(clock: SimulatedClock) {
    this.#clock = clock;
  }

  readonly through = (line: ItemStore): ItemStore =>
    overriding<ItemStore>(line, {
      read: async (keys, how, call) => {
        await this.#pass(call);
        if (this.manner === "stalled") throw new RateLimiterUnavailable("stalled");
        return line.read(keys, how, call);
      },
      write: async (write, call) => {
        await this.#pass(call);
        return this.manner === "stalled" ? STALLED : line.write(write, call);
      },
      transact: async (writes, options, call) => {
        await this.#pass(call);
        if (this.manner === "stalled") return STALLED;
        // Others are faster each time: a hot bucket.
        return this.manner === "busy" ? { kind: "failed" } : line.transact(writes, options, call);
      },
    });

  #pass({ timeoutMs }: ItemCall): Promise<void> {
    if (this.manner === "fine") return Promise.resolve();
    return this.#clock.sleep(this.manner === "stalled" ? timeoutMs : 5, undefined);
  }
}

const STALLED = { kind: "unknown", cause: new Error("stalled") } as const;

for (const [manner, expected] of [
  ["stalled", "unavailable"],
  // Undecided among many: a refusal, not a fault.
  ["busy", "contended"],
] as const) {
  test(`a take that has to join shards is answered in its time as ${expected} where the store is ${manner}`, async () => {
    const cluster = new Cluster();
    const line = new Line(cluster.clock);
    const { place, buckets, clock } = await cluster.open({ through: line.through });
    const before = claim("ada", drip, { q: 1 });
    await place.take([before], T0);
    assert.ok(await buckets.resize(before.bucket, "more", T0 + 1));
    await place.take([before], T0 + 2);
    line.manner = manner;
    const beganMs = clock.now();
    let endedMs: number | undefined;
    const wanted = claim("ada", session, { q: 1 }, { origin: { asOfMs: T0 + 5, generation: 2 } });
    const context = { nowMs: beganMs, timeoutMs: TIMEOUT_MS, generation: undefined, atomic: false };
    const taking = buckets.take([wanted], context).finally(() => {
      endedMs = clock.now();
    });
    for (let i = 0; i < 200 && endedMs === undefined; i++) await clock.advance(10);
    assert.ok(
      endedMs !== undefined && endedMs - beganMs <= TIMEOUT_MS,
      `it began at ${beganMs} and ended at ${endedMs}`,
    );
    const reply = await taking;
    assert.ok(reply !== "stale");
    assert.deepEqual(kinds(reply), [expected]);
    // What was left of it goes on without the caller.
    line.manner = "fine";
    for (let i = 0; i < 100; i++) await clock.advance(1_000);
    await buckets.settled();
    assert.equal(cluster.item(place.namespaceId, "ada", 1), undefined, "the shards are joined");
  });
}

test("a throttled take does not wait beyond its time before it is sent again", async () => {
  const cluster = new Cluster();
  let isThrottled = false;
  const through = (line: ItemStore): ItemStore =>
    overriding<ItemStore>(line, {
      write: (write, call) =>
        isThrottled ? { kind: "refused", why: "throttled", cause: new Error("busy") } : line.write(write, call),
    });
  const { place, buckets, clock } = await cluster.open({ through, random: () => 0.999 });
  await place.take([claim("ada", drip, { q: 1 })], T0);
  isThrottled = true;
  const beganMs = clock.now();
  let endedMs: number | undefined;
  const context = { nowMs: beganMs, timeoutMs: 30, generation: undefined, atomic: false };
  const taking = buckets.take([claim("ada", drip, { q: 1 })], context).finally(() => {
    endedMs = clock.now();
  });
  for (let i = 0; i < 300 && endedMs === undefined; i++) await clock.advance(1);
  assert.ok(endedMs !== undefined && endedMs - beganMs <= 30, `it began at ${beganMs} and ended at ${endedMs}`);
  const reply = await taking;
  assert.ok(reply !== "stale");
  assert.deepEqual(kinds(reply), ["unavailable"]);
});
