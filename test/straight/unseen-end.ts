import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";

const T0 = Date.UTC(2026, 2, 15, 11, 30);
const END_MS = T0 + 60_000;

/** Two processes on one store: a lease of the first one finds the end of an override that the other has brought to the bucket. */
export async function unseenEnd(open: (onRead?: () => void) => BucketStore): Promise<void> {
  let reads = 0;
  const [first, second] = [open(() => reads++), open()];
  const base = [Limit.perMinute("rpm", 10)];
  const raised = [Limit.perMinute("rpm", 100)];
  const origin = { asOfMs: T0, generation: 1, changeNumber: 1 };
  const take = async (by: BucketStore, limits: readonly Limit[], of: SetOrigin, nowMs: number) => {
    const claim = { bucket: bucketKey("a", "api"), set: limitSet(limits), origin: of, bypass: false };
    const generation = nowMs < END_MS ? 1 : undefined;
    const amounts = [{ limit: "rpm", milli: 1_000 }];
    const reply = await by.take([{ ...claim, take: amounts }], { nowMs, timeoutMs: 30_000, generation, atomic: true });
    return reply === "stale" ? reply : reply[0]?.kind;
  };
  assert.equal(await take(first, base, origin, T0), "taken");
  const changes = [{ fromMs: T0 + 1, number: 2, set: limitSet(raised) }];
  const overridden = { ...origin, changeNumber: 2, changes, ends: [{ atMs: END_MS, limits: base }] };
  assert.equal(await take(second, raised, overridden, T0 + 1_000), "taken");
  assert.equal(reads, 0);
  assert.equal(await take(first, base, origin, END_MS), "taken");
  assert.ok(reads > 0, "What is left at the end is read before the lease takes.");
}
