import assert from "node:assert/strict";
import { test } from "node:test";
import { andThen, run, runAsync, runSync, type Steps, waitFor } from "./steps.ts";

function* sumOf(...values: readonly (number | Promise<number>)[]): Steps<number> {
  let sum = 0;
  for (const value of values) sum += yield* waitFor(value);
  return sum;
}

test("the same steps run with promises and without", async () => {
  assert.equal(await runAsync(sumOf(1, Promise.resolve(2), 3)), 6);
  assert.equal(await runAsync(sumOf(1, 2, 3)), 6);
  assert.equal(runSync(sumOf(1, 2, 3)), 6);
});

test("a promise that is rejected can be caught by the steps that wait for it", async () => {
  function* careful(): Steps<string> {
    try {
      yield* waitFor(Promise.reject(new Error("down")));
      return "reached";
    } catch (error) {
      const later = yield* waitFor(Promise.resolve("later"));
      return `${(error as Error).message}, ${later}`;
    }
  }
  assert.equal(await runAsync(careful()), "down, later");
  await assert.rejects(runAsync(sumOf(1, Promise.reject(new Error("down")))), /down/);
});

test("steps that throw at once reject, and do not throw at the caller", async () => {
  // biome-ignore lint/correctness/useYield: it fails before it would wait
  function* failing(): Steps<never> {
    throw new Error("no");
  }
  await assert.rejects(runAsync(failing()), /no/);
  assert.throws(() => runSync(failing()), /no/);
});

test("a promise in synchronous steps is a fault of the store, and is said to be one", () => {
  assert.throws(() => runSync(sumOf(1, Promise.resolve(2))), /answered with a promise/);
});

test("what runs is answered at once where nothing has to be waited for, and by a promise otherwise", async () => {
  assert.equal(run(sumOf(1, 2, 3)), 6);
  assert.equal(await run(sumOf(1, Promise.resolve(2), 3)), 6);
  const doubled = (value: number) => 2 * value;
  assert.equal(andThen(3, doubled), 6);
  assert.equal(await andThen(Promise.resolve(3), doubled), 6);
});

test("what is thrown before the first wait is thrown, and after it rejects", async () => {
  function* failing(value: number | Promise<number>): Steps<never> {
    yield* waitFor(value);
    throw new Error("down");
  }
  assert.throws(() => run(failing(1)), /down/);
  await assert.rejects(async () => run(failing(Promise.resolve(1))), /down/);
});
