import { ValidationError } from "../domain/names/errors.ts";
import { hintFor } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";

/**
 * The kinds of tokens of a call, disjoint, so that weights add up: `input` is neither read from a cache nor written to
 * one, `output` is without `reasoning`. `requests` is 1 for each call.
 */
export const TOKEN_KINDS = ["requests", "input", "cachedInput", "cacheWrite", "output", "reasoning"] as const;

/** One of `TOKEN_KINDS`. */
export type TokenKind = (typeof TOKEN_KINDS)[number];

/** Whole tokens by kind that a call used. A kind that is left out, or `undefined`, is 0. */
export type TokenUsage = { readonly [Kind in TokenKind]?: number | undefined };

/** The sum of what came out of a model: output and reasoning. */
export function outputTokens({ output = 0, reasoning = 0 }: TokenUsage): number {
  return output + reasoning;
}

/** Throws unless every name is a kind and every number a whole one. */
export function checkUsage(usage: TokenUsage): void {
  if (typeof usage !== "object" || usage === null || Array.isArray(usage)) {
    throw new ValidationError(
      "usage_invalid",
      `The usage is ${shown(usage)}; give an object of token kinds, as { input: 1000, output: 300 }.`,
    );
  }
  for (const [kind, tokens] of Object.entries(usage)) {
    checkKind(kind, "The usage", "usage_invalid");
    if (tokens === undefined || (Number.isSafeInteger(tokens) && tokens >= 0)) continue;
    throw new ValidationError(
      "usage_invalid",
      `The usage has ${shown(tokens)} of ${kind}; give a whole number of tokens, 0 or more.`,
    );
  }
}

/** Throws unless a name is a kind of token. */
export function checkKind(kind: string, what: string, code: string): void {
  if ((TOKEN_KINDS as readonly string[]).includes(kind)) return;
  throw new ValidationError(code, `${what} has the unknown token kind ${shown(kind)}; ${hintFor(kind, TOKEN_KINDS)}.`);
}
