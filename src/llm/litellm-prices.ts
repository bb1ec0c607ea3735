import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import { decimalOf, timesTenTo } from "./decimal.ts";
import type { ModelPrice } from "./model-price.ts";

/** The map that LiteLLM publishes: an entry for each model, as parsed from JSON or as its text. */
export type LiteLLMMap = Readonly<Record<string, unknown>> | string;

/** Entries of the map that are no models. */
const NO_MODELS: ReadonlySet<string> = new Set(["sample_spec", "fallback_generalizations"]);

/** Models that are priced by tokens in and out; others are priced by image, second, page or query. */
const MODES: ReadonlySet<unknown> = new Set(["chat", "completion", "responses", "embedding"]);

/** The field of each kind, in US dollars a token. Every other field is left alone, prices by length, tier and retention too. */
const FIELDS = {
  input: "input_cost_per_token",
  cachedInput: "cache_read_input_token_cost",
  cacheWrite: "cache_creation_input_token_cost",
  output: "output_cost_per_token",
  reasoning: "output_cost_per_reasoning_token",
} as const satisfies Readonly<Record<keyof ModelPrice, string>>;

/** The prices of the map's models in US dollars a million tokens, and how many of its entries have none. */
export function pricesOfLiteLLM(json: LiteLLMMap): {
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
    // A price that is absent is that of another kind; one that is there and no price must not become that.
    if (perToken === undefined || perToken === null) continue;
    if (typeof perToken !== "number" || !Number.isFinite(perToken) || perToken < 0) return undefined;
    price[kind] = timesTenTo(decimalOf(perToken), 6);
  }
  const { input, output } = price;
  return input === undefined || output === undefined ? undefined : { ...price, input, output };
}

function objectOf(json: LiteLLMMap): Readonly<Record<string, unknown>> {
  let given: unknown = json;
  try {
    if (typeof json === "string") given = JSON.parse(json);
  } catch (cause) {
    throw new ValidationError("price_invalid", `LiteLLM's map is no JSON: ${String(cause)}; give the whole file.`, {
      cause,
    });
  }
  if (typeof given === "object" && given !== null && !Array.isArray(given)) {
    return given as Readonly<Record<string, unknown>>;
  }
  throw new ValidationError(
    "price_invalid",
    `LiteLLM's map is ${shown(given)}; give the object of model_prices_and_context_window.json.`,
  );
}
