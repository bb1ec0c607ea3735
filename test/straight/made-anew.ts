import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import type { BatchStore } from "../../src/ports/batch-store.ts";
import type { BucketStore, Claim } from "../../src/ports/bucket-store.ts";
import { BucketSweep } from "../../src/straight/sweep.ts";
import { calendar } from "./same-as-memory.ts";

const T0 = Date.UTC(2026, 2, 15, 11, 30);
const HOUR_MS = 3_600_000;

/** Two processes on one store: what one of them remembers of a bucket that was forgotten does not replace the one that followed it. */
export async function madeAnew(store: BatchStore, [first, second]: readonly [BucketStore, BucketStore]): Promise<void> {
  const set = limitSet([Limit.perMinute("rpm", 10)]);
  const claim = (tokens: number): Claim => ({
    ...{ bucket: bucketKey("a", "api"), set, origin: { asOfMs: T0, generation: 1 }, bypass: false },
    take: [{ limit: "rpm", milli: 1_000 * tokens }],
  });
  const take = async (by: BucketStore, tokens: number, nowMs: number) => {
    const reply = await by.take([claim(tokens)], { nowMs, timeoutMs: 30_000, generation: 1, atomic: true });
    return reply === "stale" ? reply : reply[0]?.kind;
  };
  assert.equal(await take(first, 1, T0), "taken");
  const config = { generation: () => 1, resolve: () => assert.fail("The bucket has met every change.") };
  assert.equal(await new BucketSweep(store, calendar, true, () => config).toEnd("default", T0 + 3 * HOUR_MS), 1);
  assert.equal(await take(second, 10, T0 + 4 * HOUR_MS), "taken");
  assert.equal(await take(first, 1, T0 + 4 * HOUR_MS), "short");
}
