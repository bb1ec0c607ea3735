import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../test/properties.ts";
import { type Count, countOfText, plus, tokensOfCount } from "./integers.ts";

test("a sum of counts is exact past 2^53, and a number again where it comes back below", () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt({ min: -(10n ** 17n), max: 10n ** 17n }), { maxLength: 20 }), (amounts) => {
      let sum: Count = 0;
      let exact = 0n;
      for (const amount of amounts) {
        sum = plus(sum, countOfText(String(amount)) as Count);
        exact += amount;
      }
      assert.equal(BigInt(sum), exact);
      assert.equal(typeof sum === "number", Number.isSafeInteger(Number(exact)));
    }),
  );
});

test("18,000,000,000,000 tokens counted in an hour are shown as that many, to the token", () => {
  const counted = plus(9_000_000_000_000_000, 9_000_000_000_001_000);
  assert.equal(counted, 18_000_000_000_001_000n);
  assert.equal(tokensOfCount(counted), 18_000_000_000_001);
});

test("a text that is no whole number is no count", () => {
  for (const text of ["", "1.5", "1e3", "NaN", "0x10", " 1", "1n"]) assert.equal(countOfText(text), undefined, text);
  assert.equal(countOfText("-5"), -5);
});
