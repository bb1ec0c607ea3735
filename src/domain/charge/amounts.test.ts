import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../bucket/bucket-key.ts";
import { Limit } from "../limits/limit.ts";
import { ValidationError } from "../names/errors.ts";
import { type AmountUse, amountsOf, type Tokens, topUpAmounts } from "./amounts.ts";

const limits = [Limit.perMinute("rpm", 100), Limit.perMinute("tpm", 10_000)];
const bucket = bucketKey("key-1", "gpt-4");
const check = (tokens: unknown, use: AmountUse) =>
  use === "topUp" ? topUpAmounts(tokens as Tokens, bucket, limits) : amountsOf(tokens as Tokens, use);

function refused(tokens: unknown, use: AmountUse, code: string, why: RegExp): void {
  assert.throws(
    () => check(tokens, use),
    (error) => {
      assert.ok(error instanceof ValidationError, String(error));
      assert.equal(error.code, code);
      assert.match(error.message, why);
      return true;
    },
  );
}

test("tokens become millitokens once, in the order in which they were written", () => {
  assert.deepEqual(check({ tpm: 500, rpm: 1 }, "consume"), [
    { limit: "tpm", milli: 500_000 },
    { limit: "rpm", milli: 1_000 },
  ]);
});

test("a limit named with 0 is asked", () => {
  assert.deepEqual(check({ rpm: 0 }, "consume"), [{ limit: "rpm", milli: 0 }]);
  assert.ok(Object.is(check({ rpm: -0 }, "consume")[0]?.milli, 0));
});

test("an amount that was forgotten does not pass unchecked, whoever forgot it", () => {
  for (const use of ["consume", "adjust", "release", "settle", "topUp"] as const) {
    for (const value of [undefined, null]) {
      refused({ rpm: 1, tpm: value }, use, "amount_invalid", /"tpm" is (undefined|null).*or leave it out/);
    }
  }
});

test("to top up nothing at all is refused; to adjust or release by nothing changes nothing", () => {
  refused({}, "topUp", "consume_empty", /The top-up of key-1 on gpt-4 names no limit; name at least one of rpm, tpm/);
  assert.deepEqual(check({}, "adjust"), []);
  assert.deepEqual(check({}, "release"), []);
});

test("what is bought is named by limit, and a misspelled one is refused with the ones there are, and the nearest", () => {
  refused({ rmp: 1 }, "topUp", "limit_unknown", /No limit "rmp" applies to key-1 on gpt-4; known limits: rpm, tpm/);
  refused({ rmp: 1 }, "topUp", "limit_unknown", /Did you mean `rpm`\?/);
  refused(JSON.parse('{"__proto__": 1}'), "topUp", "limit_unknown", /"__proto__"/);
  refused({ constructor: 1 }, "topUp", "limit_unknown", /"constructor"/);
});

test("amounts are whole numbers of tokens, whoever asks", () => {
  for (const use of ["consume", "adjust", "release"] as const) {
    for (const value of [0.5, Number.NaN, Number.POSITIVE_INFINITY, "1", null, 1n, {}, 9_000_000_000_001]) {
      refused({ rpm: value }, use, "amount_invalid", new RegExp(`^${use} of "rpm" is `));
    }
  }
});

test("only an adjustment may be negative", () => {
  assert.deepEqual(check({ rpm: -7 }, "adjust"), [{ limit: "rpm", milli: -7_000 }]);
  refused({ rpm: -1 }, "consume", "amount_invalid", /from 0 to/);
  refused({ rpm: -1 }, "release", "amount_invalid", /from 0 to/);
  refused({ rpm: -9_000_000_000_001 }, "adjust", "amount_invalid", /from -9000000000000 to/);
});

test("more than the capacity is a valid amount: only the bucket can tell whether it is ever granted", () => {
  for (const use of ["consume", "adjust", "release"] as const)
    assert.equal(check({ rpm: 101 }, use)[0]?.milli, 101_000);
});

test("amounts that are no object at all are refused with their value", () => {
  for (const tokens of [undefined, null, 5, "rpm", [1], true]) {
    refused(tokens, "consume", "amounts_invalid", /must be an object of names/);
  }
});
