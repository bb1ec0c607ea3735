import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../test/properties.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { meter } from "./meter.ts";
import { type LiteLLMMap, type PriceListOptions, priceList } from "./prices.ts";

const ASOF = "2026-11-01";
const MINI = { input: 0.25, cachedInput: 0.025, output: 2 };
const prices = priceList({ asOf: ASOF, models: { "gpt-5-mini": MINI, o3: { input: 2, output: 8, reasoning: 0 } } });

const refusedWith = (code: string, message: RegExp) => (error: unknown) =>
  error instanceof ValidationError && error.code === code && message.test(error.message);

test("weights are micro-dollars a token, which is dollars a million, of every kind but requests", () => {
  assert.deepEqual(prices.weights("gpt-5-mini"), {
    ...{ input: 0.25, cachedInput: 0.025, cacheWrite: 0.25 },
    ...{ output: 2, reasoning: 2 },
  });
  const { weights } = prices;
  assert.deepEqual(meter({ usd: weights })({ requests: 1, input: 1000, output: 300 }, "gpt-5-mini"), { usd: 850 });
});

test("a kind without a price has that of its like, and 0 where 0 is written", () => {
  assert.equal(prices.cost("o3", { cachedInput: 1_000_000 }), 2_000_000);
  assert.equal(prices.cost("o3", { cacheWrite: 1_000_000 }), 2_000_000);
  assert.equal(prices.cost("o3", { reasoning: 1_000_000 }), 0);
  assert.equal(prices.cost("gpt-5-mini", { reasoning: 1_000_000 }), 2_000_000);
});

test("a cost is the exact sum, rounded up once", () => {
  assert.equal(prices.cost("gpt-5-mini", { cachedInput: 1 }), 1);
  assert.equal(prices.cost("gpt-5-mini", { cachedInput: 40 }), 1);
  assert.equal(prices.cost("gpt-5-mini", { cachedInput: 41 }), 2);
  assert.equal(prices.cost("gpt-5-mini", { input: 1, cachedInput: 30 }), 1);
  assert.equal(prices.cost("gpt-5-mini", {}), 0);
});

test("costs of any prices with up to six decimals are those of whole numbers", () => {
  const price = fc.integer({ min: 0, max: 500_000_000 });
  const usage = fc.record({
    ...{ input: fc.nat(), cachedInput: fc.nat(), cacheWrite: fc.nat() },
    ...{ output: fc.nat(), reasoning: fc.nat() },
  });
  const kinds = ["input", "cachedInput", "cacheWrite", "output", "reasoning"] as const;
  const micro = fc.record({ input: price, cachedInput: price, cacheWrite: price, output: price, reasoning: price });
  fc.assert(
    fc.property(micro, usage, (each, used) => {
      // Lower ones are taken for prices of one token.
      fc.pre(kinds.some((kind) => each[kind] >= 1_000));
      const written = (kind: (typeof kinds)[number]) =>
        Number(`${Math.floor(each[kind] / 1_000_000)}.${String(each[kind] % 1_000_000).padStart(6, "0")}`);
      const [input, cachedInput, cacheWrite, output, reasoning] = kinds.map(written) as [
        number,
        number,
        number,
        number,
        number,
      ];
      const list = priceList({ asOf: ASOF, models: { m: { input, cachedInput, cacheWrite, output, reasoning } } });
      const sum = kinds.reduce((all, kind) => all + BigInt(each[kind]) * BigInt(used[kind]), 0n);
      assert.equal(BigInt(list.cost("m", used)), (sum + 999_999n) / 1_000_000n);
    }),
  );
});

test("a listed name with a date, a version, latest or preview after it has its price", () => {
  for (const model of [
    ...["gpt-5-mini-2026-08-07", "gpt-5-mini-20260807", "gpt-5-mini@20260807", "gpt-5-mini-0613", "gpt-5-mini-08-2026"],
    ...["gpt-5-mini-latest", "gpt-5-mini:latest", "gpt-5-mini-preview", "gpt-5-mini-preview-05-06"],
    ...["gpt-5-mini-v2", "gpt-5-mini-v1.2", "gpt-5-mini-1.2", "gpt-5-mini-002", "gpt-5-mini@001", "gpt-5-mini:1"],
    "gpt-5-mini-20260807-v1:0",
  ]) {
    assert.equal(prices.weights(model), prices.weights("gpt-5-mini"), model);
  }
});

test("another model has no price: nothing is guessed, and nothing is free", () => {
  for (const model of [
    ...["o3-pro", "o3-mini", "o3-5", "o30", "o3.5", "o3-", "gpt-5", "gpt-5-mini-high", "gpt-5-mini-4-5", "GPT-5-mini"],
    ...["openai/gpt-5-mini", "gpt-5-mini latest", "gpt-5-mini-latests", "constructor", "__proto__"],
  ]) {
    assert.throws(
      () => prices.cost(model, { input: 1 }),
      refusedWith("price_missing", /2026-11-01 has no price for/),
      model,
    );
  }
  assert.throws(() => prices.weights(undefined as unknown as string), refusedWith("price_missing", /undefined/));
});

test("the longest listed name counts, and a listed one itself before all", () => {
  const list = priceList({
    asOf: ASOF,
    models: {
      g: { input: 1, output: 1 },
      "g-preview": { input: 2, output: 2 },
      "g-2026-01-01": { input: 3, output: 3 },
    },
  });
  const inputOf = (model: string) => list.weights(model).input;
  assert.deepEqual(["g-2026-02-02", "g-preview-05-06", "g-2026-01-01"].map(inputOf), [1, 2, 3]);
});

test("a default is the price of every other model", () => {
  const list = priceList({ asOf: ASOF, models: { o3: { input: 2, output: 8 } }, default: { input: 10, output: 50 } });
  assert.equal(list.cost("o3-pro", { input: 1, output: 1 }), 60);
  assert.equal(list.cost("o3", { input: 1, output: 1 }), 10);
});

test("a list that is wrong is refused when it is made", () => {
  const models = { m: { input: 1, output: 1 } };
  const wrong: readonly [unknown, string, RegExp][] = [
    [{ models }, "price_invalid", /asOf of a price list is undefined; give the day/],
    ...["2026-13-01", "2026-02-30", "2026-2-3", "01.11.2026", "2026-11-01T00:00", ""].map(
      (asOf): [unknown, string, RegExp] => [{ asOf, models }, "price_invalid", /asOf/],
    ),
    [{ asOf: ASOF }, "price_invalid", /models of a price list are undefined/],
    [{ asOf: ASOF, models: { m: { input: 1 } } }, "price_invalid", /"m" has none for output/],
    [{ asOf: ASOF, models: { m: { output: 1 } } }, "price_invalid", /none for input/],
    [{ asOf: ASOF, models: { m: { input: -1, output: 1 } } }, "price_invalid", /for input is -1/],
    [{ asOf: ASOF, models: { m: { input: Number.NaN, output: 1 } } }, "price_invalid", /NaN/],
    [{ asOf: ASOF, models: { m: { input: Number.POSITIVE_INFINITY, output: 1 } } }, "price_invalid", /Infinity/],
    [{ asOf: ASOF, models: { m: { input: "1", output: 1 } } }, "price_invalid", /"1"/],
    [{ asOf: ASOF, models: { m: { input: 1, output: 1, cached: 1 } } }, "price_invalid", /unknown token kind "cached"/],
    [{ asOf: ASOF, models: { m: { input: 1, output: 1, requests: 1 } } }, "price_invalid", /requests/],
    [{ asOf: ASOF, models: { m: 3 } }, "price_invalid", /"m" is 3/],
    [{ asOf: ASOF, models, default: { input: 1 } }, "price_invalid", /The default price has none for output/],
    [{ asOf: ASOF, models, default: null }, "price_invalid", /The default price is null; give/],
    [{ asOf: ASOF, models: { m: { input: 1, output: 2, cachedInput: null } } }, "price_invalid", /dInput is null/],
    [{ asOf: ASOF, models: { m: { input: 2.5e-7, output: 2e-6 } } }, "price_invalid", /a token; give .* tokens, 2\./],
    [{ asOf: ASOF, models, currency: "EUR" }, "option_unknown", /currency/],
  ];
  for (const [options, code, message] of wrong) {
    assert.throws(() => priceList(options as PriceListOptions), refusedWith(code, message), JSON.stringify(options));
  }
});

/** Entries in the shapes that LiteLLM's map has. */
const LITELLM = {
  sample_spec: { mode: "one of chat, embedding, …", input_cost_per_token: 0, output_cost_per_token: 0 },
  fallback_generalizations: { rules: [{ pattern: ".*" }] },
  chatty: {
    ...{ mode: "chat", litellm_provider: "openai", max_tokens: 8_192, supports_vision: true },
    ...{ input_cost_per_token: 2.5e-7, output_cost_per_token: 2e-6, cache_read_input_token_cost: 2.5e-8 },
    ...{ input_cost_per_token_above_200k_tokens: 5e-7, input_cost_per_token_priority: 4.5e-7 },
    cache_creation_input_token_cost_above_1hr: 9e-6,
  },
  "vertex/thinker": {
    ...{ mode: "responses", input_cost_per_token: 3e-6, output_cost_per_token: 1.5e-5 },
    ...{ output_cost_per_reasoning_token: 1.2e-5, cache_creation_input_token_cost: 3.75e-6 },
  },
  old: { mode: "completion", input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
  vectors: { mode: "embedding", input_cost_per_token: 2e-8, output_cost_per_token: 0 },
  painter: { mode: "image_generation", input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
  modeless: { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
  oneSided: { mode: "embedding", input_cost_per_token: 1e-7 },
  perSecond: { mode: "chat", input_cost_per_second: 0.1 },
  worded: { mode: "chat", input_cost_per_token: "0.1", output_cost_per_token: 1 },
  negative: { mode: "chat", input_cost_per_token: 1e-6, output_cost_per_token: -1 },
  emptied: { mode: "chat", input_cost_per_token: 1e-6, output_cost_per_token: 1e-6, cache_read_input_token_cost: null },
};

test("LiteLLM's map is read: dollars a token become dollars a million, exactly", () => {
  const list = priceList.fromLiteLLM(LITELLM, { asOf: ASOF });
  assert.deepEqual(list.weights("chatty"), {
    ...{ input: 0.25, cachedInput: 0.025, cacheWrite: 0.25 },
    ...{ output: 2, reasoning: 2 },
  });
  assert.deepEqual(list.weights("vertex/thinker"), {
    ...{ input: 3, cachedInput: 3, cacheWrite: 3.75 },
    ...{ output: 15, reasoning: 12 },
  });
  assert.equal(list.weights("vectors").input, 0.02);
  assert.deepEqual(list.models, ["chatty", "vertex/thinker", "old", "vectors", "emptied"]);
  assert.equal(list.asOf, ASOF);
});

test("entries of LiteLLM's map that are not priced by tokens are left out and counted, those that are no models neither", () => {
  const list = priceList.fromLiteLLM(LITELLM, { asOf: ASOF });
  assert.equal(list.leftOut, 6);
  for (const model of ["painter", "modeless", "oneSided", "perSecond", "worded", "negative", "sample_spec"]) {
    assert.throws(() => list.weights(model), refusedWith("price_missing", new RegExp(model)));
  }
  assert.equal(prices.leftOut, 0);
});

test("LiteLLM's map may be the text of the file; what is no map is refused, and a day is needed", () => {
  assert.deepEqual(
    priceList.fromLiteLLM(JSON.stringify(LITELLM), { asOf: ASOF }).models,
    priceList.fromLiteLLM(LITELLM, { asOf: ASOF }).models,
  );
  for (const json of ["{", "[]", [], null, 3]) {
    assert.throws(
      () => priceList.fromLiteLLM(json as LiteLLMMap, { asOf: ASOF }),
      refusedWith("price_invalid", /LiteLLM's map is/),
    );
  }
  assert.throws(() => priceList.fromLiteLLM(LITELLM, { asOf: "today" }), refusedWith("price_invalid", /asOf/));
});

test("dollars a token of any size are the same dollars a million, the point moved", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 999_999_999 }), fc.integer({ min: 6, max: 18 }), (digits, scale) => {
      const cost = Number(`${digits}e-${scale}`);
      const list = priceList.fromLiteLLM(
        { m: { mode: "chat", input_cost_per_token: cost, output_cost_per_token: 0 } },
        { asOf: ASOF },
      );
      assert.equal(list.weights("m").input, Number(`${digits}e-${scale - 6}`));
    }),
  );
});
