import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import type { LeaseChange, LeaseStore } from "../../src/ports/lease-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { seeds } from "../depth.ts";
import { seedsFrom } from "../simulation/catching.ts";
import { GROUNDS, type OpenGround, scoped } from "./lease-grounds.ts";
import type { Mutant } from "./lease-world.ts";
import { playLeases } from "./play-leases.ts";

/** The seeds that found these bugs when this was written; where worlds are drawn differently since, the others are searched. */
const CAUGHT_BY: Readonly<Record<string, number>> = {
  "moves a record whatever its version": 8,
  "changes a record whatever its version": 5,
  "forgets the answer under the key of a change": 8,
  "does a change again when it is repeated": 33,
  "gives back what was taken in an earlier period": 25,
  "loses what is given back to a bucket in shards": 13,
};

const SEEDS: Readonly<Record<string, readonly number[]>> = {
  memory: seeds(10, 250),
  SQLite: seeds(3, 50),
  "conditional writes": seeds(8, 150),
  "memory, step by step": seeds(6, 120),
};

describe("instances that die, are lost and meet on one lease", () => {
  for (const [name, played] of Object.entries(SEEDS)) {
    test(`on ${name}: nothing is given back twice, and every lease that was answered is there`, async () => {
      let answered = 0;
      const tally: Record<string, number> = {};
      for (const seed of played) {
        const report = await playLeases(seed, GROUNDS[name] as OpenGround);
        assert.deepEqual(report.violations, [], `seed ${seed}\n${report.steps.join("\n")}`);
        answered += report.answered;
        for (const [what, times] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + times;
      }
      // A world in which nothing happens proves nothing.
      assert.ok(answered > 3 * played.length, `only ${answered} leases were answered`);
      const due =
        name === "conditional writes"
          ? ["ended", "refused", "reset", "split", "joined"]
          : ["ended", "refused", "reset"];
      for (const what of due)
        assert.ok((tally[what] ?? 0) >= Math.floor(played.length / 12), `${what}: only ${tally[what]} times`);
    });
  }
});

/** A store whose leases are wrong in one way. */
function ofLeases(other: (leases: LeaseStore) => LeaseStore): Mutant {
  return (scope) => ({ ...scope, leases: other(scope.leases) });
}

/** Stores without a transaction over leases and buckets, wrong in one way each. */
const MUTANTS: Readonly<Record<string, (leases: LeaseStore) => LeaseStore>> = {
  "moves a record whatever its version": (leases) => {
    const force = async (next: Parameters<LeaseStore["move"]>[0], ...rest: [never, never]) => {
      const now = await leases.get(next.leaseId);
      return leases.move({ ...next, version: (now?.version ?? 0) + 1 }, ...rest);
    };
    return overriding(leases, { move: force as LeaseStore["move"] });
  },
  "answers that a lease is stored, and does not store it": (leases) =>
    overriding(leases, { create: () => ({ kind: "stored" }) }),
  "lets a second work under a key that is under way": (leases) =>
    overriding(leases, {
      beginKey: async (begin) => {
        const reply = await leases.beginKey(begin);
        return reply.kind === "known" && reply.record.answer === undefined ? { kind: "begun" } : reply;
      },
      create: async (write, nowMs) => {
        const reply = await leases.create(write, nowMs);
        return reply.kind === "keyLost" ? leases.create({ ...write, finish: undefined }, nowMs) : reply;
      },
    }),
  "forgets the answer under a key": (leases) =>
    overriding(leases, {
      create: ({ record }, nowMs) => leases.create({ record, finish: undefined }, nowMs),
    }),
  "answers that a move is stored, and does not store it": (leases) =>
    overriding(leases, { move: () => ({ kind: "stored" }) }),
};

/** A store that has every change handed over in another form. */
function changing(other: (change: LeaseChange, before: LeaseRecord) => LeaseChange): Mutant {
  return ofLeases((leases) =>
    overriding(leases, {
      change: async (change, context) => {
        const before = await leases.get(change.leaseId);
        assert.ok(leases.change !== undefined);
        return leases.change(before === undefined ? change : other(change, before), context);
      },
    }),
  );
}

/** Stores whose transaction covers leases and buckets, wrong in one way each. */
const MUTANTS_AT_ONCE: Readonly<Record<string, Mutant>> = {
  "changes a record whatever its version": changing((change, { version }) => ({
    ...change,
    version,
    writeOf: (charged) => {
      const { record, finish } = change.writeOf(charged);
      return { record: { ...record, version: version + 1 }, finish };
    },
  })),
  "forgets the answer under the key of a change": changing((change) => ({
    ...change,
    writeOf: (charged) => ({ ...change.writeOf(charged), finish: undefined }),
  })),
  "changes the record of a lease and gives nothing back": changing((change) =>
    change.moves.kind === "take" ? change : { ...change, moves: { ...change.moves, credits: [] } },
  ),
  "charges for a lease and does not write it down": changing((change, before) => ({
    ...change,
    writeOf: (charged) => {
      const { record, finish } = change.writeOf(charged);
      return { record: { ...before, version: record.version, writer: record.writer }, finish };
    },
  })),
  "does a change again when it is repeated": changing((change, before) => ({
    ...change,
    version: before.writer === change.writer ? before.version : change.version,
    writeOf: (charged) => {
      const { record, finish } = change.writeOf(charged);
      return { record: { ...record, version: before.version + 1 }, finish };
    },
  })),
};

/** Stores whose buckets are wrong in one way each. */
const MUTANTS_OF_BUCKETS: Readonly<Record<string, Mutant>> = {
  "gives back what was taken in an earlier period": ({ buckets, ...rest }) => ({
    ...rest,
    buckets: overriding(buckets, {
      credit: (held, ...more) => buckets.credit({ ...held, ticket: PLAIN_TICKET }, ...more),
    }),
  }),
  "hands out the same tickets after a reset as before it": ({ buckets, ...rest }) => ({
    ...rest,
    buckets: overriding(buckets, {
      take: async (...asked) => {
        const reply = await buckets.take(...asked);
        if (reply === "stale") return reply;
        return reply.map((answer) =>
          answer.kind !== "taken"
            ? answer
            : {
                ...answer,
                ticket: { ...answer.ticket, pins: answer.ticket.pins.map((pin) => ({ ...pin, resets: 0 })) },
              },
        );
      },
    }),
  }),
};

/** Conditional writes that lose what is given back to a bucket in shards. */
const losing: OpenGround = (clock, seed) => {
  const ground = (GROUNDS["conditional writes"] as OpenGround)(clock, seed);
  const lossy: Mutant = ({ buckets, ...rest }) => ({
    ...rest,
    buckets: overriding(buckets, {
      credit: (held, ...more) =>
        ground.stored(held.bucket).length > 1 ? { kind: "gone" } : buckets.credit(held, ...more),
    }),
  });
  return {
    ...ground,
    open: (pause) => {
      const process = ground.open(pause);
      return { ...process, store: scoped(process.store, lossy) };
    },
  };
};

const [memory, steps] = [GROUNDS.memory as OpenGround, GROUNDS["memory, step by step"] as OpenGround];

const FOUND_BY: readonly (readonly [string, Mutant | undefined, OpenGround])[] = [
  ...Object.entries(MUTANTS).map(([what, mutant]) => [what, ofLeases(mutant), steps] as const),
  ...Object.entries(MUTANTS_AT_ONCE).map(([what, mutant]) => [what, mutant, memory] as const),
  ...Object.entries(MUTANTS_OF_BUCKETS).map(([what, mutant]) => [what, mutant, steps] as const),
  ["loses what is given back to a bucket in shards", undefined, losing],
];

describe("the simulation of leases finds a store that", () => {
  for (const [what, mutant, ground] of FOUND_BY) {
    test(what, async () => {
      for (const seed of seedsFrom(CAUGHT_BY[what], 200)) {
        const { violations } = await playLeases(seed, ground, mutant);
        if (violations.length > 0) return;
      }
      assert.fail("200 seeds did not find it");
    });
  }
});
