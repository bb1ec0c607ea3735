import type { Count } from "../../bucket/count.ts";
import type { BucketKey } from "../bucket/bucket-key.ts";
import { topUpOfSlots } from "../bucket/slot-errors.ts";
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

/** What usage counts of one limit, however much: slots of large weights that are held for a day are more than a number holds. */
export interface CountedAmount {
  readonly limit: string;
  readonly milli: Count;
}

/** Whole tokens by measure; in a top-up, by limit. */
export type Tokens<Name extends string = string> = { readonly [K in Name]?: number };

/** How an amount is judged besides being whole: what a caller may take, may adjust by, may release. */
export type AmountUse = "consume" | "adjust" | "release" | "settle" | "topUp";

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

/** The way back, for events: tokens by name, those of one name added up. */
export function tokensByName(amounts: readonly Amount[]): Readonly<Record<string, number>> {
  const tokens: Record<string, number> = {};
  // Of its own only: a limit may be called "constructor", which every plain object has already.
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
