import { ConfigCache } from "../../src/engine/acquire/config-cache.ts";
import { DenyMemory } from "../../src/engine/acquire/deny-memory.ts";
import { Planner } from "../../src/engine/acquire/planner.ts";
import type { Taken } from "../../src/engine/acquire/store-client.ts";
import { LeaseResource } from "../../src/engine/lease/lease-resource.ts";
import { WaitingRoom } from "../../src/engine/outage/waiting.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { ScopedRecords } from "../../src/records/scoped-records.ts";
import type { Mutant } from "./mutants.ts";

/** What was seen too long ago to be remembered. */
export const TOO_OLD = /refuses as it was \d+ ms ago, and is remembered for \d+/;

const OLD_ANSWER = /was answered by old configuration/;

/** As long again as a process on conditional writes remembers what it saw. */
export const LONGER_MS = 1_000;

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
  "a refusal that the engine remembers for longer than it may": {
    layer: "code",
    caughtAs: TOO_OLD,
    spoil: () => {
      const { recall } = DenyMemory.prototype;
      return without(
        DenyMemory.prototype,
        "recall",
        function (this: DenyMemory, claims: readonly Claim[], nowMs: number) {
          return recall.call(this, claims, nowMs) ?? recall.call(this, claims, nowMs - LONGER_MS);
        },
      );
    },
  },
};

/** What is remembered answers where the store must be asked. */
export const QUESTION_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a question that goes by what is remembered": {
    layer: "code",
    caughtAs: OLD_ANSWER,
    spoil: () => {
      const { chain } = ConfigCache.prototype;
      return without(
        ConfigCache.prototype,
        "chain",
        function (this: ConfigCache, ...[entityId, resource, nowMs, mode, how, since]: Parameters<typeof chain>) {
          return chain.call(this, entityId, resource, nowMs, mode, since === undefined ? how : "any");
        },
      );
    },
  },
};

/** The same, where only the buckets of a request tell what changed. */
export const TOLD_OFF_MUTANTS: Readonly<Record<string, Mutant>> = {
  "an amount that is said never to fit by what is remembered": {
    layer: "code",
    caughtAs: /was told off by old configuration/,
    spoil: () => without(Planner.prototype, "certain", (taken: Taken) => taken),
  },
};

/** The same, where the store counts its changes and is not asked how many there are. */
export const COUNTED_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a question that does not ask whether anything changed": {
    layer: "code",
    caughtAs: OLD_ANSWER,
    spoil: () => without(ScopedRecords.prototype, "askGeneration", () => Promise.resolve()),
  },
};

/** Another method in the place of one; answers how to put it back. */
export function without(of: object, name: string, instead: (...args: never[]) => unknown): () => void {
  const before = Object.getOwnPropertyDescriptor(of, name);
  if (before === undefined) throw new RangeError(`There is no method ${name} to spoil.`);
  Object.defineProperty(of, name, { ...before, value: instead });
  return () => Object.defineProperty(of, name, before);
}
