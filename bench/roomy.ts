import { Limit } from "../src/entry/index.ts";

/**
 * A limit for takes that are timed. It holds so much that nothing is refused; it drips so slowly that it is never full, and that what
 * dripped in since it was first used stays below 2^53 when it is worked out. With a billion a minute that product passes 2^53 after
 * 9 seconds, and all takes after it need the longer arithmetic: a bench would be slower at its end than at its beginning.
 */
export function roomyLimit(name: string): Limit {
  return Limit.perMinute(name, 60_000, { burst: 1_000_000_000 });
}
