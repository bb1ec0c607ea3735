import type { Amount } from "../domain/charge/amounts.ts";
import { measureIn } from "../domain/charge/measures.ts";
import { withPassed } from "../domain/lease/lease-consumed.ts";
import type { LeaseLevel, LeaseResourceRecord } from "../domain/lease/lease-record.ts";
import { type BucketPosition, nameAt } from "../engine/lease/lease-part.ts";
import { positionsIn, type ResourceAmounts, type Share } from "./ledger.ts";

// What a stored lease asked of shadow limits that would have refused it. It is shown as consumed, and neither charged nor given back.

/** Names of the shadow limits that would have refused what the lease took on a resource: `tpm`, one level up `tpm^1`. */
export function shadowedOn(resource: LeaseResourceRecord): readonly string[] {
  if (resource.levels.every(({ passed }) => passed === undefined)) return [];
  const positions = positionsIn(resource);
  return resource.levels.flatMap(({ passed = [] }, i) =>
    passed.map(({ limit }) => nameAt(limit, positions[i] as BucketPosition)),
  );
}

/** One level with what passed by its shadows when more was taken. */
export function withMorePassed(
  resources: readonly LeaseResourceRecord[],
  { at: [resource, level], amounts }: Share,
): readonly LeaseResourceRecord[] {
  if (amounts.length === 0) return resources;
  return resources.map((one, i) => {
    if (i !== resource) return one;
    return {
      ...one,
      levels: one.levels.map((old, j) => (j === level ? { ...old, passed: withPassed(old.passed, amounts) } : old)),
    };
  });
}

/** The lease after a change by measure, less where that is negative; "none": it is rolled back. */
export function withPassedBy(
  resources: readonly LeaseResourceRecord[],
  change: ResourceAmounts | "none" | undefined,
): readonly LeaseResourceRecord[] {
  if (change === undefined) return resources;
  return resources.map((one, i) => {
    if (one.levels.every(({ passed }) => passed === undefined)) return one;
    const levels = one.levels.map((level): LeaseLevel => {
      const { passed, limits } = level;
      if (passed === undefined) return level;
      const after = ({ limit, milli }: Amount) => {
        if (change === "none") return { limit, milli: 0 };
        const more = change[i]?.find((amount) => amount.limit === measureIn(limits, limit))?.milli ?? 0;
        return { limit, milli: Math.max(0, milli + more) };
      };
      return { ...level, passed: passed.map(after) };
    });
    return { ...one, levels };
  });
}
