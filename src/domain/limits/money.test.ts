import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { ValidationError } from "../names/errors.ts";
import { amountShown, isMoney } from "./durations.ts";
import { TOKENS_MAX } from "./limit-numbers.ts";
import { usd, usdText } from "./money.ts";

const isRefused = (error: unknown) => error instanceof ValidationError && error.code === "money_invalid";

test("dollars become whole micro-dollars, written as a number or as a text", () => {
  for (const [amount, micro] of [
    ["0.25", 250_000],
    [0.25, 250_000],
    [50, 50_000_000],
    ["50", 50_000_000],
    ["50.00", 50_000_000],
    [0, 0],
    [0.1, 100_000],
    [1.1, 1_100_000],
    // In floats, times a million, this is 1005000.0000000001.
    [1.005, 1_005_000],
    [0.000001, 1],
    ["0.000001", 1],
    ["007.5", 7_500_000],
    [9_000_000, TOKENS_MAX],
  ] as const) {
    assert.equal(usd(amount), micro, String(amount));
  }
});

test("what is no amount of money is refused, with the value", () => {
  const wrong = [
    ...["0.0000001", 0.0000001, 0.1 + 0.2, -1, "-1", "", " 1", "1 ", "$1", "1,000", "1_000", "1e3", ".5", "5.", "many"],
    ...[Number.NaN, Number.POSITIVE_INFINITY, 1e21, 9_000_000.000001, "9000000.000001", undefined, null, 5n, {}],
  ];
  for (const amount of wrong) assert.throws(() => usd(amount as number), isRefused, String(amount));
  assert.throws(() => usd("12,50"), /usd was given "12,50"; give US dollars .* usd\("0\.25"\)/);
});

test("micro-dollars are written with two decimals, or as many as it needs", () => {
  for (const [micro, text] of [
    [250_000, "$0.25"],
    [0, "$0.00"],
    [-0, "$0.00"],
    [50_000_000, "$50.00"],
    [1_500_000, "$1.50"],
    [-1_500_000, "-$1.50"],
    [1, "$0.000001"],
    [-10, "-$0.00001"],
    [1_234_500, "$1.2345"],
    [1_230_000, "$1.23"],
    [TOKENS_MAX, "$9000000.00"],
  ] as const) {
    assert.equal(usdText(micro), text);
  }
  for (const micro of [0.5, Number.NaN, Number.POSITIVE_INFINITY, "1"]) {
    assert.throws(() => usdText(micro as number), isRefused);
  }
});

test("every amount is what it is written as, there and back", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: TOKENS_MAX }), (micro) => {
      const [whole = "", decimals = ""] = usdText(micro).slice(1).split(".");
      assert.equal(BigInt(whole) * 1_000_000n + BigInt(decimals.padEnd(6, "0")), BigInt(micro));
      assert.ok(decimals.length === 2 || !decimals.endsWith("0"));
      assert.equal(usd(usdText(micro).slice(1)), micro);
      assert.equal(usdText(-micro), micro === 0 ? "$0.00" : `-${usdText(micro)}`);
    }),
  );
});

test("a limit is money by its name", () => {
  assert.deepEqual(["usd", "team_usd", "_usd"].map(isMoney), [true, true, true]);
  assert.deepEqual(["usda", "musd", "USD", "usd_in", "tpm", "team-usd"].map(isMoney), Array(6).fill(false));
  assert.equal(amountShown("usd", 2_500_000, String), "$2.50");
  assert.equal(amountShown("tpm", 2_500_000, String), "2500000");
  assert.equal(amountShown("usd", Number.POSITIVE_INFINITY, String), "Infinity");
});
