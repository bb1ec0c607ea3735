import type { MaybePromise } from "../ports/bucket-store.ts";

/**
 * Work that is written once and runs with and without promises: a generator that hands out each promise it has to wait for
 * and is resumed with its value. Where every store call answers at once, it hands out none.
 */
export type Steps<Value> = Generator<Promise<unknown>, Value, unknown>;

/** Whether the calls of some steps may answer with promises. */
export type Mode = "sync" | "async";

/** The value, waited for if it is a promise: `const chain = yield* waitFor(cache.load(id))`. */
export function* waitFor<Value>(value: MaybePromise<Value>): Steps<Value> {
  return value instanceof Promise ? ((yield value) as Value) : value;
}

/** Runs steps to their end. What they throw rejects the promise. */
export async function runAsync<Value>(steps: Steps<Value>): Promise<Value> {
  let step = steps.next();
  while (!step.done) {
    let value: unknown;
    try {
      value = await step.value;
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(value);
  }
  return step.value;
}

/** Runs steps in the mode "sync" to their end. */
export function runSync<Value>(steps: Steps<Value>): Value {
  const step = steps.next();
  if (!step.done) throw new TypeError("A store that answers synchronously has answered with a promise.");
  return step.value;
}
