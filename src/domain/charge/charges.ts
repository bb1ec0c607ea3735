import { type BucketKey, TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import type { Access, LimitSource } from "../config/config.ts";
import { isHard, type Limit } from "../limits/limit.ts";
import { type LimitSet, limitSet } from "../limits/limit-set.ts";
import type { ValidationError } from "../names/errors.ts";
import { type Amount, type AmountUse, amountsOf, measureOf, REQUESTS, type Tokens } from "./amounts.ts";
import { measureUnknown, noLimits, nothingCounted } from "./charge-errors.ts";

// The one place that decides what is charged: amounts by measure, as a caller names them, become amounts by limit of every bucket.

/** A bucket that a request is charged to: of the entity that asks or of one above it. */
export interface ChargedBucket {
  readonly bucket: BucketKey;
  /** The limits that it takes of: of a parent, perhaps not all that its bucket has. */
  readonly charged: LimitSet;
  readonly access: Access;
  /** The level that its limits come from. */
  readonly source?: LimitSource;
  /** The level of each limit by name, where levels were added up. */
  readonly sources?: Readonly<Record<string, LimitSource>> | undefined;
  readonly planId?: string | undefined;
}

/** The amounts of a request by measure, checked once. */
export interface Asked {
  /** The amounts as the caller names them, in that order; `limit` is the measure. */
  readonly named: readonly Amount[];
  /** The use of the measure `requests` where it is not named; 0: none. */
  readonly requestsMilli: number;
}

/**
 * What happens when a request leaves out a measure that a hard limit counts, and when an adapter uses a measure that
 * nothing counts: nothing is taken there (`allow`), the same with a warning (`warn`), or it is refused (`refuse`).
 */
export type UnnamedLimits = "allow" | "warn" | "refuse";

/** A hard limit whose measure a request leaves out. */
export interface UnnamedLimit {
  readonly limit: Limit;
  /** The bucket that it is of. */
  readonly level: ChargedBucket;
  readonly chain: readonly ChargedBucket[];
  /** The measures that the request names and nothing counts; the limit may be meant by one. */
  readonly uncounted: readonly string[];
}

/** Decides where the measures of a request and those of the limits do not meet. */
export interface ChargeRules {
  /** Hears of every hard limit that is left out, and may throw. Undefined: nobody asks. */
  readonly unnamed: ((of: UnnamedLimit) => void) | undefined;
  /** Hears of measures that nothing counts, which are left out, and may throw. Undefined: they are an error. */
  readonly uncounted?: (measures: readonly string[], chain: readonly ChargedBucket[]) => void;
  /** A part of several may take nothing at all. Absent: that is an error. */
  readonly mayBeEmpty?: true;
}

/** Limits that are left out take nothing, and nobody hears of it. */
export const SILENT: ChargeRules = { unnamed: undefined };

/** The place of a resource among those of a request. A total is charged the sum over them, and the requests of the first. */
export interface Among {
  /** One of `also`. */
  readonly isFurther: boolean;
  /** The measures that the others name; for the first resource. */
  readonly alsoNamed: readonly string[];
}

export const ALONE: Among = { isFurther: false, alsoNamed: [] };

/** The amounts of an acquire: what it names, and 1 request unless it says how many. */
export function askedBy(consume: Tokens | undefined): Asked {
  const named = consume === undefined ? NONE : amountsOf(consume, "consume");
  return { named, requestsMilli: isNamed(named, REQUESTS) ? 0 : 1000 };
}

/** The amounts of a change of a lease: what it names, and no request more. */
export function changedBy(tokens: Tokens, use: AmountUse): Asked {
  return { named: amountsOf(tokens, use), requestsMilli: 0 };
}

/**
 * Charges a request to each bucket of a chain, the entity that asks first: every limit that counts a measure takes its amount.
 * Throws for a measure that nothing counts, and where nothing would be taken at all.
 */
export function chargesOf(
  asked: Asked,
  chain: readonly ChargedBucket[],
  rules: ChargeRules,
  among: Among,
): readonly (readonly Amount[])[] {
  const charges: (readonly Amount[])[] = [];
  let isCounted = false;
  let isTaken = false;
  for (let i = 0; i < chain.length; i++) {
    const { charged } = countedAmong(chain[i] as ChargedBucket, among);
    const amounts = chargedTo(charged, asked);
    charges.push(amounts);
    if (amounts.length > 0) isTaken = true;
    if (isAllCounted(charged, amounts, asked)) isCounted = true;
  }
  // A total counts the requests with the first resource.
  const isEmpty = !isTaken && !(among.isFurther && chain.some(countsRequestsOfAll));
  checkMet(asked, chain, { isCounted, isEmpty }, rules, among);
  return charges;
}

/** Charges an acquire to a chain of one, which most are: where each name is that of a limit, no further object is made. */
export function chargeOf(consume: Tokens | undefined, level: ChargedBucket, rules: ChargeRules): readonly Amount[] {
  const { charged } = level;
  if (charged.isByName && consume !== undefined) {
    const named = amountsOf(consume, "consume");
    if (named.length > 0 && areCalled(charged.limits, named)) {
      if (named.length < charged.limits.length) tellUnnamed(named, [level], rules, ALONE, NONE);
      return named;
    }
  }
  const asked = askedBy(consume);
  const amounts = chargedTo(charged, asked);
  const isCounted = isAllCounted(charged, amounts, asked);
  checkMet(asked, [level], { isCounted, isEmpty: amounts.length === 0 }, rules, ALONE);
  return amounts;
}

/** Throws where a measure is named that no limit of the chain counts; `requests` may always be named. */
export function checkCounted({ named }: Asked, chain: readonly ChargedBucket[]): void {
  for (const { limit: measure } of named) {
    if (isUncounted(measure, chain)) throw measureUnknown(measure, chain);
  }
}

function isUncounted(measure: string, chain: readonly ChargedBucket[]): boolean {
  return measure !== REQUESTS && !chain.some(({ charged }) => countsIn(charged, measure));
}

/** The amounts that the limits of one bucket take of a request; nothing is checked. */
export function chargedTo({ limits, isByName }: LimitSet, { named, requestsMilli }: Asked): readonly Amount[] {
  if (isByName) return areCalled(limits, named) ? named : named.filter(({ limit }) => isCalled(limits, limit));
  const amounts: Amount[] = [];
  for (const amount of named) addCounted(amounts, limits, amount);
  if (requestsMilli > 0) addCounted(amounts, limits, { limit: REQUESTS, milli: requestsMilli });
  return amounts;
}

/**
 * A bucket as one resource of a request is charged to it, and the lease on it later: a total counts the requests of the first one,
 * and of the others none.
 */
export function countedAmong<Bucket extends ChargedBucket>(of: Bucket, { isFurther }: Among): Bucket {
  if (!isFurther || of.bucket.resource !== TOTAL_RESOURCE) return of;
  const limits = of.charged.limits.filter((limit) => measureOf(limit) !== REQUESTS);
  return limits.length === of.charged.limits.length ? of : { ...of, limits, charged: limitSet(limits) };
}

function countsRequestsOfAll({ bucket, charged }: ChargedBucket): boolean {
  return bucket.resource === TOTAL_RESOURCE && countsIn(charged, REQUESTS);
}

const NONE: readonly never[] = Object.freeze([]);

/** Whether each of the names was found among the limits: then other levels need not be looked at. */
function isAllCounted({ isByName }: LimitSet, amounts: readonly Amount[], { named }: Asked): boolean {
  return isByName && amounts.length === named.length;
}

function addCounted(amounts: Amount[], limits: LimitSet["limits"], amount: Amount): void {
  for (const limit of limits) {
    if (measureOf(limit) !== amount.limit) continue;
    amounts.push(limit.name === amount.limit ? amount : { limit: limit.name, milli: amount.milli });
  }
}

function checkMet(
  asked: Asked,
  chain: readonly ChargedBucket[],
  { isCounted, isEmpty }: { readonly isCounted: boolean; readonly isEmpty: boolean },
  rules: ChargeRules,
  among: Among,
): void {
  if (isCounted || rules.uncounted === undefined) {
    if (!isCounted) checkCounted(asked, chain);
    // A request that is an error takes nothing anywhere: nobody has to be told what it leaves out.
    if (isEmpty) throw nothingToTake(chain);
    tellUnnamed(asked.named, chain, rules, among, NONE);
    return;
  }
  if (chain.every(({ charged }) => charged.limits.length === 0)) throw noLimits(chain);
  const uncounted = asked.named.map(({ limit }) => limit).filter((measure) => isUncounted(measure, chain));
  tellUnnamed(asked.named, chain, rules, among, uncounted);
  if (uncounted.length > 0) rules.uncounted(uncounted, chain);
  if (isEmpty && !rules.mayBeEmpty) throw nothingToTake(chain);
}

/** Tells the rules of hard limits that the request does not name, at whichever level: such a limit would never bind. */
function tellUnnamed(
  named: readonly Amount[],
  chain: readonly ChargedBucket[],
  { unnamed }: ChargeRules,
  { isFurther, alsoNamed }: Among,
  uncounted: readonly string[],
): void {
  if (unnamed === undefined) return;
  for (const level of chain) {
    if (level.access === "bypass") continue;
    const isTotal = level.bucket.resource === TOTAL_RESOURCE;
    // A total is charged the sum over all resources: it is enough that one of them names it.
    if (isTotal && isFurther) continue;
    for (const limit of level.charged.limits) {
      const measure = measureOf(limit);
      if (!isHard(limit) || measure === REQUESTS || isNamed(named, measure)) continue;
      if (isTotal && alsoNamed.includes(measure)) continue;
      unnamed({ limit, level, chain, uncounted });
    }
  }
}

function nothingToTake(chain: readonly ChargedBucket[]): ValidationError {
  return chain.every(({ charged }) => charged.limits.length === 0) ? noLimits(chain) : nothingCounted(chain);
}

function isNamed(named: readonly Amount[], measure: string): boolean {
  for (let i = 0; i < named.length; i++) if (named[i]?.limit === measure) return true;
  return false;
}

function countsIn({ limits }: LimitSet, measure: string): boolean {
  return limits.some((limit) => measureOf(limit) === measure);
}

function areCalled(limits: LimitSet["limits"], named: readonly Amount[]): boolean {
  for (let i = 0; i < named.length; i++) {
    const { limit } = named[i] as Amount;
    // Amounts are most often named in the order of the limits.
    if (limits[i]?.name !== limit && !isCalled(limits, limit)) return false;
  }
  return true;
}

// Every name of every request comes here; a handful of comparisons beats a closure or a map.
function isCalled(limits: LimitSet["limits"], name: string): boolean {
  for (let i = 0; i < limits.length; i++) if (limits[i]?.name === name) return true;
  return false;
}
