import { type BucketKey, bucketKey } from "../domain/bucket/bucket-key.ts";
import type { Ticket } from "../domain/bucket/give-back.ts";
import type { Also } from "../domain/charge/amounts.ts";
import { type Amount, type AmountUse, milliOf, type Tokens } from "../domain/charge/amounts.ts";
import { nothingCounted } from "../domain/charge/charge-errors.ts";
import { type ChargedBucket, changedBy, chargedTo, checkCounted } from "../domain/charge/charges.ts";
import { levelOfName } from "../domain/charge/status.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { without as withoutReturns } from "../domain/lease/holding.ts";
import type {
  LeaseHolding,
  LeaseLevel,
  LeaseRecord,
  LeaseResourceRecord,
  SeenLimit,
} from "../domain/lease/lease-record.ts";
import { consumedOf, type LevelUse, notPassed, passedAfter, returnsFrom, usedMore } from "../domain/lease/level-use.ts";
import { rulesOf } from "../domain/limits/kinds/table.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { type LimitSet, limitSet } from "../domain/limits/limit-set.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { alsoOf } from "../engine/acquire/also.ts";
import { summed } from "../engine/acquire/parts.ts";
import { refuseSlots, withoutSlots } from "../engine/acquire/request.ts";
import { type BucketPosition, nameAt, positionsOf } from "../engine/lease/lease-part.ts";
import type { Claim, Held } from "../ports/bucket-store.ts";

/** A level of a lease: the index of its resource, and of the level there. */
type At = LeaseHolding["at"];

/** The parts of a record that say what the lease has used. */
export type Ledger = Pick<LeaseRecord, "holdings" | "resources">;

/** Amounts by measure for each resource of a lease, in their order. */
export type ResourceAmounts = readonly (readonly Amount[])[];

/** Amounts for one level of one resource of a lease. */
export interface Share {
  readonly at: At;
  readonly amounts: readonly Amount[];
}

/** Checks the amounts of a call: of the lease's own part, and of further ones in `also`. */
export function amountsOf(
  record: LeaseRecord,
  { own, also }: { readonly own: Tokens; readonly also: Also | undefined },
  use: AmountUse,
): ResourceAmounts {
  const further = also === undefined ? NO_PARTS : furtherOf(also, record);
  // `consume({}, { also })` does not touch the lease's own part.
  const isOwnNamed = use !== "consume" || further.size === 0 || !isEmpty(own);
  return record.resources.map((resource, i) => {
    if (i === 0 && !isOwnNamed) return [];
    const tokens = i === 0 ? own : further.get(partOf(record, resource).id);
    if (tokens === undefined) return [];
    const asked = changedBy(tokens, use);
    const chain = chainOf(record, resource);
    checkCounted(asked, chain);
    if (use === "consume" && chain.every(({ charged }) => chargedTo(charged, asked).length === 0))
      throw nothingCounted(chain);
    return asked.named;
  });
}

/** The entity and the resource of a part of a lease. */
export function partOf(
  { entityId }: Pick<LeaseRecord, "entityId">,
  { resource, levels }: LeaseResourceRecord,
): BucketKey {
  return bucketKey(levels[0]?.entityId ?? entityId, resource);
}

/** The levels of a lease in one part. */
function chainOf(record: LeaseRecord, part: LeaseResourceRecord): readonly ChargedBucket[] {
  return part.levels.map((level, i) => ({
    bucket: i === 0 ? partOf(record, part) : bucketOf(level, part.resource),
    charged: chargedOf(level),
    access: level.bypass ? "bypass" : "enforce",
  }));
}

function bucketOf({ entityId, total }: LeaseLevel, resource: string): BucketKey {
  return bucketKey(entityId, total === true ? TOTAL_RESOURCE : resource);
}

/** The limits of a level that the lease is charged to. */
export function chargedOf({ limits, charged }: LeaseLevel): LimitSet {
  return limitSet(charged === undefined ? limits : limits.filter(({ name }) => charged.includes(name)));
}

function isEmpty(tokens: unknown): boolean {
  return typeof tokens === "object" && tokens !== null && !Array.isArray(tokens) && Object.keys(tokens).length === 0;
}

const NO_PARTS: ReadonlyMap<string, Tokens> = new Map();

/** The amounts of `also` by bucket. */
function furtherOf(also: Also, record: LeaseRecord): ReadonlyMap<string, Tokens> {
  const [own, ...others] = record.resources.map((part) => partOf(record, part)) as [BucketKey, ...BucketKey[]];
  const named = alsoOf({ ...own, also });
  const textOf = ({ entityId, resource }: Pick<BucketKey, "entityId" | "resource">) =>
    entityId === own.entityId ? resource : `${entityId} on ${resource}`;
  const idOf = ({ entityId, resource }: (typeof named)[number]) => bucketKey(entityId, resource).id;
  const unknown = named.find((part) => !others.some(({ id }) => id === idOf(part)));
  if (unknown === undefined) return new Map(named.map((part) => [idOf(part), part.consume ?? {}]));
  throw new ValidationError(
    "resource_unknown",
    `The lease holds nothing on ${textOf(unknown)} beside its own part; it was taken for ` +
      `${[own, ...others].map(textOf).join(", ")}. Name it in \`also\` when acquiring.`,
  );
}

/** The use of one level. */
function useAt({ holdings, resources }: Ledger, at: At): LevelUse {
  const held = holdings.filter((one) => isSame(one.at, at)).map(({ ticket, held }) => ({ ticket, held }));
  return { held, passed: resources[at[0]]?.levels[at[1]]?.passed };
}

/** The ledger after a take or a debit. */
export function withMore(ledger: Ledger, { at, amounts }: Share, ticket: Ticket): Ledger {
  const { held, passed } = usedMore(useAt(ledger, at), amounts, ticket);
  const own = held.map((one) => ({ at, ...one }));
  const first = ledger.holdings.findIndex((one) => isSame(one.at, at));
  const others = ledger.holdings.filter((one) => !isSame(one.at, at));
  return {
    holdings: others.toSpliced(first < 0 ? others.length : first, 0, ...own),
    resources: withLevels(ledger.resources, (level, where) =>
      isSame(where, at) ? { ...level, ...given({ passed }) } : level,
    ),
  };
}

function withLevels(
  resources: readonly LeaseResourceRecord[],
  change: (level: LeaseLevel, at: At) => LeaseLevel,
): readonly LeaseResourceRecord[] {
  return resources.map((one, i) => ({ ...one, levels: one.levels.map((level, j) => change(level, [i, j])) }));
}

/** The charge of each resource by measure, in millitokens. */
export function consumedIn(record: LeaseRecord): readonly ReadonlyMap<string, number>[] {
  return record.resources.map(({ levels }, i) =>
    consumedOf(levels.map((level, j) => ({ charged: chargedOf(level), use: useAt(record, [i, j]) }))),
  );
}

/** The differences to the totals; measures that are not named stay. */
export function toTotals(record: LeaseRecord, totals: ResourceAmounts): ResourceAmounts {
  const held = consumedIn(record);
  return totals.map((amounts, i) =>
    amounts.map(({ limit, milli }) => ({ limit, milli: milli - (held[i]?.get(limit) ?? 0) })),
  );
}

/** The charge of each level, by the limits that the lease was taken under. */
export function sharesOf(record: LeaseRecord, amounts: ResourceAmounts): readonly Share[] {
  return record.resources.flatMap(({ levels }, resource) =>
    levels.flatMap((one, level) => {
      const due = chargedTo(chargedOf(one), { named: amounts[resource] ?? [], requestsMilli: 0 });
      return due.length === 0 ? [] : [{ at: [resource, level] as const, amounts: due }];
    }),
  );
}

/** The debit of each level, without limits that the lease passed by, and without slots: there is no debt of slots. */
export function debitsOf(record: LeaseRecord, amounts: ResourceAmounts): readonly Share[] {
  return sharesOf(record, amounts).flatMap(({ at, amounts: due }) => {
    const rates = withoutSlots(limitSet(limitsAt(record, at)), notPassed(useAt(record, at).passed, due));
    return rates.length === 0 ? [] : [{ at, amounts: rates }];
  });
}

/** Throws if the amounts would charge slots of a hard limit. */
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

function limitsAt({ resources }: LeaseRecord, [resource, level]: At): readonly Limit[] {
  return resources[resource]?.levels[level]?.limits ?? [];
}

function isOfSlots(limit: Limit): boolean {
  return rulesOf(limit).holdsSlots;
}

/** Joins equal holdings: records of earlier versions have one for each change. */
export function compacted(record: LeaseRecord): LeaseRecord {
  let ledger: Ledger = { resources: record.resources, holdings: [] };
  for (const { at, ticket, held } of record.holdings) ledger = withMore(ledger, { at, amounts: held }, ticket);
  return { ...record, ...ledger };
}

/** The parts of holdings of a compacted lease to give back, at most what is held. */
export function returnsOf(record: LeaseRecord, amounts: ResourceAmounts): readonly LeaseHolding[] {
  return sharesOf(record, amounts).flatMap(({ at, amounts: due }) =>
    returnsFrom(useAt(record, at), due)
      .filter(({ held }) => held.length > 0)
      .map((one) => ({ at, ...one })),
  );
}

export function allOf({ holdings }: LeaseRecord): readonly LeaseHolding[] {
  return holdings.map((holding) => ({ ...holding, held: holding.held.filter(({ milli }) => milli > 0) }));
}

export function without(holdings: readonly LeaseHolding[], returns: readonly LeaseHolding[]): readonly LeaseHolding[] {
  return holdings.map((holding) => {
    const own = returns.filter(({ at, ticket }) => isSame(at, holding.at) && ticket === holding.ticket);
    return { at: holding.at, ...(withoutReturns([holding], own)[0] ?? holding) };
  });
}

/** Records a bucket as seen after a write, in every part that shares it. */
export function withSeen(
  resources: readonly LeaseResourceRecord[],
  at: At,
  seen: { readonly limits: readonly SeenLimit[]; readonly overdrawn: readonly string[] },
): readonly LeaseResourceRecord[] {
  return resources.map((one, i) => {
    const level = one.levels.findIndex((_, j) => isSameBucket(resources, [i, j], at));
    if (level < 0) return one;
    const levels = one.levels.map((old, j) => (j === level ? { ...old, seen: seen.limits } : old));
    // Replaces the names of this bucket's position; the others stay, in the order of the buckets.
    const overdrawn = positionsIn(one).flatMap((position, j) =>
      j === level ? seen.overdrawn : one.overdrawn.filter((name) => isAt(name, position)),
    );
    return { ...one, levels, overdrawn };
  });
}

/** The positions of the buckets of one resource. */
export function positionsIn({ resource, levels }: LeaseResourceRecord): readonly BucketPosition[] {
  return positionsOf(levels.map((level) => bucketOf(level, resource)));
}

/** A total, or a common parent, is one bucket for all parts of a lease. */
function isSameBucket(resources: readonly LeaseResourceRecord[], one: At, other: At): boolean {
  if (isSame(one, other)) return true;
  const [a, b] = [one, other].map(([i, level]) => {
    const { resource = "", levels = [] } = resources[i] ?? {};
    const at = levels[level];
    return at && bucketOf(at, resource).id;
  });
  return a !== undefined && a === b;
}

function isAt(name: string, { level, isTotal }: BucketPosition): boolean {
  return levelOfName(name) === level && name.startsWith(`${TOTAL_RESOURCE}/`) === isTotal;
}

/** Adds the returns to the seen levels: they are written after the record. */
export function withReturned(
  resources: readonly LeaseResourceRecord[],
  returns: readonly LeaseHolding[],
): readonly LeaseResourceRecord[] {
  return withLevels(resources, (level, here) => {
    const back = returns.filter(({ at }) => isSameBucket(resources, at, here)).flatMap(({ held }) => held);
    if (back.length === 0 || level.bypass) return level;
    const seen = level.seen.map(({ limit, available, capacity }) => {
      const tokens = milliOf(back, limit) / 1000;
      return { limit, available: Math.max(available, Math.min(capacity, available + tokens)), capacity };
    });
    return { ...level, seen };
  });
}

/** A level of a lease as the store needs it for a debit or credit. */
export function heldAt(record: LeaseRecord, at: At, ticket: Ticket): Held {
  const { bypass, ...claimed } = bucketAt(record, at);
  return { ...claimed, ticket, bypass };
}

/**
 * Later claims of a lease, one for each bucket: one that several parts reach is charged the sum. They leave the percentage of its request or
 * `leavePercent`, whichever is more. Slots are held until the lease ends.
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

/** The index of the claim that contains a share. */
export function claimOf(record: LeaseRecord, { at }: Share, claims: readonly Pick<Claim, "bucket">[]): number {
  const { bucket } = bucketAt(record, at);
  return claims.findIndex((claim) => claim.bucket.id === bucket.id);
}

function bucketAt({ resources }: LeaseRecord, [resource, level]: At): Omit<Claim, "take"> {
  const part = resources[resource] as LeaseResourceRecord;
  const own = part.levels[level] as LeaseLevel;
  const { limits, charged, origin, bypass } = own;
  const bucket = bucketOf(own, part.resource);
  const shown = charged === undefined ? {} : { limits: limits.filter(({ name }) => charged.includes(name)) };
  return { bucket, set: limitSet(limits), origin, bypass, ...shown };
}

function isSame(a: At, b: At): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

/** The buckets of a lease, the caller's first. */
export function bucketsOf(record: LeaseRecord): readonly Pick<ChargedBucket, "bucket">[] {
  return record.resources.flatMap((resource) => chainOf(record, resource));
}

// Amounts that passed by shadow limits are shown as consumed, and neither charged nor given back.

/** Names of the shadow limits that would have refused what the lease took on a resource: `tpm`, one level up `tpm^1`. */
export function shadowedOn(resource: LeaseResourceRecord): readonly string[] {
  if (resource.levels.every(({ passed }) => passed === undefined)) return [];
  const positions = positionsIn(resource);
  return resource.levels.flatMap(({ passed = [] }, i) =>
    passed.map(({ limit }) => nameAt(limit, positions[i] as BucketPosition)),
  );
}

/** Changes the passed amounts by measure; "none" clears them, for a rollback. */
export function withPassedBy(
  resources: readonly LeaseResourceRecord[],
  change: ResourceAmounts | "none" | undefined,
): readonly LeaseResourceRecord[] {
  if (change === undefined) return resources;
  return withLevels(resources, (level, [resource]) => {
    const { passed } = level;
    if (passed === undefined) return level;
    if (change === "none") return { ...level, passed: passed.map(({ limit }) => ({ limit, milli: 0 })) };
    const by = chargedTo(chargedOf(level), { named: change[resource] ?? [], requestsMilli: 0 });
    return { ...level, passed: passedAfter(passed, by) };
  });
}
