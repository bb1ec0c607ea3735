import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import { type Decimal, decimalOf, sumRoundedUp } from "./decimal.ts";
import { checkKind, checkUsage, type TokenKind, type TokenUsage } from "./kinds.ts";

/** What one token of each kind weighs; fractions are fine. A kind that is left out weighs nothing. */
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

/** The weights of one measure, exact; kinds that weigh nothing may be left out. */
export interface ExactWeights {
  readonly measure: string;
  readonly kinds: readonly { readonly kind: TokenKind; readonly weight: Decimal }[];
}

/** The exact weights of every measure for a model. What does not depend on one is checked and read once. */
export function weightsByModel(weights: Weights): (model: string | undefined) => readonly ExactWeights[] {
  if (typeof weights === "function") return (model) => weightsByModel(checkObject(weights(named(model))))(model);
  const measures = Object.entries(checkObject(weights)).map(([measure, of]) => ({ measure, of: parsed(measure, of) }));
  return (model) =>
    measures.map(({ measure, of }) => ({ measure, kinds: typeof of === "function" ? of(named(model)) : of }));
}

type Parsed = ExactWeights["kinds"];

function parsed(
  measure: string,
  weights: KindWeights | ((model: string) => KindWeights),
): Parsed | ((model: string) => Parsed) {
  if (typeof weights === "function") return (model) => parsedKinds(measure, weights(model));
  return parsedKinds(measure, weights);
}

function parsedKinds(measure: string, weights: KindWeights): Parsed {
  const what = `The weights of ${shown(measure)}`;
  if (typeof weights !== "object" || weights === null || Array.isArray(weights)) {
    throw new ValidationError(
      "weights_invalid",
      `${what} are ${shown(weights)}; give an object of token kinds, as { input: 1, output: 1 }, or a function of the model.`,
    );
  }
  return Object.entries(weights).flatMap(([kind, weight]) => {
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
}

function checkObject(weights: MeasureWeights): MeasureWeights {
  if (typeof weights === "object" && weights !== null && !Array.isArray(weights)) return weights;
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
