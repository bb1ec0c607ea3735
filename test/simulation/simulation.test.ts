import assert from "node:assert/strict";
import { test } from "node:test";
import { atDepth } from "../depth.ts";
import { type SeedReport, simulate } from "./simulation.ts";
import { assertSound } from "./sound.ts";
import { openFor, type StoreKind } from "./stores.ts";

test("worlds on the memory store keep the promise at every step", () =>
  assertSound({ store: "memory", quick: 45, deep: 1_500, least: LEAST_ON_MEMORY }));

const LEAST_ON_MEMORY: Readonly<Record<string, number>> = {
  "claims taken": 16_000,
  "claims short": 2_700,
  "claims skipped": 1_000,
  "give-backs": 5_000,
  debits: 1_700,
  "takes that were stale": 350,
  "leases settled": 1_900,
  "leases rolledBack": 2_300,
  "grants in an outage": 140,
  "granted when told, drip": 25,
  "granted when told, calendar": 2,
  "granted when told, session": 8,
  "takes by the shortest way": 440,
  "takes from what drips with windows": 1_600,
  "takes from calendar quotas": 1_800,
  "takes from calendar quotas with windows": 650,
  "takes from sessions": 2_300,
  "takes from sessions with windows": 720,
  "give-backs that came too late": 100,
  overdrafts: 450,
  "claims bypassed": 120,
  "requests to disabled resources": 140,
  "operations bucket_topped_up": 120,
  "operations bucket_reset": 81,
  "operations repeated": 39,
  "faults refused": 1_200,
  "faults lostBefore": 300,
  "faults lostAfter": 310,
  "limits that come back": 460,
  "forgotten limits that come back": 30,
  "amounts above a capacity": 460,
  "refusals from memory": 160,
  "levels asked for nothing, refused": 900,
  "sessions below what refuses": 430,
  "takes on totals": 2_900,
  "debits on totals": 140,
  "credits on totals": 450,
  "refused by totals": 42,
  "changes of totals": 390,
  "changes of plans": 450,
  "changes met together": 37,
  "sets with an end": 260,
  "refused before an end": 5,
  "taken from shadows": 370,
  "passed by shadows": 230,
  "passed by shadows of what drips": 120,
  "passed by shadows of what drips with windows": 18,
  "passed by shadows of calendar quotas": 35,
  "passed by shadows of sessions": 25,
  aborts: 260,
  crashes: 120,
  "takes from slots": 600,
  "takes from slots with windows": 190,
  "debits from slots": 1,
  "slots given back": 190,
  "slots given back too late": 45,
  "holds that ended by themselves": 56,
  "renewals renewed": 99,
  "renewals lost": 13,
  "leases renewed": 27,
  "leases forgotten": 27,
  "leases kept": 27,
  "granted when told, concurrent": 2,
  "limits with all slots back": 76,
  "told adjust_concurrent": 37,
  "told top_up_concurrent": 14,
  "told hold_too_long": 13,
  "charge answered": 110,
  "refunds applied": 90,
  "giveBack repeated": 60,
};

test("worlds on SQLite files, every second one shared by two connections, keep the promise too", () =>
  assertSound({
    ...{ store: "sqlite", quick: 6, deep: 240 },
    least: { "claims taken": 1_200, "claims short": 210, "passed by shadows": 33, "taken from shadows": 36 },
  }));

test("worlds of takes in batches keep the promise too", () =>
  assertSound({ store: "straight", quick: 12, deep: 1_000, least: LEAST_IN_BATCHES }));

const LEAST_IN_BATCHES: Readonly<Record<string, number>> = {
  "claims taken": 6_200,
  "claims short": 1_100,
  "takes that were stale": 230,
  "buckets swept": 18,
  "batches lostBefore": 84,
  "batches lostAfter": 84,
  "batches rolledBack": 71,
  "batches copied": 63,
  "batches diedBefore": 21,
  "batches diedAfter": 14,
  "taken from shadows": 170,
  "passed by shadows": 110,
  "takes from slots": 180,
  "slots given back": 61,
  "holds that ended by themselves": 31,
  "renewals renewed": 11,
  "sets with an end": 120,
};

for (const store of ["memory", "sqlite", "straight"] as const) {
  test(`a seed plays the same way again, step by step, on ${store}`, async () => {
    for (const seed of atDepth([7], [7, 12, 16]))
      assert.deepEqual(await played(seed, store), await played(seed, store));
  });
}

function played(seed: number, store: StoreKind): Promise<SeedReport> {
  return simulate(seed, { open: () => openFor(store, seed), verbose: false });
}
