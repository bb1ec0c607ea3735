import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { checkKind, decimalOf, type KindWeights, meter, type TokenKind, type TokenUsage, timesTenTo } from "./meter.ts";
import { isRecord } from "./wire-fields.ts";

/** The options of `priceList`. */
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
  /** The number of entries of a foreign list that were no models with a price for input and output. 0 for one's own. */
  readonly leftOut: number;
  /** The names of the models that have a price. */
  readonly models: readonly string[];
  /**
   * The cost of a token of each kind in micro-dollars, which is dollars a million tokens. A function on its own: pass it
   * as `weights: { usd: prices.weights }`. Throws `price_missing` for a model without a price.
   */
  readonly weights: (model: string) => KindWeights;
  /** The cost of a usage in micro-dollars, exact and rounded up once. Throws `price_missing` for a model without a price. */
  readonly cost: (model: string, usage: TokenUsage) => number;
}

/** The prices of a model in US dollars a million tokens, by kind. */
export interface ModelPrice {
  /** Input that is neither read from a cache nor written to one. */
  readonly input: number;
  /** Input that is read from a cache. Default: as `input`. */
  readonly cachedInput?: number;
  /** Input that is written to a cache. Default: as `input`. */
  readonly cacheWrite?: number;
  /** Output without reasoning. */
  readonly output: number;
  /** Reasoning. Default: as `output`. */
  readonly reasoning?: number;
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
    if (!isRecord(models)) {
      const wanted = "give an object of prices by the name of the model";
      throw invalid(`The models of a price list are ${shown(models)}; ${wanted}.`);
    }
    const weights = new Map(
      Object.entries(models).map(([name, price]) => [name, givenWeights(`The price of ${shown(name)}`, price)]),
    );
    const byDefault = other === undefined ? undefined : givenWeights("The default price", other);
    return listOf({ asOf, weights, other: byDefault, leftOut: 0 });
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

/** The kind whose price each kind has if it is left out; undefined: it must be given. */
const OTHERWISE: Readonly<Record<PricedKind, PricedKind | undefined>> = {
  input: undefined,
  cachedInput: "input",
  cacheWrite: "input",
  output: undefined,
  reasoning: "output",
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
    asOf,
    leftOut,
    models: Object.freeze([...weights.keys()]),
    weights: weightsFor,
    cost: (model: string, usage: TokenUsage) => count(usage, model).usd as number,
  });
}

/** No model costs less than this a million tokens, and none more a token. */
const PRICE_MIN_USD = 0.001;

/** Reads a price that a person wrote, who may have copied what one token costs. */
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
  if (!isRecord(price)) {
    throw invalid(`${what} is ${shown(price)}; give { input, output } in US dollars a million tokens.`);
  }
  for (const kind of Object.keys(price)) {
    checkKind(kind, what, "price_invalid");
    if (kind === "requests") throw invalid(`${what} has one for requests; prices are of tokens, by kind.`);
  }
  const entries = (Object.keys(OTHERWISE) as PricedKind[]).map((kind) => {
    const otherwise = OTHERWISE[kind];
    const usd = price[kind] === undefined && otherwise !== undefined ? price[otherwise] : price[kind];
    if (usd === undefined && otherwise === undefined) {
      throw invalid(`${what} has none for ${kind}; give at least input and output, 0 where it is free.`);
    }
    if (typeof usd === "number" && Number.isFinite(usd) && usd >= 0) return [kind, usd] as const;
    throw invalid(`${what} for ${kind} is ${shown(usd)}; give US dollars a million tokens, 0 or more.`);
  });
  return Object.freeze(Object.fromEntries(entries) as Record<PricedKind, number>);
}

function checkDate(asOf: string): void {
  const isDay = typeof asOf === "string" && /^\d{4}-\d{2}-\d{2}$/.test(asOf);
  const time = isDay ? Date.parse(`${asOf}T00:00:00Z`) : Number.NaN;
  // The 30th of February is read as a day of March.
  if (!Number.isNaN(time) && new Date(time).toISOString().startsWith(asOf)) return;
  throw invalid(`asOf of a price list is ${shown(asOf)}; give the day that the prices are of, as "2026-11-01".`);
}

function invalid(message: string, cause?: unknown): ValidationError {
  return new ValidationError("price_invalid", message, given({ cause }));
}

/** The map that LiteLLM publishes: an entry for each model, as parsed from JSON or as its text. */
export type LiteLLMMap = Readonly<Record<string, unknown>> | string;

/** These entries of the map are no models. */
const NO_MODELS: ReadonlySet<string> = new Set(["sample_spec", "fallback_generalizations"]);

/** Models that are priced by tokens in and out; others are priced by image, second, page or query. */
const MODES: ReadonlySet<unknown> = new Set(["chat", "completion", "responses", "embedding"]);

/** The field of each kind, in US dollars a token. Prices by length, tier and retention are ignored. */
const FIELDS = {
  input: "input_cost_per_token",
  cachedInput: "cache_read_input_token_cost",
  cacheWrite: "cache_creation_input_token_cost",
  output: "output_cost_per_token",
  reasoning: "output_cost_per_reasoning_token",
} as const satisfies Readonly<Record<keyof ModelPrice, string>>;

/** Reads the prices of the map's models in US dollars a million tokens, and counts the entries that have none. */
function pricesOfLiteLLM(json: LiteLLMMap): {
  readonly models: ReadonlyMap<string, ModelPrice>;
  readonly leftOut: number;
} {
  const models = new Map<string, ModelPrice>();
  let leftOut = 0;
  for (const [name, entry] of Object.entries(objectOf(json))) {
    if (NO_MODELS.has(name)) continue;
    const price = priceOf(entry);
    if (price === undefined) leftOut++;
    else models.set(name, price);
  }
  return { models, leftOut };
}

function priceOf(entry: unknown): ModelPrice | undefined {
  if (typeof entry !== "object" || entry === null) return undefined;
  const fields = entry as Readonly<Record<string, unknown>>;
  if (!MODES.has(fields.mode)) return undefined;
  const price: Record<string, number> = {};
  for (const [kind, field] of Object.entries(FIELDS)) {
    const perToken = fields[field];
    // An absent price falls back to that of another kind; a value that is no price must not.
    if (perToken === undefined || perToken === null) continue;
    if (typeof perToken !== "number" || !Number.isFinite(perToken) || perToken < 0) return undefined;
    price[kind] = timesTenTo(decimalOf(perToken), 6);
  }
  const { input, output } = price;
  return input === undefined || output === undefined ? undefined : { ...price, input, output };
}

function objectOf(json: LiteLLMMap): Readonly<Record<string, unknown>> {
  let map: unknown = json;
  try {
    if (typeof json === "string") map = JSON.parse(json);
  } catch (cause) {
    throw invalid(`LiteLLM's map is no JSON: ${String(cause)}; give the whole file.`, cause);
  }
  if (isRecord(map)) return map;
  throw invalid(`LiteLLM's map is ${shown(map)}; give the object of model_prices_and_context_window.json.`);
}

// A date, a version, `latest` or `preview` after `-`, `@` or `:` names the same model as the listed name before it. A bare small number
// after a dash does not: `claude-opus-4-5` is another model than `claude-opus-4`, at another price.
const DATE = String.raw`\d{4}-?\d{2}-?\d{2}|\d{2}-\d{2}|\d{2}-\d{4}|\d{4}`;
const VERSION = String.raw`v\d{1,3}(?:\.\d{1,3}){0,2}|\d{1,3}(?:\.\d{1,3}){1,2}|\d{3}`;
const SUFFIX = new RegExp(String.raw`^(?:[-@:](?:${DATE}|latest|preview|${VERSION})|[@:]\d{1,3})+$`);

/** Finds the listed model that a name stands for: the name itself, or the longest listed one before such a suffix. */
function listedModel(model: string, listed: ReadonlyMap<string, unknown>): string | undefined {
  if (listed.has(model)) return model;
  for (let end = model.length - 1; end > 0; end--) {
    const name = model.slice(0, end);
    if (listed.has(name) && SUFFIX.test(model.slice(end))) return name;
  }
  return undefined;
}
