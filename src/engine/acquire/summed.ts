import type { Amount } from "../../domain/charge/amounts.ts";
import { sumTooLarge } from "../../domain/charge/charge-errors.ts";
import { measureIn } from "../../domain/charge/measures.ts";
import { MILLI_MAX } from "../../domain/limits/limit-numbers.ts";
import type { Claim } from "../../ports/bucket-store.ts";

/** One claim for each bucket: totals are charged the sum over all resources of a request, which is one amount and bounded as one. */
export function summed<One extends Claim>(claims: readonly One[]): readonly One[] {
  const sums = new Map<string, One>();
  for (const claim of claims) {
    const before = sums.get(claim.bucket.id);
    sums.set(claim.bucket.id, before === undefined ? claim : { ...before, take: added(before.take, claim.take) });
  }
  if (sums.size === claims.length) return claims;
  for (const { bucket, set, take } of sums.values()) {
    const vast = take.find(({ milli }) => milli > MILLI_MAX);
    if (vast !== undefined) throw sumTooLarge(measureIn(set.limits, vast.limit), vast.milli, bucket);
  }
  return [...sums.values()];
}

function added(some: readonly Amount[], more: readonly Amount[]): readonly Amount[] {
  const sums = new Map(some.map(({ limit, milli }) => [limit, milli]));
  for (const { limit, milli } of more) sums.set(limit, (sums.get(limit) ?? 0) + milli);
  return Array.from(sums, ([limit, milli]) => ({ limit, milli }));
}
