import { ValidationError } from "../domain/names/errors.ts";
import { hintFor } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { isRecord, wholeOf } from "./wire-fields.ts";

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
  const fail = (problem: string): never => {
    throw new ValidationError("usage_invalid", `The usage ${problem}.`);
  };
  if (!isRecord(usage)) fail(`is ${shown(usage)}; give an object of token kinds, as { input: 1000, output: 300 }`);
  for (const [kind, tokens] of Object.entries(usage)) {
    checkKind(kind, "The usage", "usage_invalid");
    if (tokens === undefined || wholeOf(tokens) !== undefined) continue;
    fail(`has ${shown(tokens)} of ${kind}; give a whole number of tokens, 0 or more`);
  }
}

/** Throws unless a name is a kind of token. */
export function checkKind(kind: string, what: string, code: string): void {
  if ((TOKEN_KINDS as readonly string[]).includes(kind)) return;
  throw new ValidationError(code, `${what} has the unknown token kind ${shown(kind)}; ${hintFor(kind, TOKEN_KINDS)}.`);
}

/** The weight of one token of each kind; fractions are fine. A kind that is left out weighs nothing. */
export type KindWeights = { readonly [Kind in TokenKind]?: number | undefined };

/** The weights of each measure, or a function of the model that gives them, as `prices.weights` does. */
export type MeasureWeights = Readonly<Record<string, KindWeights | ((model: string) => KindWeights)>>;

/** Weights by measure, or a function of the model. */
export type Weights = MeasureWeights | ((model: string) => MeasureWeights);

/** Whole tokens by measure that a usage comes to. The model is needed where weights are functions of it. */
export type Meter = (usage: TokenUsage, model?: string) => Record<string, number>;

/**
 * Makes the function that counts a usage by measure. Weights are taken as the decimals that they are written as, and
 * each sum is rounded up once, so an estimate and a settlement count alike.
 *
 * ```ts
 * const count = meter({ tpm: { input: 1, output: 1 }, usd: { input: 2.5, output: 10 } });
 * count({ input: 1000, output: 300 }); // { tpm: 1300, usd: 5500 }: micro-dollars
 * ```
 */
export function meter(weights: Weights): Meter {
  const weightsOf = weightsByModel(weights);
  return (usage, model) => {
    checkUsage(usage);
    return Object.fromEntries(
      weightsOf(model).map(({ measure, kinds }) => [
        measure,
        sumRoundedUp(kinds.map(({ kind, weight }) => ({ weight, count: usage[kind] ?? 0 }))),
      ]),
    );
  };
}

/** The exact weights of one measure; kinds that weigh nothing may be left out. */
export interface ExactWeights {
  readonly measure: string;
  readonly kinds: readonly { readonly kind: TokenKind; readonly weight: Decimal }[];
}

/** Makes a function of the model that returns the exact weights of every measure. Weights that are no functions are read once. */
export function weightsByModel(weights: Weights): (model: string | undefined) => readonly ExactWeights[] {
  if (typeof weights === "function") return (model) => weightsByModel(checkObject(weights(named(model))))(model);
  const measures = Object.entries(checkObject(weights)).map(([measure, own]) => {
    if (typeof own === "function") return (model: string | undefined) => exactWeights(measure, own(named(model)));
    const exact = exactWeights(measure, own);
    return () => exact;
  });
  return (model) => measures.map((weightsFor) => weightsFor(model));
}

function exactWeights(measure: string, weights: KindWeights): ExactWeights {
  const what = `The weights of ${shown(measure)}`;
  if (!isRecord(weights)) {
    const wanted = "give an object of token kinds, as { input: 1, output: 1 }, or a function of the model";
    throw new ValidationError("weights_invalid", `${what} are ${shown(weights)}; ${wanted}.`);
  }
  const kinds = Object.entries(weights).flatMap(([kind, weight]) => {
    checkKind(kind, `A weight of ${shown(measure)}`, "weights_invalid");
    if (weight === undefined) return [];
    if (typeof weight === "number" && Number.isFinite(weight) && weight >= 0) {
      return [{ kind: kind as TokenKind, weight: decimalOf(weight) }];
    }
    throw new ValidationError(
      "weights_invalid",
      `${what} have ${shown(weight)} for ${kind}; give a number, 0 or more.`,
    );
  });
  return { measure, kinds };
}

function checkObject(weights: MeasureWeights): MeasureWeights {
  if (isRecord(weights)) return weights;
  throw new ValidationError(
    "weights_invalid",
    `The weights are ${shown(weights)}; give an object by measure, as { tpm: { input: 1, output: 1 } }.`,
  );
}

function named(model: string | undefined): string {
  if (typeof model === "string" && model !== "") return model;
  throw new ValidationError(
    "model_missing",
    `The weights depend on the model, which is ${shown(model)}; pass its name, as in meter(weights)(usage, "gpt-5-mini").`,
  );
}

/** A number as the decimal that it is written as: `units` / 10^`scale`. So 0.1 is a tenth, which no float is. */
export interface Decimal {
  readonly units: bigint;
  readonly scale: number;
}

/** Reads a finite number that is not negative as the shortest decimal that reads back as it, which is how it was written. */
export function decimalOf(value: number): Decimal {
  const [digits = "", exponent = "0"] = String(value).split("e");
  const [whole = "", fraction = ""] = digits.split(".");
  const scale = fraction.length - Number(exponent);
  const units = BigInt(whole + fraction);
  return scale < 0 ? { units: units * 10n ** BigInt(-scale), scale: 0 } : { units, scale };
}

/** Returns the decimal in units of 10^-`scale`, which is not coarser than its own scale. */
export function wholeUnits({ units, scale: own }: Decimal, scale: number): bigint {
  return units * 10n ** BigInt(scale - own);
}

/** Multiplies the decimal by a power of ten exactly: the point is moved in its text. */
export function timesTenTo({ units, scale }: Decimal, power: number): number {
  return Number(`${units}e${power - scale}`);
}

/** A product that goes into a sum. */
interface Term {
  readonly weight: Decimal;
  /** A whole number, not negative. */
  readonly count: number;
}

/** Adds products exactly, and rounds up once at the end. */
export function sumRoundedUp(terms: readonly Term[]): number {
  const scale = terms.reduce((most, { weight }) => Math.max(most, weight.scale), 0);
  const units = terms.reduce((sum, { weight, count }) => sum + wholeUnits(weight, scale) * BigInt(count), 0n);
  const one = 10n ** BigInt(scale);
  return Number((units + one - 1n) / one);
}
