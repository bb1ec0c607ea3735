import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openMemory } from "../../src/entry/memory.ts";
import type { LeaseStore } from "../../src/ports/lease-store.ts";
import { overriding } from "../../src/testing/overriding.ts";
import { EVERY_STORE } from "../every-store.ts";
import type { Mutant } from "./lease-world.ts";
import { playLeases } from "./play-leases.ts";

const SEEDS: Readonly<Record<string, number>> = { memory: 100, SQLite: 12, "conditional writes": 20 };

describe("instances that die, are lost and meet on one lease", () => {
  for (const [name, openStore] of EVERY_STORE) {
    const seeds = SEEDS[name];
    if (seeds === undefined) continue;
    test(`on ${name}: nothing is given back twice, and every lease that was answered is there`, async (t) => {
      let answered = 0;
      for (let seed = 1; seed <= seeds; seed++) {
        const report = await playLeases(seed, (clock) => openStore(clock, t).store);
        assert.deepEqual(report.violations, [], `seed ${seed}\n${report.steps.join("\n")}`);
        answered += report.answered;
      }
      // A world in which nothing happens proves nothing.
      assert.ok(answered > 3 * seeds, `only ${answered} leases were answered`);
    });
  }
});

/** Stores that are wrong in one way each. */
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

describe("the simulation of leases finds a store that", () => {
  for (const [what, mutant] of Object.entries(MUTANTS)) {
    test(what, async () => {
      for (let seed = 1; seed <= 200; seed++) {
        const { violations } = await playLeases(seed, () => openMemory(), mutant);
        if (violations.length > 0) return;
      }
      assert.fail("200 seeds did not find it");
    });
  }
});
