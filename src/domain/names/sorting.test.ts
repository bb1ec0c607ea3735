import assert from "node:assert/strict";
import { test } from "node:test";
import { sortedByTurns } from "./sorting.ts";

const compare = (a: number, b: number): number => a - b;

test("keys are in order whatever their number, long lists with turns for others in between", async () => {
  for (const count of [0, 1, 2_047, 2_048, 2_049, 4_096, 10_000, 60_001]) {
    const keys = Array.from({ length: count }, (_, i) => (i * 7_919) % 100_003);
    let turns = 0;
    const sorted = sortedByTurns(new Set(keys), compare, async () => {
      turns++;
    });
    assert.equal(sorted instanceof Promise, count >= 2_048, `${count} keys`);
    assert.deepEqual(await sorted, keys.toSorted(compare), `${count} keys`);
    assert.ok(turns >= Math.floor(count / 2_048), `${turns} turns for ${count} keys`);
  }
});

test("keys that come and go while a long list is sorted leave the others in order, each once", async () => {
  const keys = new Map(Array.from({ length: 10_000 }, (_, i) => [i * 2, true]));
  let turns = 0;
  const sorted = await sortedByTurns(keys.keys(), compare, async () => {
    turns++;
    keys.set(turns * 2 + 1, true);
    keys.delete(20_000 - turns * 2);
  });
  assert.deepEqual(sorted, sorted.toSorted(compare));
  assert.equal(new Set(sorted).size, sorted.length);
  for (let i = 0; i < 9_000; i++) assert.ok(keys.has(i * 2));
  assert.equal(sorted.filter((key) => key % 2 === 0 && key < 18_000).length, 9_000);
});
