import type { Count } from "../../bucket/integers.ts";
import type { BucketKey } from "../bucket/bucket-key.ts";
import { topUpOfSlots } from "../limits/kinds/concurrent.ts";
import { type Limit, TOKENS_MAX } from "../limits/limit.ts";
import { ValidationError } from "../names/errors.ts";
import { nearestName } from "../names/known-names.ts";
import { shown } from "../names/names.ts";

/**
 * Millitokens of one limit. Where a request is checked, `limit` is still the measure that the caller named: of a limit that counts
 * its own name that is the same, so that most charges need no further object.
 */
export interface Amount {
  readonly limit: string;
  readonly milli: number;
}

/** The millitokens of a limit among some amounts, added up; 0 where it is not among them. */
export function milliOf(amounts: readonly Amount[], limit: string): number {
  return amounts.reduce((sum, amount) => (amount.limit === limit ? sum + amount.milli : sum), 0);
}

/** An amount of usage, however large: slots of large weights that are held for a day are more than a number holds. */
export interface CountedAmount {
  readonly limit: string;
  readonly milli: Count;
}

/** Whole tokens by measure; in a top-up, by limit. */
export type Tokens<Name extends string = string> = { readonly [K in Name]?: number };

/** One of the things that a request takes besides its own: an entity on a resource. */
export interface AlsoPart {
  /** The entity. Default: that of the request. */
  readonly entityId?: string;
  /** The resource. */
  readonly resource: string;
  /** Whole tokens by measure, as `consume` of the request. In `settle`: the totals. */
  readonly consume?: Tokens;
}

/** Amounts by further resources of the entity, or a list of parts. */
export type Also = Readonly<Record<string, Tokens>> | readonly AlsoPart[];

/** The use of an amount, by which it is judged besides being whole. */
export type AmountUse = "consume" | "adjust" | "release" | "settle" | "topUp" | "charge" | "giveBack";

/**
 * Checks whole tokens once, at the edge, and turns them into millitokens; the order is the caller's. The names are those of
 * limits or of measures: whether there is such a one is not looked at.
 */
export function amountsOf(tokens: Tokens, use: AmountUse): readonly Amount[] {
  if (typeof tokens !== "object" || tokens === null || Array.isArray(tokens)) {
    throw new ValidationError(
      "amounts_invalid",
      `${use} must be an object of names and whole tokens, not ${shown(tokens)}; for example { rpm: 1 }.`,
    );
  }
  // Most requests name one or two limits, and an array that grows by pushing takes room for seventeen.
  let first: Amount | undefined;
  let second: Amount | undefined;
  let amounts: Amount[] | undefined;
  for (const limit in tokens) {
    const milli = checkTokens(limit, (tokens as Record<string, unknown>)[limit], use) * 1000;
    const amount = { limit, milli };
    if (first === undefined) first = amount;
    else if (second === undefined) second = amount;
    else if (amounts === undefined) amounts = [first, second, amount];
    else amounts.push(amount);
  }
  if (amounts !== undefined) return amounts;
  if (first === undefined) return NOTHING;
  return second === undefined ? [first] : [first, second];
}

const NOTHING: readonly Amount[] = Object.freeze([]);

/** The amounts added up, each limit once. */
export function sumByLimit(amounts: readonly Amount[]): readonly Amount[] {
  const sums = new Map<string, number>();
  for (const { limit, milli } of amounts) sums.set(limit, (sums.get(limit) ?? 0) + milli);
  return Array.from(sums, ([limit, milli]) => ({ limit, milli }));
}

/** The amounts of a difference that are taken more. */
export function aboveZero(difference: readonly Amount[]): readonly Amount[] {
  return difference.filter(({ milli }) => milli > 0);
}

/** The amounts of a difference that are given back, as positive numbers. */
export function belowZero(difference: readonly Amount[]): readonly Amount[] {
  return difference.filter(({ milli }) => milli < 0).map(negated);
}

export function negated({ limit, milli }: Amount): Amount {
  return { limit, milli: -milli };
}

/** Amounts as tokens by name, for events; those of one name are added up. */
export function tokensByName(amounts: readonly Amount[]): Readonly<Record<string, number>> {
  const tokens: Record<string, number> = {};
  // A limit may be called "constructor", which every plain object inherits.
  for (const { limit, milli } of amounts) {
    tokens[limit] = Object.hasOwn(tokens, limit) ? (tokens[limit] as number) + milli : milli;
  }
  for (const limit in tokens) tokens[limit] = (tokens[limit] as number) / 1000;
  return tokens;
}

/** The amounts that are bought for limits of one bucket; here the names are those of limits, whatever they count. */
export function topUpAmounts(
  tokens: Tokens,
  bucket: BucketKey,
  limits: readonly Pick<Limit, "name" | "holdMs">[],
): readonly Amount[] {
  const amounts = amountsOf(tokens, "topUp");
  for (const { limit } of amounts) {
    const own = limits.find(({ name }) => name === limit);
    if (own === undefined) throw unknownLimit(limit, bucket, limits);
    if (own.holdMs !== undefined) throw topUpOfSlots(limit, bucket);
  }
  if (amounts.some(({ milli }) => milli > 0)) return amounts;
  if (amounts.length > 0) {
    throw new ValidationError(
      "consume_empty",
      `The top-up of ${bucket.entityId} on ${bucket.resource} is ${shown(tokens)} and adds nothing; ` +
        "give at least one whole number above 0.",
    );
  }
  const known = limits.map(({ name }) => name).join(", ");
  throw new ValidationError(
    "consume_empty",
    `The top-up of ${bucket.entityId} on ${bucket.resource} names no limit; name at least one of ${known}.`,
  );
}

export function topUpTooLarge(limit: string, { entityId, resource }: BucketKey, tokens: unknown): ValidationError {
  return new ValidationError(
    "top_up_too_large",
    `Limit "${limit}" of ${entityId} on ${resource} topped up by ${tokens} would hold more than ` +
      `${TOKENS_MAX} tokens; top up by less.`,
  );
}

function checkTokens(limit: string, value: unknown, use: AmountUse): number {
  const lowest = use === "adjust" ? -TOKENS_MAX : 0;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < lowest || value > TOKENS_MAX) {
    throw new ValidationError(
      "amount_invalid",
      `${use} of "${limit}" is ${shown(value)}; give a whole number of tokens from ${lowest} to ${TOKENS_MAX}` +
        `${value === undefined || value === null ? ", or leave it out" : ""}.`,
    );
  }
  return value === 0 ? 0 : value;
}

function unknownLimit(
  name: string,
  { entityId, resource }: BucketKey,
  limits: readonly Pick<Limit, "name">[],
): ValidationError {
  const known = limits.map((limit) => limit.name);
  const near = nearestName(name, known);
  return new ValidationError(
    "limit_unknown",
    (ways) =>
      `No limit "${name}" applies to ${entityId} on ${resource}; known limits: ${known.join(", ")}. ` +
      `${near === undefined ? "" : `Did you mean \`${near}\`? `}Set one with ${ways.setSomeLimits}${ways.limitsInRequest}.`,
  );
}

/** The measure that every acquire uses 1 of, unless it says otherwise. */
export const REQUESTS = "requests";

/** The measure that a limit counts: a request that uses so much of it takes as much from the limit. */
export function measureOf({ name, counts }: Pick<Limit, "name" | "counts">): string {
  return counts ?? name;
}

/** The measure that the limit of this name counts; the name itself where there is no such limit. */
export function measureIn(limits: readonly Limit[], name: string): string {
  for (const limit of limits) if (limit.name === name) return measureOf(limit);
  return name;
}

/** The measures that a set of limits counts, each once, in the order of the limits. */
export function measuresOf(limits: readonly Limit[]): readonly string[] {
  return [...new Set(limits.map(measureOf))];
}

/** A limit as statuses and the like name it. */
export function counting(limit: Pick<Limit, "name" | "counts">): { readonly limit: string; readonly counts: string } {
  return { limit: limit.name, counts: measureOf(limit) };
}

/** The fate of measures that nothing counts: they are left out silently, or as `unnamedLimits` says. */
export type Uncounted = "ignore" | "report";

/** The mark of a request of an adapter, whose measures are left out where nothing counts them: a key without a budget is not limited by one. */
const UNCOUNTED: unique symbol = Symbol("uncounted");

/** Marks a request, so that measures that nothing counts are left out. */
export function leavingOut<Request extends object>(
  request: Request,
  how: Uncounted,
): Request & { readonly [UNCOUNTED]: Uncounted } {
  return { ...request, [UNCOUNTED]: how };
}

/** The way in which a request leaves out what nothing counts; undefined: it is an error there. */
export function howLeavingOut(request: object): Uncounted | undefined {
  return (request as { readonly [UNCOUNTED]?: Uncounted })[UNCOUNTED];
}
