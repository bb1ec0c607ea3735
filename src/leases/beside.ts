import type { Amount } from "../domain/charge/amounts.ts";
import type { BesideBuckets } from "../domain/charge/caller-usage.ts";
import {
  allBack,
  type CallerAmount,
  type CallerChange,
  type CallerUse,
  changedUse,
} from "../domain/charge/caller-usage.ts";
import type { LeaseRecord, LeaseResourceRecord } from "../domain/lease/lease-record.ts";
import { chargedOf, partOf, type ResourceAmounts, sharesOf } from "./ledger.ts";

// What of a stored lease is counted beside the buckets, and how its changes change that: whichever process makes them counts them.

/** The change of what a lease counts beside the buckets. `all`: everything comes back. */
export type BesideChange = { readonly named: ResourceAmounts; readonly how: CallerChange } | "all";

/** The difference of one part, to be counted once the change is stored. */
interface BesideDifference {
  readonly entityId: string;
  readonly resource: string;
  readonly bypass: boolean;
  readonly amounts: readonly CallerAmount[];
  readonly request: BesideBuckets["request"];
}

/** The resources after a change. */
export function withBeside(record: LeaseRecord, change: BesideChange | undefined): readonly LeaseResourceRecord[] {
  if (change === undefined) return record.resources;
  return record.resources.map((resource, i) => {
    const { amounts } = changeOn(resource, i, change).use;
    const { beside, ...others } = resource;
    return beside === undefined && amounts.length === 0 ? resource : { ...others, beside: amounts };
  });
}

/** The differences that a change of a lease makes. `takes`: what it consumes, one request more on each resource. */
export function besideDifferences(
  record: LeaseRecord,
  change: BesideChange | undefined,
  takes: ResourceAmounts,
): readonly BesideDifference[] {
  if (change === undefined) return [];
  return record.resources.map((resource, i) => ({
    entityId: partOf(record, resource).entityId,
    resource: resource.resource,
    bypass: resource.levels[0]?.bypass ?? false,
    amounts: changeOn(resource, i, change).difference,
    request: requestOn(record, i, takes),
  }));
}

function changeOn(resource: LeaseResourceRecord, i: number, change: BesideChange) {
  const use = useOf(resource);
  if (change === "all") return changedUse(use, allBack(use), "difference");
  return changedUse(use, change.named[i] ?? NONE, change.how);
}

function useOf({ levels, beside = [] }: LeaseResourceRecord): CallerUse {
  return {
    levels: levels.map((level) => ({ limits: chargedOf(level).limits, isTotal: level.total === true })),
    bypass: levels[0]?.bypass ?? false,
    amounts: beside,
  };
}

function requestOn(record: LeaseRecord, i: number, takes: ResourceAmounts): BesideBuckets["request"] {
  if ((takes[i]?.length ?? 0) === 0) return "counted";
  const taken = sharesOf(record, takes).filter(({ at }) => at[0] === i);
  if (taken.some(({ at }) => at[1] === 0)) return "counted";
  return taken.some(({ at }) => record.resources[i]?.levels[at[1]]?.total !== true) ? "covered" : "alone";
}

const NONE: readonly Amount[] = [];
