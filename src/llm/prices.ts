import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { checkKind, type TokenKind, type TokenUsage } from "./kinds.ts";
import { type LiteLLMMap, pricesOfLiteLLM } from "./litellm-prices.ts";
import { type KindWeights, meter } from "./meter.ts";
import { listedModel } from "./model-names.ts";
import type { ModelPrice } from "./model-price.ts";

/** What `priceList` takes. */
export interface PriceListOptions {
  /** The day that the prices are of, `YYYY-MM-DD`. */
  readonly asOf: string;
  /** The prices by the name of the model. */
  readonly models: Readonly<Record<string, ModelPrice>>;
  /** The price of every other model. Default: none, and a model without a price is refused. */
  readonly default?: ModelPrice;
}

/** Prices of models. Make one with `priceList`. */
export interface PriceList {
  /** The day that the prices are of. */
  readonly asOf: string;
  /** How many entries of a foreign list were no models with a price for input and output. 0 for one's own. */
  readonly leftOut: number;
  /** The names of the models that have a price. */
  readonly models: readonly string[];
  /**
   * What a token of each kind costs in micro-dollars, which is dollars a million tokens. A function on its own: pass it
   * as `weights: { usd: prices.weights }`. Throws `price_missing` for a model without a price.
   */
  readonly weights: (model: string) => KindWeights;
  /** What a usage costs in micro-dollars, exact and rounded up once. Throws `price_missing` for a model without a price. */
  readonly cost: (model: string, usage: TokenUsage) => number;
}

/** Makes price lists. */
export interface PriceListMaker {
  /**
   * Makes a price list of US dollars a million tokens by kind.
   *
   * ```ts
   * const prices = priceList({
   *   asOf: "2026-11-01",
   *   models: { "gpt-5-mini": { input: 0.25, cachedInput: 0.025, output: 2 } },
   * });
   * prices.cost("gpt-5-mini", { input: 1000, output: 300 }); // 850 micro-dollars
   * ```
   */
  (options: PriceListOptions): PriceList;
  /** Makes a price list of the map that LiteLLM publishes, `model_prices_and_context_window.json`. */
  fromLiteLLM(json: LiteLLMMap, options: LiteLLMOptions): PriceList;
}

/** Options of `priceList.fromLiteLLM`. */
export interface LiteLLMOptions {
  /** The day that the map is of, `YYYY-MM-DD`. */
  readonly asOf: string;
}

const OPTIONS = new KnownNames<PriceListOptions>({ asOf: true, models: true, default: true });
const LITELLM_OPTIONS = new KnownNames<LiteLLMOptions>({ asOf: true });

/** Makes price lists: of prices that you give, or of the map that LiteLLM publishes. */
export const priceList: PriceListMaker = Object.assign(
  (options: PriceListOptions): PriceList => {
    const { asOf, models, default: other } = OPTIONS.check(options, "The options of priceList");
    checkDate(asOf);
    const weights = new Map(
      Object.entries(checkModels(models)).map(([name, price]) => [
        name,
        givenWeights(`The price of ${shown(name)}`, price),
      ]),
    );
    const isDefault = other !== undefined;
    return listOf({
      asOf,
      weights,
      other: isDefault ? givenWeights("The default price", other) : undefined,
      leftOut: 0,
    });
  },
  {
    fromLiteLLM(json: LiteLLMMap, options: LiteLLMOptions): PriceList {
      const { asOf } = LITELLM_OPTIONS.check(options, "The options of priceList.fromLiteLLM");
      checkDate(asOf);
      const { models, leftOut } = pricesOfLiteLLM(json);
      const weights = new Map(
        [...models].map(([name, price]) => [name, weightsOf(`The price of ${shown(name)}`, price)]),
      );
      return listOf({ asOf, weights, other: undefined, leftOut });
    },
  },
);

/** Every kind of token that has a price. */
type PricedKind = Exclude<TokenKind, "requests">;

/** Of each kind, whether it must be given, and else which kind's price it has. */
const OTHERWISE: Readonly<Record<PricedKind, PricedKind | undefined>> = {
  ...{ input: undefined, cachedInput: "input", cacheWrite: "input" },
  ...{ output: undefined, reasoning: "output" },
};

interface Listed {
  readonly asOf: string;
  readonly weights: ReadonlyMap<string, KindWeights>;
  readonly other: KindWeights | undefined;
  readonly leftOut: number;
}

function listOf({ asOf, weights, other, leftOut }: Listed): PriceList {
  const weightsFor = (model: string): KindWeights => {
    const listed = typeof model === "string" ? listedModel(model, weights) : undefined;
    const found = listed === undefined ? other : weights.get(listed);
    if (found !== undefined) return found;
    throw new ValidationError(
      "price_missing",
      `The price list of ${asOf} has no price for ${shown(model)}; add the model to \`models\`, or give a \`default\`. ` +
        "A model without a price is never free.",
    );
  };
  const count = meter({ usd: weightsFor });
  return Object.freeze({
    ...{ asOf, leftOut, models: Object.freeze([...weights.keys()]) },
    weights: weightsFor,
    cost: (model: string, usage: TokenUsage) => count(usage, model).usd as number,
  });
}

/** No model costs less than this a million tokens, and none more a token. */
const PRICE_MIN_USD = 0.001;

/** The weights of a price that somebody wrote, who may have copied what one token costs. */
function givenWeights(what: string, price: ModelPrice): KindWeights {
  const weights = weightsOf(what, price);
  const most = Math.max(...Object.values(weights));
  if (most === 0 || most >= PRICE_MIN_USD) return weights;
  throw invalid(
    `${what} is at most ${most}, which looks like dollars a token; give US dollars a million tokens, ` +
      `${Number((most * 1e6).toPrecision(12))}. priceList.fromLiteLLM reads LiteLLM's prices as they are.`,
  );
}

/** Dollars a million tokens are micro-dollars a token. */
function weightsOf(what: string, price: ModelPrice): Record<PricedKind, number> {
  if (typeof price !== "object" || price === null || Array.isArray(price)) {
    throw invalid(`${what} is ${shown(price)}; give { input, output } in US dollars a million tokens.`);
  }
  for (const kind of Object.keys(price)) {
    checkKind(kind, what, "price_invalid");
    if (kind === "requests") throw invalid(`${what} has one for requests; prices are of tokens, by kind.`);
  }
  const entries = (Object.keys(OTHERWISE) as PricedKind[]).map((kind) => {
    const otherwise = OTHERWISE[kind];
    const given = price[kind] === undefined && otherwise !== undefined ? price[otherwise] : price[kind];
    if (given === undefined && otherwise === undefined) {
      throw invalid(`${what} has none for ${kind}; give at least input and output, 0 where it is free.`);
    }
    if (typeof given === "number" && Number.isFinite(given) && given >= 0) return [kind, given] as const;
    throw invalid(`${what} for ${kind} is ${shown(given)}; give US dollars a million tokens, 0 or more.`);
  });
  return Object.freeze(Object.fromEntries(entries) as Record<PricedKind, number>);
}

function checkModels(models: PriceListOptions["models"]): PriceListOptions["models"] {
  if (typeof models === "object" && models !== null && !Array.isArray(models)) return models;
  throw invalid(`The models of a price list are ${shown(models)}; give an object of prices by the name of the model.`);
}

function checkDate(asOf: string): void {
  const isDay = typeof asOf === "string" && /^\d{4}-\d{2}-\d{2}$/.test(asOf);
  const time = isDay ? Date.parse(`${asOf}T00:00:00Z`) : Number.NaN;
  // The 30th of February is read as a day of March.
  if (!Number.isNaN(time) && new Date(time).toISOString().startsWith(asOf)) return;
  throw invalid(`asOf of a price list is ${shown(asOf)}; give the day that the prices are of, as "2026-11-01".`);
}

function invalid(message: string): ValidationError {
  return new ValidationError("price_invalid", message);
}
