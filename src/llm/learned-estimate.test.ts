import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../test/properties.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { Limit } from "../entry/limits.ts";
import { outputWithin } from "./estimate-tokens.ts";
import { type EstimatedCall, type LearnedEstimate, learnedEstimate } from "./learned-estimate.ts";
import { decimalOf, weightsByModel } from "./meter.ts";

const RESOURCE = "gpt-5-mini";
const CALL: EstimatedCall = { resource: RESOURCE, outputMax: 16_384, plainOutput: 16_384, limits: [], weights: [] };

function learn(estimate: LearnedEstimate, outputs: readonly number[], outputMax: number | undefined): void {
  for (const actual of outputs) estimate.settled({ resource: RESOURCE, outputMax, estimated: actual, actual });
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

test("until 20 calls are known it estimates as the plain one does, then by the nearest rank of nine tenths", () => {
  const estimate = learnedEstimate();
  learn(estimate, upTo(19), 16_384);
  assert.equal(estimate.outputFor(CALL), 16_384);
  learn(estimate, [20], 16_384);
  assert.equal(estimate.outputFor(CALL), 18);
  learn(estimate, [21], 16_384);
  // 0.9 times 21 is 18.9: the 19th.
  assert.equal(estimate.outputFor(CALL), 19);
});

test("the rank is that of exact arithmetic: nine tenths of 70 are 63, where floats have a little more", () => {
  const estimate = learnedEstimate();
  learn(estimate, upTo(70), 16_384);
  assert.equal(estimate.outputFor(CALL), 63);
  const half = learnedEstimate({ quantile: 0.29 });
  learn(half, upTo(100), 16_384);
  // 0.29 * 100 is 28.999999999999996 in floats, and 0.57 * 100 is 56.99999999999999.
  assert.equal(half.outputFor(CALL), 29);
});

test("calls whose own maximum has the same power of two are learned together, others and none apart", () => {
  const estimate = learnedEstimate();
  learn(estimate, upTo(20), 512);
  assert.equal(estimate.outputFor({ ...CALL, outputMax: 1_023, plainOutput: 1_023 }), 18);
  for (const [outputMax, plainOutput] of [
    [511, 511],
    [1_024, 1_024],
    [undefined, 1_024],
  ] as const) {
    assert.equal(estimate.outputFor({ ...CALL, outputMax, plainOutput }), plainOutput);
  }
  learn(estimate, upTo(20), undefined);
  assert.equal(estimate.outputFor({ ...CALL, outputMax: undefined, plainOutput: 1_024 }), 18);
  assert.equal(estimate.outputFor({ ...CALL, resource: "gpt-5", outputMax: 512, plainOutput: 512 }), 512);
});

test("the last 256 calls count, and the one before them no longer", () => {
  const estimate = learnedEstimate({ quantile: 1 });
  learn(estimate, [9_000, ...Array.from({ length: 255 }, () => 10)], 16_384);
  assert.equal(estimate.outputFor(CALL), 9_000);
  learn(estimate, [11], 16_384);
  assert.equal(estimate.outputFor(CALL), 11);
});

test("what is estimated is what sorting the last 256 outputs gives, for any outputs", () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 50 }), { minLength: 20, maxLength: 700 }), (outputs) => {
      const estimate = learnedEstimate();
      learn(estimate, outputs, 16_384);
      const last = outputs.slice(-256).sort((one, other) => one - other);
      const expected = last[Math.floor((last.length * 9 + 9) / 10) - 1] as number;
      assert.equal(estimate.outputFor(CALL), Math.max(1, expected));
    }),
    { numRuns: 100 },
  );
});

test("never less than 1, never more than the call's own maximum", () => {
  const estimate = learnedEstimate();
  learn(
    estimate,
    Array.from({ length: 20 }, () => 0),
    1_000,
  );
  assert.equal(estimate.outputFor({ ...CALL, outputMax: 1_000 }), 1);
  const long = learnedEstimate();
  learn(
    long,
    Array.from({ length: 20 }, () => 900),
    1_000,
  );
  assert.equal(long.outputFor({ ...CALL, outputMax: 600 }), 600);
});

test("never more than a quarter of the smallest capacity would buy, by its weights", () => {
  const weights = weightsByModel({
    rpm: { requests: 1 },
    tpm: { input: 1, output: 1 },
    usd: { input: 0.25, output: 2 },
  })(RESOURCE);
  const limits = [
    Limit.perMinute("rpm", 1, { counts: "requests" }),
    Limit.perMinute("tpm", 10_000),
    Limit.quota("month", 12_000, { counts: "usd", reset: "monthly" }),
  ];
  const call = { ...CALL, limits, weights };
  // A quarter of 12,000 micro-dollars are 1,500 tokens of 2.
  assert.equal(learnedEstimate().outputFor(call), 1_500);
  assert.equal(learnedEstimate().outputFor({ ...call, limits: limits.slice(0, 2) }), 2_500);
  assert.equal(learnedEstimate({ shareMax: 1 }).outputFor(call), 6_000);
  assert.equal(learnedEstimate().outputFor({ ...call, limits: [Limit.perMinute("tpm", 1)] }), 1);
  // Nothing that it is charged to counts output.
  assert.equal(learnedEstimate().outputFor({ ...call, limits: limits.slice(0, 1) }), 16_384);
});

test("stats add up: estimated less actual is over less under", () => {
  const estimate = learnedEstimate();
  estimate.settled({ resource: "a", outputMax: 512, estimated: 500, actual: 300 });
  estimate.settled({ resource: "a", outputMax: undefined, estimated: 100, actual: 450 });
  estimate.settled({ resource: "b", outputMax: 512, estimated: 5, actual: 5 });
  assert.deepEqual(estimate.stats(), {
    a: { calls: 2, estimated: 600, actual: 750, over: 200, under: 350 },
    b: { calls: 1, estimated: 5, actual: 5, over: 0, under: 0 },
  });
});

test("options that are wrong are refused when it is made", () => {
  for (const [options, code] of [
    [{ quantile: 0 }, "options_invalid"],
    [{ quantile: 1.1 }, "options_invalid"],
    [{ shareMax: Number.NaN }, "options_invalid"],
    [{ quantil: 0.9 }, "option_unknown"],
  ] as const) {
    assert.throws(
      () => learnedEstimate(options as object),
      (error) => error instanceof ValidationError && error.code === code,
    );
  }
});

test("a bound leaves room for what else the call uses, exactly, and is never below 0", () => {
  const weights = weightsByModel({ usd: { input: 0.1, output: 0.3 } })(undefined);
  const limits = [Limit.quota("usd", 3, { reset: "monthly" })];
  const share = decimalOf(1);
  assert.equal(outputWithin({ limits, weights, share, besides: {} }), 10);
  assert.equal(outputWithin({ limits, weights, share, besides: { input: 3 } }), 9);
  assert.equal(outputWithin({ limits, weights, share, besides: { input: 1 } }), 9);
  assert.equal(outputWithin({ limits, weights, share, besides: { input: 100 } }), 0);
});
