import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../test/properties.ts";
import { Histogram } from "./histogram.ts";

test("a percentile is never below the true one, and at most a hundredth above", () => {
  const micros = fc.array(fc.integer({ min: 0, max: 100_000_000 }), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(micros, fc.constantFrom(0.5, 0.9, 0.99, 1), (all, share) => {
      const histogram = new Histogram();
      for (const each of all) histogram.record(each);
      const exact = [...all].sort((a, b) => a - b)[Math.ceil(all.length * share) - 1] as number;
      const told = histogram.percentileMicros(share);
      assert.ok(told >= exact && told <= exact * 1.01 + 1, `${told} for ${exact}`);
    }),
  );
});

test("histograms of several processes add up to that of all", () => {
  const [whole, sum] = [new Histogram(), new Histogram()];
  for (const part of [[1, 300, 5_000], [70_000], []]) {
    const own = new Histogram();
    for (const micros of part) {
      own.record(micros);
      whole.record(micros);
    }
    sum.add(own.counts());
  }
  assert.deepEqual(sum.counts(), whole.counts());
  assert.equal(sum.total, 4);
  assert.equal(sum.maxMicros, 70_000);
  assert.equal(new Histogram().percentileMicros(0.5), 0);
});
