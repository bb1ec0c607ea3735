import { LeaseResource } from "../../src/engine/lease-resource.ts";
import { WaitingRoom } from "../../src/engine/waiting.ts";
import type { Mutant } from "./mutants.ts";

/** Deliberate bugs in the engine itself: it is the code that is played, with one method that does nothing. */
export const CODE_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a give-back that wakes no one who waits": {
    layer: "code",
    caughtAs: /granted \d+ ms after all was back/,
    spoil: () => without(WaitingRoom.prototype, "wakeHeads", () => {}),
  },
  "a settle that leaves out what is not stored yet": {
    layer: "code",
    caughtAs: /was told of \d+ of \w+, but charged \d+/,
    spoil: () => without(LeaseResource.prototype as never, "flushPendingDebits", () => Promise.resolve()),
  },
};

/** Another method in the place of one; answers how to put it back. */
export function without(of: object, name: string, instead: (...args: never[]) => unknown): () => void {
  const before = Object.getOwnPropertyDescriptor(of, name);
  if (before === undefined) throw new RangeError(`There is no method ${name} to spoil.`);
  Object.defineProperty(of, name, { ...before, value: instead });
  return () => Object.defineProperty(of, name, before);
}
