import assert from "node:assert/strict";
import { test } from "node:test";
import { safeInteger } from "../../test/limits/arbitraries.ts";
import { fc } from "../../test/properties.ts";
import { share } from "./balance.ts";

function shares(whole: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => share(whole, index, count));
}

test("ten over four shards is 2, 3, 2, 3: nothing is lost to rounding", () => {
  assert.deepEqual(shares(10, 4), [2, 3, 2, 3]);
});

test("ten over sixteen shards leaves some with nothing, and the rest still add up to ten", () => {
  assert.deepEqual(shares(10, 16), [0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1]);
});

test("one shard has all", () => {
  assert.deepEqual(shares(Number.MAX_SAFE_INTEGER, 1), [Number.MAX_SAFE_INTEGER]);
});

test("shares add up exactly and differ by at most one, for any whole and any number of shards", () => {
  fc.assert(
    fc.property(safeInteger, fc.integer({ min: 1, max: 64 }), (whole, count) => {
      const parts = shares(whole, count);
      assert.equal(
        parts.reduce((sum, part) => sum + BigInt(part), 0n),
        BigInt(whole),
      );
      const even = BigInt(whole) / BigInt(count);
      for (const part of parts) assert.ok(BigInt(part) === even || BigInt(part) === even + 1n, `${part} of ${whole}`);
    }),
    { numRuns: 1000 },
  );
});
