import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../test/properties.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { meter, TOKEN_KINDS, type TokenUsage, type Weights } from "./meter.ts";

const refusedWith = (code: string, message: RegExp) => (error: unknown) =>
  error instanceof ValidationError && error.code === code && message.test(error.message);

test("a usage is counted by measure, prices in micro-dollars", () => {
  const weights = {
    rpm: { requests: 1 },
    tpm: { input: 1, cacheWrite: 1, output: 1, reasoning: 1 },
    usd: { input: 2.5, cachedInput: 1.25, output: 10, reasoning: 10 },
  };
  const usage = { requests: 1, input: 1000, cachedInput: 9000, output: 300 };
  assert.deepEqual(meter(weights)(usage), { rpm: 1, tpm: 1300, usd: 16_750 });
});

test("a tenth is a tenth: thirty tokens of 0.1 are 3, not the 4 that floats round up to", () => {
  // Three of these added as floats are 0.30000000000000004.
  assert.deepEqual(
    meter({ usd: { input: 0.1, output: 0.1, reasoning: 0.1 } })({ input: 10, output: 10, reasoning: 10 }),
    {
      usd: 3,
    },
  );
});

test("a sum is rounded up once, not each of its parts", () => {
  assert.deepEqual(meter({ usd: { input: 0.4, output: 0.4, reasoning: 0.1 } })({ input: 1, output: 1, reasoning: 1 }), {
    usd: 1,
  });
  assert.deepEqual(meter({ usd: { input: 0.4, output: 0.6 } })({ input: 1, output: 1 }), { usd: 1 });
});

test("weights as small and as large as numbers are written are exact", () => {
  assert.deepEqual(meter({ usd: { input: 1e-7, output: 1e21 } })({ input: 10_000_000 }), { usd: 1 });
  assert.deepEqual(meter({ usd: { input: 5e-324 } })({ input: 1 }), { usd: 1 });
  assert.deepEqual(meter({ usd: { output: 1.5e21 } })({ output: 2 }), { usd: 3e21 });
});

test("what is left out, undefined or weighed 0 counts nothing, and its measure is still there", () => {
  const count = meter({ tpm: { input: 1, output: undefined }, usd: { input: 0 } });
  assert.deepEqual(count({ input: undefined, output: 7 }), { tpm: 0, usd: 0 });
  assert.deepEqual(count({}), { tpm: 0, usd: 0 });
});

test("weights may be a function of the model, as a whole or for one measure", () => {
  const byModel = (model: string) => ({ output: model === "small" ? 0.4 : 10 });
  assert.deepEqual(meter({ rpm: { requests: 1 }, usd: byModel })({ requests: 1, output: 10 }, "small"), {
    rpm: 1,
    usd: 4,
  });
  const count = meter((model) => ({ usd: byModel(model) }));
  assert.deepEqual(count({ output: 10 }, "large"), { usd: 100 });
  assert.throws(() => count({ output: 10 }), refusedWith("model_missing", /which is undefined; pass its name/));
  assert.throws(() => meter({ usd: byModel })({ output: 10 }, ""), refusedWith("model_missing", /""/));
});

test("weights that are wrong are refused when the meter is made", () => {
  const wrong: readonly [unknown, RegExp][] = [
    [null, /The weights are null/],
    [[], /The weights are/],
    [{ tpm: 1 }, /The weights of "tpm" are 1/],
    [{ tpm: { inputs: 1 } }, /unknown token kind "inputs"; did you mean `input`/],
    [{ tpm: { input: -1 } }, /"tpm" have -1 for input/],
    [{ tpm: { input: Number.NaN } }, /NaN for input/],
    [{ tpm: { input: "2" } }, /"2" for input/],
  ];
  for (const [weights, message] of wrong) {
    assert.throws(() => meter(weights as Weights), refusedWith("weights_invalid", message));
  }
  // Those of a function, when it is called.
  const late = meter({ usd: () => ({ input: Number.POSITIVE_INFINITY }) });
  assert.throws(() => late({}, "m"), refusedWith("weights_invalid", /Infinity for input/));
});

test("a usage that is wrong is refused, and nothing is guessed", () => {
  const count = meter({ tpm: { input: 1 } });
  for (const [usage, message] of [
    [undefined, /The usage is undefined/],
    [{ prompt_tokens: 3 }, /unknown token kind "prompt_tokens"/],
    [{ input: 1.5 }, /1.5 of input/],
    [{ input: -1 }, /-1 of input/],
    [{ input: null }, /null of input/],
  ] as const) {
    assert.throws(() => count(usage as TokenUsage), refusedWith("usage_invalid", message));
  }
});

/** A decimal with up to nine places, as a text, and what it is in units of 10^-9. */
const decimals = fc
  .record({ whole: fc.nat({ max: 5_000 }), places: fc.nat({ max: 9 }), digits: fc.nat({ max: 999_999_999 }) })
  .map(({ whole, places, digits }) => {
    const fraction = String(digits).padStart(9, "0").slice(0, places);
    return {
      written: Number(places === 0 ? `${whole}` : `${whole}.${fraction}`),
      nano: BigInt(whole) * 1_000_000_000n + BigInt(fraction.padEnd(9, "0")),
    };
  });

test("a sum is that of exact arithmetic, for any weights and any usage", () => {
  const kinds = fc.array(fc.record({ kind: fc.constantFrom(...TOKEN_KINDS), weight: decimals, count: fc.nat() }), {
    maxLength: TOKEN_KINDS.length,
  });
  fc.assert(
    fc.property(kinds, (drawn) => {
      const each = new Map(drawn.map((one) => [one.kind, one]));
      const weights = Object.fromEntries([...each].map(([kind, { weight }]) => [kind, weight.written]));
      const usage = Object.fromEntries([...each].map(([kind, { count }]) => [kind, count]));
      let nano = 0n;
      for (const { weight, count } of each.values()) nano += weight.nano * BigInt(count);
      const expected = nano / 1_000_000_000n + (nano % 1_000_000_000n === 0n ? 0n : 1n);
      assert.equal(BigInt(meter({ usd: weights })(usage).usd ?? -1), expected);
    }),
    { numRuns: 500 },
  );
});
