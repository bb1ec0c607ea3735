import { availableMilli, findLimit } from "../../domain/bucket/bucket-state.ts";
import { namesOf, UH } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import type { BucketCache } from "./bucket-cache.ts";

/** Notes what all processes took between two observations, as a part of what was refilled. The tolerance goes by it (ADR 7). */
export function noteUtilization(
  cache: BucketCache,
  before: Image,
  after: Image,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): void {
  // Counters begin anew with every hour.
  if (before.item[UH] !== after.item[UH]) return;
  const { utilization } = cache;
  for (const { name, terms } of after.state.limits) {
    if (terms.refillAmountMilli === 0) continue;
    const { tc } = namesOf(name);
    // By which nothing is decided: it may be rounded.
    const taken = Number(after.item[tc] ?? 0) - Number(before.item[tc] ?? 0);
    const used = (taken * terms.refillPeriodMs) / (terms.refillAmountMilli * (toMs - fromMs));
    // A single span may be short, and then it says little.
    utilization.set(name, ((utilization.get(name) ?? used) + used) / 2);
    const was = findLimit(before.state, name);
    // As if it had all been taken at once, right after the limit was seen.
    const lowestMilli = was === undefined ? 0 : availableMilli(before.state, was, fromMs) - taken;
    if (lowestMilli * NEARLY_EMPTY < terms.capacityMilli) cache.noteDrained(toMs);
  }
}

/** A limit is nearly empty when it has less than this part of its capacity: what the tolerance may hold back. */
const NEARLY_EMPTY = 16;
