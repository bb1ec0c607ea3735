import type { MaybePromise } from "../../src/ports/bucket-store.ts";

export { overriding } from "../../src/testing/fault-store.ts";

/** What a store answers at once, without a promise. */
export function atOnce<Value>(value: MaybePromise<Value>): Value {
  if (value instanceof Promise) throw new TypeError("This store answers with a promise where it was not expected to.");
  return value;
}

/** Reports a reply before the caller gets it. */
export function heard<Reply>(reply: MaybePromise<Reply>, tell: (reply: Reply) => void): MaybePromise<Reply> {
  const told = (settled: Reply): Reply => {
    tell(settled);
    return settled;
  };
  return reply instanceof Promise ? reply.then(told) : told(reply);
}

/** A reply with something else in its place. */
export function changedReply<Reply, Other>(
  reply: MaybePromise<Reply>,
  change: (reply: Reply) => Other,
): MaybePromise<Other> {
  return reply instanceof Promise ? reply.then(change) : change(reply);
}
