import type { BucketKey } from "./bucket-key.ts";
import { ValidationError } from "./errors.ts";
import { nearestName } from "./known-names.ts";
import { type Limit, TOKENS_MAX } from "./limit.ts";
import { shown } from "./names.ts";

/** Millitokens of one limit. */
export interface Amount {
  readonly limit: string;
  readonly milli: number;
}

/** Whole tokens per limit name, as callers write them. */
export type Tokens<Name extends string = string> = { readonly [K in Name]?: number };

/** How an amount is judged besides being whole: what a caller may take, may adjust by, may release. */
export type AmountUse = "consume" | "bypass" | "adjust" | "release" | "settle" | "topUp";

/** Checks whole tokens once, at the edge, and turns them into millitokens; the order is the caller's. */
export function checkAmounts(tokens: Tokens, use: AmountUse, bucket: BucketKey, limits: readonly Limit[]): Amount[] {
  if (typeof tokens !== "object" || tokens === null || Array.isArray(tokens)) {
    throw new ValidationError(
      "amounts_invalid",
      `${use} must be an object of limit names and whole tokens, not ${shown(tokens)}; for example { rpm: 1 }.`,
    );
  }
  // Most requests name one or two limits, and an array that grows by pushing takes room for seventeen.
  let first: Amount | undefined;
  let second: Amount | undefined;
  let amounts: Amount[] | undefined;
  for (const limit in tokens) {
    const value = (tokens as Record<string, unknown>)[limit];
    if (limitOf(limits, limit) === undefined) throw unknownLimit(limit, bucket, limits);
    const whole = checkTokens(limit, value, use);
    const amount = { limit, milli: whole * 1000 };
    if (first === undefined) first = amount;
    else if (second === undefined) second = amount;
    else if (amounts === undefined) amounts = [first, second, amount];
    else amounts.push(amount);
  }
  if (amounts !== undefined) return amounts;
  if (first === undefined) return nothingNamed(use, bucket, limits);
  return second === undefined ? [first] : [first, second];
}

/** A difference of nothing is none; but whoever takes or tops up and names no limit has forgotten something. */
function nothingNamed(use: AmountUse, { entityId, resource }: BucketKey, limits: readonly Limit[]): Amount[] {
  if (use === "adjust" || use === "release" || use === "settle") return [];
  const known = limits.map(({ name }) => name).join(", ");
  throw new ValidationError(
    "consume_empty",
    `${use === "topUp" ? "amounts" : "consume"} for ${entityId} on ${resource} names no limit; known limits: ${known}. ` +
      "Name at least one, with 0 to ask only whether it is in debt.",
  );
}

// Called for every limit of every request; a handful of comparisons beats a closure or a map.
function limitOf(limits: readonly Limit[], name: string): Limit | undefined {
  for (let i = 0; i < limits.length; i++) if (limits[i]?.name === name) return limits[i];
  return undefined;
}

function checkTokens(limit: string, value: unknown, use: AmountUse): number {
  const lowest = use === "adjust" ? -TOKENS_MAX : 0;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < lowest || value > TOKENS_MAX) {
    throw new ValidationError(
      "amount_invalid",
      `${use} of "${limit}" is ${shown(value)}; give a whole number of tokens from ${lowest} to ${TOKENS_MAX}` +
        `${value === undefined || value === null ? ", or leave the limit out" : ""}.`,
    );
  }
  return value === 0 ? 0 : value;
}

function unknownLimit(name: string, { entityId, resource }: BucketKey, limits: readonly Limit[]): ValidationError {
  const known = limits.map((limit) => limit.name);
  const near = nearestName(name, known);
  return new ValidationError(
    "limit_unknown",
    (ways) =>
      `No limit "${name}" applies to ${entityId} on ${resource}; known limits: ${known.join(", ")}. ` +
      `${near === undefined ? "" : `Did you mean \`${near}\`? `}Set one with ${ways.setSomeLimits}${ways.limitsInRequest}.`,
  );
}
