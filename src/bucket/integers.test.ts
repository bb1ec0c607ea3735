import assert from "node:assert/strict";
import { test } from "node:test";
import { magnitude, safeInteger } from "../../test/limits/arbitraries.ts";
import { ceilDiv, floorDiv, lesser } from "../../test/limits/exact-bucket.ts";
import { fc } from "../../test/properties.ts";
import { addMulDiv, divCeil, divFloor, gapMulDivCeil, mulDivCeil, mulMod } from "./integers.ts";

const anySafe = fc.oneof(
  safeInteger,
  safeInteger.map((n) => 0 - n),
);
const divisor = magnitude(1, Number.MAX_SAFE_INTEGER);
const SAFE_MAX = BigInt(Number.MAX_SAFE_INTEGER);

function property<Values extends [unknown, ...unknown[]]>(
  arbitraries: { [K in keyof Values]: fc.Arbitrary<Values[K]> },
  check: (...values: Values) => void,
): void {
  fc.assert(fc.property(...arbitraries, check), { numRuns: 3000 });
}

test("half a token of debt is a whole token short, not none", () => {
  assert.equal(divFloor(-500, 1000), -1);
  assert.equal(divFloor(500, 1000), 0);
  assert.equal(divCeil(-500, 1000), 0);
  assert.equal(divCeil(500, 1000), 1);
});

test("ceiling never answers minus zero, which would not equal 0", () => {
  for (const a of [0, -1, -999]) assert.ok(Object.is(divCeil(a, 1000), 0), `divCeil(${a}, 1000)`);
});

test("division by a double is exact for every pair of safe integers, also the quotients next to a whole number", () => {
  property([anySafe, divisor], (a, b) => {
    assert.equal(BigInt(divFloor(a, b)), floorDiv(BigInt(a), BigInt(b)));
    assert.equal(BigInt(divCeil(a, b)), ceilDiv(BigInt(a), BigInt(b)));
  });
  // One below and one above a multiple, as large as they come: where rounding to the next double would show.
  property([divisor, divisor], (b, q) => {
    const near = Math.min(q, Math.floor(Number.MAX_SAFE_INTEGER / b)) * b;
    for (const a of [near - 1, near, -near, 1 - near, -near - 1].filter(Number.isSafeInteger)) {
      assert.equal(BigInt(divFloor(a, b)), floorDiv(BigInt(a), BigInt(b)));
      assert.equal(BigInt(divCeil(a, b)), ceilDiv(BigInt(a), BigInt(b)));
    }
  });
});

test("a level is exact however far its product passes 2^53 and however deep the debt", () => {
  property([anySafe, safeInteger, safeInteger, safeInteger, divisor, anySafe], (base, a, b, carry, d, ceiling) => {
    const sum = BigInt(base) + (BigInt(a) * BigInt(b) + BigInt(carry)) / BigInt(d);
    const expected = lesser(sum, BigInt(ceiling));
    assert.equal(BigInt(addMulDiv(base, a, b, carry, d, ceiling)), expected);
  });
});

test("a level is exact where the product passes 2^53 but its quotient does not", () => {
  // Divisors close to a factor: the second of the three ways, which arbitrary numbers seldom take.
  property([anySafe, safeInteger, magnitude(1, 2 ** 40), magnitude(0, 2 ** 40)], (base, a, d, carry) => {
    const b = Math.max(1, Math.floor(d / 3));
    const sum = BigInt(base) + (BigInt(a) * BigInt(b) + BigInt(carry)) / BigInt(d);
    const expected = lesser(sum, SAFE_MAX);
    assert.equal(BigInt(addMulDiv(base, a, b, carry, d, Number.MAX_SAFE_INTEGER)), expected);
  });
});

test("a remainder is exact however large its product", () => {
  property([safeInteger, safeInteger, safeInteger, divisor], (a, b, carry, d) => {
    assert.equal(BigInt(mulMod(a, b, carry, d)), (BigInt(a) * BigInt(b) + BigInt(carry)) % BigInt(d));
  });
});

test("a wait is rounded up exactly, and is Infinity only above the safe integers", () => {
  property([safeInteger, safeInteger, safeInteger, divisor], (a, b, taken, d) => {
    const carry = BigInt(a) * BigInt(b) < BigInt(taken) ? 0 : taken;
    const expected = ceilDiv(BigInt(a) * BigInt(b) - BigInt(carry), BigInt(d));
    const got = mulDivCeil(a, b, carry, d);
    if (expected > SAFE_MAX) assert.equal(got, Number.POSITIVE_INFINITY);
    else assert.equal(BigInt(got), expected);
  });
});

test("a wait is exact when its product passes 2^53 and the remainder brings it back below", () => {
  // 3 * 3002399751580331 = 2^53 + 1, which no double holds.
  assert.equal(mulDivCeil(3, 3002399751580331, 5, 1), 2 ** 53 - 4);
  property(
    [magnitude(1, 2 ** 30), fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 1, max: 2000 })],
    (a, over, carry) => {
      const b = Math.ceil(2 ** 53 / a) + over;
      const expected = BigInt(a) * BigInt(b) - BigInt(carry);
      if (expected <= SAFE_MAX) assert.equal(BigInt(mulDivCeil(a, b, carry, 1)), expected);
    },
  );
});

test("the wait from a deep debt to a large amount is exact although the gap is no safe integer", () => {
  property(
    [safeInteger, safeInteger, magnitude(1, 1e12), fc.integer({ min: 0, max: 1 }), divisor],
    (to, debt, b, carry, d) => {
      const gap = BigInt(to) + BigInt(debt);
      if (gap === 0n) return;
      const expected = ceilDiv(gap * BigInt(b) - BigInt(carry), BigInt(d));
      const got = gapMulDivCeil(to, 0 - debt, b, carry, d);
      if (expected > SAFE_MAX) assert.equal(got, Number.POSITIVE_INFINITY);
      else assert.equal(BigInt(got), expected);
    },
  );
});
