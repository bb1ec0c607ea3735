import assert from "node:assert/strict";
import { test } from "node:test";
import { SeededRandom } from "./random.ts";

const draw = (random: SeededRandom, count: number) => Array.from({ length: count }, () => random.next());

test("a seed gives the same numbers again, and its neighbour others from the first on", () => {
  assert.deepEqual(draw(new SeededRandom(42), 100), draw(new SeededRandom(42), 100));
  const firsts = Array.from({ length: 1_000 }, (_, seed) => new SeededRandom(seed).next());
  assert.equal(new Set(firsts).size, 1_000);
  assert.notEqual(new SeededRandom(1).next(), new SeededRandom(1 + 2 ** 32).next());
});

test("whole numbers reach both ends of their range and nothing beyond, each about as often", () => {
  const random = new SeededRandom(1);
  const counts = new Map<number, number>();
  for (let i = 0; i < 6_000; i++) {
    const number = random.integer(-1, 4);
    counts.set(number, (counts.get(number) ?? 0) + 1);
  }
  assert.deepEqual([...counts.keys()].sort(), [-1, 0, 1, 2, 3, 4].sort());
  for (const count of counts.values()) assert.ok(count > 850 && count < 1_150, `${count} of 6000`);
});

test("a weight of nothing is never chosen, and a list of nothing is an error", () => {
  const random = new SeededRandom(1);
  for (let i = 0; i < 1_000; i++) {
    const chosen = random.weighted([
      [0, "never"],
      [2, "often"],
      [1, "rarely"],
      [0, "never"],
    ]);
    assert.notEqual(chosen, "never");
  }
  assert.throws(() => random.weighted([[0, "never"]]), RangeError);
  assert.throws(() => random.pick([]), RangeError);
});

test("ids never come twice, and a fork goes its own way", () => {
  const random = new SeededRandom(1);
  assert.equal(new Set(Array.from({ length: 1_000 }, () => random.id())).size, 1_000);
  const [one, other] = [new SeededRandom(5), new SeededRandom(5)];
  const fork = one.fork();
  other.fork();
  draw(fork, 10);
  assert.deepEqual(draw(one, 10), draw(other, 10));
  assert.notDeepEqual(draw(fork, 10), draw(other, 10));
});
