import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import type { LeaseRecord } from "../../src/domain/lease-record.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { LeaseChange } from "../../src/ports/lease-change.ts";
import type { LeaseStore } from "../../src/ports/lease-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/overriding.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "../every-store.ts";
import { inSteps, type Mutant } from "./lease-world.ts";
import { playLeases } from "./play-leases.ts";

const SEEDS: Readonly<Record<string, number>> = { memory: 100, SQLite: 12, "conditional writes": 20 };

const STORES: readonly (readonly [
  name: string,
  seeds: number,
  open: (clock: SimulatedClock, t: TestContext) => Store,
])[] = [
  ...EVERY_STORE.flatMap(([name, openStore]) => {
    const seeds = SEEDS[name];
    return seeds === undefined
      ? []
      : [[name, seeds, (clock: SimulatedClock, t: TestContext) => openStore(clock, t).store] as const];
  }),
  ["memory, step by step", 50, () => inSteps(openMemory())],
];

describe("instances that die, are lost and meet on one lease", () => {
  for (const [name, seeds, open] of STORES) {
    test(`on ${name}: nothing is given back twice, and every lease that was answered is there`, async (t) => {
      let answered = 0;
      for (let seed = 1; seed <= seeds; seed++) {
        const report = await playLeases(seed, (clock) => open(clock, t));
        assert.deepEqual(report.violations, [], `seed ${seed}\n${report.steps.join("\n")}`);
        answered += report.answered;
      }
      // A world in which nothing happens proves nothing.
      assert.ok(answered > 3 * seeds, `only ${answered} leases were answered`);
    });
  }
});

/** Stores without a transaction over leases and buckets, wrong in one way each. */
const MUTANTS: Readonly<Record<string, Mutant>> = {
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
  return (leases) =>
    overriding(leases, {
      change: async (change, context) => {
        const before = await leases.get(change.leaseId);
        assert.ok(leases.change !== undefined);
        return leases.change(before === undefined ? change : other(change, before), context);
      },
    });
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

const FOUND_BY: readonly (readonly [string, Mutant, () => Store])[] = [
  ...Object.entries(MUTANTS).map(([what, mutant]) => [what, mutant, () => inSteps(openMemory())] as const),
  ...Object.entries(MUTANTS_AT_ONCE).map(([what, mutant]) => [what, mutant, () => openMemory()] as const),
];

describe("the simulation of leases finds a store that", () => {
  for (const [what, mutant, open] of FOUND_BY) {
    test(what, async () => {
      for (let seed = 1; seed <= 200; seed++) {
        const { violations } = await playLeases(seed, open, mutant);
        if (violations.length > 0) return;
      }
      assert.fail("200 seeds did not find it");
    });
  }
});
