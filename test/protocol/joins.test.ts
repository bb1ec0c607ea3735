import assert from "node:assert/strict";
import { test } from "node:test";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import { CALL, update } from "../kit/conditional-kit.ts";
import { claim, kinds, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster, type Process } from "./kit.ts";

// Shards that heard of a change of limits at different times: joined, they go by the newer ones, and have all of it but what was used.

const Kinds = limitMakers(calendar);
const older = [Kinds.quota("q", 100, { reset: { cron: "0 0 1 * *" } })];
const newer = [Kinds.quota("q", 200, { reset: { cron: "0 0 1 * *" } })];
const HOUR_MS = 3_600_000;

/** Two shards: one of them has heard that 100 became 200; the other was told of 100 once more, by a clock that is ahead. */
async function halfTold(cluster: Cluster, aheadMs: number): Promise<Process> {
  const process = await cluster.open();
  const { place, buckets, line } = process;
  const origin = { asOfMs: T0, generation: null };
  const { bucket } = claim("ada", older, {});
  await place.take([claim("ada", older, { q: 0 }, { origin })], T0);
  assert.ok(await buckets.resize(bucket, "more", T0 + 1));
  await place.take([claim("ada", newer, { q: 1 }, { origin })], T0 + 2);
  const shard = capacities(cluster, process).indexOf(100_000);
  await line.write(update({ bucket, shard }, { set: { cfa: T0 + aheadMs } }), CALL);
  return process;
}

function capacities(cluster: Cluster, { place }: Process): readonly unknown[] {
  return [0, 1].map((shard) => cluster.item(place.namespaceId, "ada", shard)?.b_q_cp);
}

function tokens(cluster: Cluster, { place }: Process): readonly unknown[] {
  return [0, 1].map((shard) => cluster.item(place.namespaceId, "ada", shard)?.b_q_tk);
}

for (const [when, aheadMs] of [
  ["in the same millisecond", 0],
  ["by a clock that is ahead", 900],
] as const) {
  test(`shards whose limits were read ${when} are not joined by the older ones`, async () => {
    const cluster = new Cluster();
    const process = await halfTold(cluster, aheadMs);
    const { place, buckets } = process;
    assert.deepEqual(new Set(capacities(cluster, process)), new Set([100_000, 200_000]), "one has heard of it");
    assert.deepEqual(new Set(tokens(cluster, process)), new Set([50_000, 99_000]), "its share of 200, less 1");
    const { bucket } = claim("ada", newer, {});
    cluster.clock.set(T0 + 15 * HOUR_MS);
    assert.equal(await buckets.resize(bucket, "fewer", T0 + 15 * HOUR_MS), false);
    assert.equal(await buckets.resize(bucket, 1, T0 + 15 * HOUR_MS), false);
    assert.deepEqual(new Set(tokens(cluster, process)), new Set([50_000, 99_000]), "nothing was cut off");
    // The next takes bring the limits of now to each shard; then they can be joined.
    const now = { asOfMs: T0 + 15 * HOUR_MS, generation: null };
    for (let i = 0; i < 20; i++) {
      assert.deepEqual(kinds(await place.take([claim("ada", newer, { q: 1 }, { origin: now })], now.asOfMs)), [
        "taken",
      ]);
    }
    await buckets.settled();
    await buckets.resize(bucket, 1, now.asOfMs);
    assert.deepEqual(capacities(cluster, process), [200_000, undefined]);
    assert.deepEqual(tokens(cluster, process), [200_000 - 1_000 - 20_000, undefined]);
  });
}
