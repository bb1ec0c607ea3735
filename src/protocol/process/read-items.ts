import type { Item, ItemKey } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { drive } from "./drive.ts";
import type { Machine, ReadAction } from "./machine.ts";
import type { RetryPolicy } from "./retry-policy.ts";

/** Items as they stand now, readable or not, in the order of the keys. Throws `RateLimiterUnavailable` where they cannot be read. */
export function readItems(
  context: ProtocolContext,
  keys: readonly ItemKey[],
  policy: RetryPolicy,
): Promise<readonly (Item | undefined)[]> {
  const atMs = context.clock.now();
  const read: ReadAction = { do: "read", keys, consistent: true, atMs, sets: undefined, raw: true };
  return readOnce(context, read, Number.POSITIVE_INFINITY, policy);
}

/** One read, which is not repeated. */
export function readOnce(
  context: ProtocolContext,
  read: ReadAction,
  untilMs: number,
  policy: RetryPolicy,
): Promise<readonly (Item | undefined)[]> {
  type Found = readonly (Item | undefined)[];
  const machine: Machine<Found | "unread", ReadAction, Found> = {
    ended: (progress) => (progress === "unread" ? undefined : { result: progress }),
    next: () => read,
    on: (progress, _, event) => {
      if (event.kind === "unread") throw event.cause;
      return event.kind === "read" ? event.items : progress;
    },
    untilMs: () => untilMs,
    throttled: () => {},
  };
  return drive(machine, "unread", { policy, attemptsMax: 1, caller: undefined }, context);
}
