import type { BucketKey } from "./bucket-key.ts";
import { ValidationError } from "./errors.ts";
import { capacityMaxMilli, kindOf, type Limit, TOKENS_MAX } from "./limit.ts";
import { shown } from "./names.ts";

/** Millitokens of one limit. */
export interface Amount {
  readonly limit: string;
  readonly milli: number;
}

/** Whole tokens per limit name, as callers write them. */
export type Tokens<Name extends string = string> = { readonly [K in Name]?: number };

/** How an amount is judged besides being whole: what a caller may take, may adjust by, may release. */
export type AmountUse = "consume" | "bypass" | "adjust" | "release" | "topUp";

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
    if (value === undefined) continue;
    const known = limitOf(limits, limit);
    if (known === undefined) throw unknownLimit(limit, bucket, limits);
    const whole = checkTokens(limit, value, use);
    // A quota may have been topped up: only its bucket can tell.
    if (use === "consume" && whole > known.capacity && !known.soft && kindOf(known) === "drip") {
      checkGrantable(known, whole, bucket);
    }
    const amount = { limit, milli: whole * 1000 };
    if (first === undefined) first = amount;
    else if (second === undefined) second = amount;
    else if (amounts === undefined) amounts = [first, second, amount];
    else amounts.push(amount);
  }
  if (amounts !== undefined) return amounts;
  return first === undefined ? [] : second === undefined ? [first] : [first, second];
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
      `${use} of "${limit}" is ${shown(value)}; give a whole number of tokens from ${lowest} to ${TOKENS_MAX}.`,
    );
  }
  return value === 0 ? 0 : value;
}

function unknownLimit(name: string, { entityId, resource }: BucketKey, limits: readonly Limit[]): ValidationError {
  const known = limits.map((limit) => limit.name).join(", ");
  return new ValidationError(
    "limit_unknown",
    `No limit "${name}" applies to ${entityId} on ${resource}; known limits: ${known}. ` +
      "Set one with setLimits or setResourceDefaults, or pass it in `limits`.",
  );
}

/** Throws when the amount is above every capacity the limit ever has. */
function checkGrantable(limit: Limit, tokens: number, { entityId, resource }: BucketKey): void {
  const capacity = Math.floor(capacityMaxMilli(limit) / 1000);
  if (tokens <= capacity) return;
  throw new ValidationError(
    "amount_above_capacity",
    `${tokens} of "${limit.name}" for ${entityId} on ${resource} can never be granted: ` +
      `the capacity is ${capacity}. Ask for less, or raise the limit's burst.`,
  );
}
