/**
 * Work that is written once and runs with and without promises: a generator that hands out each promise it has to wait for
 * and is resumed with its value. Where every store call answers at once, it hands out none.
 */
export type Steps<Value> = Generator<Promise<unknown>, Value, unknown>;

/** Whether the calls of some steps may answer with promises. */
export type Mode = "sync" | "async";

/**
 * The value, waited for if it is a promise: `const chain = yield* waitFor(cache.load(id))`. It is one more generator, so that what every take
 * waits for is written out instead.
 */
export function* waitFor<Value>(value: Value | Promise<Value>): Steps<Value> {
  return value instanceof Promise ? ((yield value) as Value) : value;
}

/** Calls `next` with a value: at once where it is there, and otherwise once it is. */
export function andThen<Value, Next>(
  value: Value | Promise<Value>,
  next: (value: Value) => Next | Promise<Next>,
): Next | Promise<Next> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** Runs steps to their end: at once where they hand out no promise, and what they throw is thrown. */
export function run<Value>(steps: Steps<Value>): Value | Promise<Value> {
  const first = steps.next();
  return first.done ? first.value : runAsyncOr(steps, rejected, first);
}

/** Runs steps to their end. What they throw rejects the promise. */
export function runAsync<Value>(steps: Steps<Value>): Promise<Value> {
  return runAsyncOr(steps, rejected);
}

function rejected(error: unknown): Promise<never> {
  return Promise.reject(error);
}

/** Runs steps to their end. What they throw goes to `failed`, which costs less than a `catch` on the promise of every call. */
export async function runAsyncOr<Value>(
  steps: Steps<Value>,
  failed: (error: unknown) => Promise<Value>,
  first?: IteratorYieldResult<Promise<unknown>>,
): Promise<Value> {
  try {
    let step = first ?? steps.next();
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
  } catch (error) {
    return failed(error);
  }
}

/** Runs steps in the mode "sync" to their end. */
export function runSync<Value>(steps: Steps<Value>): Value {
  const step = steps.next();
  if (!step.done) throw new TypeError("A store that answers synchronously has answered with a promise.");
  return step.value;
}
