import { type BucketKey, bucketKey } from "../domain/bucket/bucket-key.ts";
import type { Ticket } from "../domain/bucket/give-back.ts";
import type { Amount, AmountUse, Tokens } from "../domain/charge/amounts.ts";
import { nothingCounted } from "../domain/charge/charge-errors.ts";
import { type ChargedBucket, changedBy, chargedTo, checkCounted } from "../domain/charge/charges.ts";
import { levelOfName } from "../domain/config/level-names.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import {
  type Holding,
  returnsOf as returnsOfHoldings,
  without as withoutReturns,
  withTaken,
} from "../domain/lease/holding.ts";
import { consumedOf, notPassed } from "../domain/lease/lease-consumed.ts";
import type {
  LeaseHolding,
  LeaseLevel,
  LeaseRecord,
  LeaseResourceRecord,
  SeenLimit,
} from "../domain/lease/lease-record.ts";
import { rulesOf } from "../domain/limits/kinds/table.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { type LimitSet, limitSet } from "../domain/limits/limit-set.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import { refuseSlots, withoutSlots } from "../engine/acquire/slot-amounts.ts";
import { summed } from "../engine/acquire/summed.ts";
import { type BucketPosition, positionsOf } from "../engine/lease/lease-part.ts";
import type { Claim, Held } from "../ports/bucket-store.ts";

/** Amounts by measure for each resource of a lease, in its order. */
export type ResourceAmounts = readonly (readonly Amount[])[];

/** What is to be taken from, or given back to, one level of one resource of a lease. */
export interface Share {
  readonly at: LeaseHolding["at"];
  readonly amounts: readonly Amount[];
}

/** Checks what a caller names of a lease: the amounts of its own resource, and of further ones in `also`. */
export function amountsOf(
  record: LeaseRecord,
  { own, also }: { readonly own: Tokens; readonly also: Readonly<Record<string, Tokens>> | undefined },
  use: AmountUse,
): ResourceAmounts {
  const further = also === undefined ? {} : checkAlso(also, record);
  // What is consumed of further resources alone names nothing of the first.
  const isOwnNamed = use !== "consume" || Object.keys(further).length === 0 || !isEmpty(own);
  return record.resources.map((resource, i) => {
    if (i === 0 && !isOwnNamed) return [];
    const tokens = i === 0 ? own : Object.hasOwn(further, resource.resource) ? further[resource.resource] : undefined;
    if (tokens === undefined) return [];
    const asked = changedBy(tokens, use);
    const chain = chainOf(record, resource);
    checkCounted(asked, chain);
    if (use === "consume" && chain.every(({ charged }) => chargedTo(charged, asked).length === 0))
      throw nothingCounted(chain);
    return asked.named;
  });
}

/** The levels of a lease on one resource, as what is charged is decided for them. */
function chainOf({ entityId }: LeaseRecord, { resource, levels }: LeaseResourceRecord): readonly ChargedBucket[] {
  return levels.map((level, i) => ({
    bucket: i === 0 ? bucketKey(entityId, resource) : bucketOf(level, resource),
    charged: chargedOf(level),
    access: level.bypass ? "bypass" : "enforce",
  }));
}

/** The bucket of a level of a lease on a resource. */
function bucketOf({ entityId, total }: LeaseLevel, resource: string): BucketKey {
  return bucketKey(entityId, total === true ? TOTAL_RESOURCE : resource);
}

/** The limits of a level that the lease is charged to. */
function chargedOf({ limits, charged }: LeaseLevel): LimitSet {
  return limitSet(charged === undefined ? limits : limits.filter(({ name }) => charged.includes(name)));
}

function isEmpty(tokens: unknown): boolean {
  return typeof tokens === "object" && tokens !== null && !Array.isArray(tokens) && Object.keys(tokens).length === 0;
}

function checkAlso(
  also: Readonly<Record<string, Tokens>>,
  { resources }: LeaseRecord,
): Readonly<Record<string, Tokens>> {
  if (typeof also !== "object" || also === null || Array.isArray(also)) {
    throw new ValidationError(
      "also_invalid",
      `also is ${shown(also)}; give an object of resources, { "gpu": { slots: 1 } }.`,
    );
  }
  const known = resources.slice(1).map(({ resource }) => resource);
  const unknown = Object.keys(also).find((name) => !known.includes(name));
  if (unknown === undefined) return also;
  throw new ValidationError(
    "resource_unknown",
    `The lease holds nothing on ${unknown} beside its own resource; it was taken for ` +
      `${resources.map(({ resource }) => resource).join(", ")}. Name it in \`also\` when acquiring.`,
  );
}

/** What is charged by measure, for each resource, in millitokens. */
export function consumedIn({ resources, holdings }: LeaseRecord): readonly ReadonlyMap<string, number>[] {
  return resources.map(({ levels }, i) =>
    consumedOf(
      levels.map((level, j) => {
        const held = holdingsAt(holdings, [i, j]).flatMap((one) => one.held);
        return { charged: chargedOf(level), used: [...held, ...(level.passed ?? [])], passed: level.passed };
      }),
    ),
  );
}

/** The differences that lead from what is held to these totals; measures not named stay. */
export function toTotals(record: LeaseRecord, totals: ResourceAmounts): ResourceAmounts {
  const held = consumedIn(record);
  return totals.map((amounts, i) =>
    amounts.map(({ limit, milli }) => ({ limit, milli: milli - (held[i]?.get(limit) ?? 0) })),
  );
}

/** What each level is charged, by the limits that the lease was taken under. */
export function sharesOf(record: LeaseRecord, amounts: ResourceAmounts): readonly Share[] {
  return record.resources.flatMap(({ levels }, resource) =>
    levels.flatMap((one, level) => {
      const due = chargedTo(chargedOf(one), { named: amounts[resource] ?? [], requestsMilli: 0 });
      return due.length === 0 ? [] : [{ at: [resource, level] as const, amounts: due }];
    }),
  );
}

/** The shares without those of limits that the lease passed by. */
export function notPassedBy({ resources }: LeaseRecord, shares: readonly Share[]): readonly Share[] {
  return shares.flatMap(({ at, amounts }) => {
    const due = notPassed(resources[at[0]]?.levels[at[1]]?.passed, amounts);
    return due.length === 0 ? [] : [{ at, amounts: due }];
  });
}

/** What each level is debited. Nobody owes slots. */
export function debitsOf(record: LeaseRecord, amounts: ResourceAmounts): readonly Share[] {
  return sharesOf(record, amounts).flatMap(({ at, amounts: due }) => {
    const rates = withoutSlots(limitSet(limitsAt(record, at)), due);
    return rates.length === 0 ? [] : [{ at, amounts: rates }];
  });
}

/** Throws where these amounts would be charged to a hard limit on how many are at once. */
export function refuseSlotsOf(record: LeaseRecord, amounts: ResourceAmounts): void {
  for (const [i, resource] of record.resources.entries()) {
    const chain = chainOf(record, resource);
    const asked = { named: amounts[i] ?? [], requestsMilli: 0 };
    refuseSlots(
      chain.map((link) => ({ link })),
      chain.map(({ charged }) => chargedTo(charged, asked)),
    );
  }
}

function limitsAt({ resources }: LeaseRecord, [resource, level]: LeaseHolding["at"]): readonly Limit[] {
  return resources[resource]?.levels[level]?.limits ?? [];
}

function isOfSlots(limit: Limit): boolean {
  return rulesOf(limit).holdsSlots;
}

/** The lease with one holding for all that says the same: records of earlier versions have one for each change. */
export function compacted(record: LeaseRecord): LeaseRecord {
  let holdings: readonly LeaseHolding[] = [];
  for (const { at, ticket, held } of record.holdings) holdings = withMore(holdings, { at, amounts: held }, ticket);
  return { ...record, holdings };
}

/** What is given back of which holdings of a compacted lease, at most what is held. */
export function returnsOf(record: LeaseRecord, amounts: ResourceAmounts): readonly LeaseHolding[] {
  return notPassedBy(record, sharesOf(record, amounts)).flatMap(({ at, amounts: due }) =>
    returnsOfHoldings(holdingsAt(record.holdings, at), due)
      .filter(({ held }) => held.length > 0)
      .map((one) => ({ at, ...one })),
  );
}

/** Everything that is held. */
export function allOf({ holdings }: LeaseRecord): readonly LeaseHolding[] {
  return holdings.map((holding) => ({ ...holding, held: holding.held.filter(({ milli }) => milli > 0) }));
}

/** The holdings without what is given back. */
export function without(holdings: readonly LeaseHolding[], returns: readonly LeaseHolding[]): readonly LeaseHolding[] {
  return holdings.map((holding) => {
    const own = returns.filter(({ at, ticket }) => isSame(at, holding.at) && ticket === holding.ticket);
    return { at: holding.at, ...(withoutReturns([holding], own)[0] ?? holding) };
  });
}

/** The holdings with what was taken further. */
export function withMore(
  holdings: readonly LeaseHolding[],
  { at, amounts }: Share,
  ticket: Ticket,
): readonly LeaseHolding[] {
  const own = withTaken(holdingsAt(holdings, at), amounts, ticket).map((one) => ({ at, ...one }));
  const first = holdings.findIndex((one) => isSame(one.at, at));
  const others = holdings.filter((one) => !isSame(one.at, at));
  return first < 0 ? [...others, ...own] : others.toSpliced(first, 0, ...own);
}

function holdingsAt(holdings: readonly LeaseHolding[], at: LeaseHolding["at"]): readonly Holding[] {
  return holdings.filter((one) => isSame(one.at, at)).map(({ ticket, held }) => ({ ticket, held }));
}

/** One bucket as it was seen after a write: a total on every resource that shares it. */
export function withSeen(
  resources: readonly LeaseResourceRecord[],
  at: LeaseHolding["at"],
  seen: { readonly limits: readonly SeenLimit[]; readonly overdrawn: readonly string[] },
): readonly LeaseResourceRecord[] {
  return resources.map((one, i) => {
    const level = one.levels.findIndex((_, j) => isSameBucket(resources, [i, j], at));
    if (level < 0) return one;
    const levels = one.levels.map((old, j) => (j === level ? { ...old, seen: seen.limits } : old));
    const positions = positionsIn(one);
    // Each name is that of the one bucket at its position: those of the others stay, in the order of the buckets.
    const overdrawn = positions.flatMap((position, j) =>
      j === level ? seen.overdrawn : one.overdrawn.filter((name) => isAt(name, position)),
    );
    return { ...one, levels, overdrawn };
  });
}

/** Where the buckets of a lease on one resource stand. */
export function positionsIn({ resource, levels }: LeaseResourceRecord): readonly BucketPosition[] {
  return positionsOf(levels.map((level) => bucketOf(level, resource)));
}

/** A total is the same bucket on all resources of a lease. */
function isSameBucket(
  resources: readonly LeaseResourceRecord[],
  one: LeaseHolding["at"],
  other: LeaseHolding["at"],
): boolean {
  if (isSame(one, other)) return true;
  const [a, b] = [one, other].map(([resource, level]) => resources[resource]?.levels[level]);
  return a?.total === true && b?.total === true && a.entityId === b.entityId;
}

function isAt(name: string, { level, isTotal }: BucketPosition): boolean {
  return levelOfName(name) === level && name.startsWith(`${TOTAL_RESOURCE}/`) === isTotal;
}

/** What will be seen once the returns are given back: they are written after the record. */
export function withReturned(
  resources: readonly LeaseResourceRecord[],
  returns: readonly LeaseHolding[],
): readonly LeaseResourceRecord[] {
  return resources.map((one, i) => ({
    ...one,
    levels: one.levels.map((level, j) => {
      const back = returns.filter(({ at }) => isSameBucket(resources, at, [i, j])).flatMap(({ held }) => held);
      if (back.length === 0 || level.bypass) return level;
      const seen = level.seen.map(({ limit, available, capacity }) => {
        const tokens = back.reduce((sum, amount) => (amount.limit === limit ? sum + amount.milli / 1000 : sum), 0);
        return { limit, available: Math.max(available, Math.min(capacity, available + tokens)), capacity };
      });
      return { ...level, seen };
    }),
  }));
}

/** A level of a lease as the store needs to see it to debit or credit it. */
export function heldAt(record: LeaseRecord, at: LeaseHolding["at"], ticket: Ticket): Held {
  const { bypass, ...claimed } = bucketAt(record, at);
  return { ...claimed, ticket, bypass };
}

/**
 * Further claims of a lease, one for each bucket: a total is charged the sum over the resources. They leave what its request had to leave,
 * or `leavePercent`, whichever is more. Slots are held until the lease ends.
 */
export function claimsOf(
  record: LeaseRecord,
  shares: readonly Share[],
  { nowMs, leavePercent = 0 }: { readonly nowMs: number; readonly leavePercent: number | undefined },
): readonly Claim[] {
  const { expiresAtMs } = record;
  const leaves = Math.max(leavePercent, record.leavePercent ?? 0);
  const leaving = leaves === 0 ? {} : { leavePercent: leaves };
  const holding = (at: Share["at"]) =>
    limitsAt(record, at).some(isOfSlots) ? { holdMs: Math.max(1, expiresAtMs - nowMs) } : {};
  return summed(
    shares.map(({ at, amounts }) => ({ ...bucketAt(record, at), ...leaving, ...holding(at), take: amounts })),
  );
}

/** Which of the claims on buckets a share is part of. */
export function claimOf(record: LeaseRecord, { at }: Share, claims: readonly Pick<Claim, "bucket">[]): number {
  const { bucket } = bucketAt(record, at);
  return claims.findIndex((claim) => claim.bucket.id === bucket.id);
}

function bucketAt({ resources }: LeaseRecord, [resource, level]: LeaseHolding["at"]): Omit<Claim, "take"> {
  const part = resources[resource] as LeaseResourceRecord;
  const own = part.levels[level] as LeaseLevel;
  const { limits, charged, origin, bypass } = own;
  const bucket = bucketOf(own, part.resource);
  const shown = charged === undefined ? {} : { limits: limits.filter(({ name }) => charged.includes(name)) };
  return { bucket, set: limitSet(limits), origin, bypass, ...shown };
}

function isSame(a: LeaseHolding["at"], b: LeaseHolding["at"]): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

/** The buckets of a lease, the one of the entity that asked first. */
export function bucketsOf(record: LeaseRecord): readonly Pick<ChargedBucket, "bucket">[] {
  return record.resources.flatMap((resource) => chainOf(record, resource));
}
