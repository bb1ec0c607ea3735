import { ValidationError } from "./errors.ts";
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
export type AmountUse = "consume" | "adjust" | "release";

export interface AmountRules {
  readonly use: AmountUse;
  readonly entityId: string;
  readonly resource: string;
  readonly limits: readonly Limit[];
}

/** Checks whole tokens once, at the edge, and turns them into millitokens; the order is the caller's. */
export function checkAmounts(tokens: Tokens, rules: AmountRules): Amount[] {
  if (typeof tokens !== "object" || tokens === null || Array.isArray(tokens)) {
    throw new ValidationError(
      "amounts_invalid",
      `${rules.use} must be an object of limit names and whole tokens, not ${shown(tokens)}; for example { rpm: 1 }.`,
    );
  }
  const amounts: Amount[] = [];
  for (const limit in tokens) {
    if (!Object.hasOwn(tokens, limit)) continue;
    const value = (tokens as Record<string, unknown>)[limit];
    if (value === undefined) continue;
    const known = rules.limits.find(({ name }) => name === limit);
    if (known === undefined) throw unknownLimit(limit, rules);
    amounts.push({ limit, milli: checkTokens(limit, value, rules.use) * 1000 });
    if (rules.use === "consume" && (value as number) > known.capacity)
      throw neverGrantable(known, value as number, rules);
  }
  return amounts;
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

function unknownLimit(name: string, rules: AmountRules): ValidationError {
  const known = rules.limits.map((limit) => limit.name).join(", ");
  return new ValidationError(
    "limit_unknown",
    `No limit "${name}" applies to ${rules.entityId} on ${rules.resource}; known limits: ${known}. ` +
      "Set one with setLimits or setResourceDefaults, or pass it in `limits`.",
  );
}

function neverGrantable(limit: Limit, tokens: number, rules: AmountRules): ValidationError {
  return new ValidationError(
    "amount_above_capacity",
    `${tokens} of "${limit.name}" for ${rules.entityId} on ${rules.resource} can never be granted: ` +
      `the capacity is ${limit.capacity}. Ask for less, or raise the limit's burst.`,
  );
}
