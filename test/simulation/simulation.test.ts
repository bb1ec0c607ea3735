import assert from "node:assert/strict";
import { test } from "node:test";
import { playSeeds } from "./pool.ts";
import { type SeedReport, simulate } from "./simulation.ts";
import { openFor, type StoreKind } from "./stores.ts";

test("seven hundred and fifty worlds on the memory store keep the promise at every step", async () => {
  const tally = await playSound({ from: 1, seeds: 750, store: "memory", workers: 1 });
  // Worlds in which little happens prove little.
  const least: Readonly<Record<string, number>> = {
    "claims taken": 4_000,
    "claims short": 500,
    "claims skipped": 100,
    "give-backs": 1_500,
    debits: 400,
    "takes that were stale": 50,
    "leases settled": 500,
    "leases rolledBack": 800,
    "grants in an outage": 40,
    "granted when told, drip": 10,
    "granted when told, calendar": 1,
    "granted when told, session": 1,
    "takes by the shortest way": 80,
    "takes from what drips with windows": 250,
    "takes from calendar quotas": 400,
    "takes from calendar quotas with windows": 120,
    "takes from sessions": 400,
    "takes from sessions with windows": 200,
    "give-backs that came too late": 30,
    overdrafts: 20,
    "claims bypassed": 30,
    "requests to disabled resources": 4,
    "operations bucket_topped_up": 70,
    "operations bucket_reset": 30,
    "operations repeated": 25,
    "faults refused": 60,
    "faults lostBefore": 60,
    "faults lostAfter": 60,
    "limits that come back": 12,
    "forgotten limits that come back": 5,
    "amounts above a capacity": 200,
    "refusals from memory": 50,
    "levels asked for nothing, refused": 150,
    "sessions below what refuses": 100,
    "takes on totals": 300,
    "debits on totals": 30,
    "credits on totals": 150,
    "refused by totals": 30,
    "changes of totals": 50,
    "changes of plans": 100,
    "changes met together": 10,
    "taken from shadows": 300,
    "passed by shadows": 200,
    "passed by shadows of what drips": 100,
    "passed by shadows of what drips with windows": 15,
    "passed by shadows of calendar quotas": 15,
    "passed by shadows of sessions": 15,
    aborts: 60,
    crashes: 25,
    "takes from slots": 600,
    "takes from slots with windows": 200,
    "debits from slots": 2,
    "slots given back": 150,
    "slots given back too late": 50,
    "holds that ended by themselves": 60,
    "renewals renewed": 60,
    "renewals lost": 8,
    "leases renewed": 15,
    "leases forgotten": 15,
    "leases kept": 15,
    "granted when told, concurrent": 2,
    "limits with all slots back": 80,
    "told adjust_concurrent": 25,
    "told top_up_concurrent": 8,
    "told hold_too_long": 15,
  };
  for (const [what, count] of Object.entries(least)) {
    assert.ok((tally[what] ?? 0) >= count, `${what}: only ${tally[what]} in all worlds, ${count} were expected`);
  }
});

test("forty worlds on SQLite files, every second one shared by two connections, keep the promise too", async () => {
  const tally = await playSound({ from: 1, seeds: 40, store: "sqlite", workers: 1 });
  assert.ok((tally["claims taken"] ?? 0) > 400, JSON.stringify(tally));
  assert.ok((tally["passed by shadows"] ?? 0) > 5 && (tally["taken from shadows"] ?? 0) > 10, JSON.stringify(tally));
});

test("three hundred and fifty worlds of takes in batches keep the promise too", async () => {
  const tally = await playSound({ from: 1, seeds: 350, store: "straight", workers: 1 });
  const least: Readonly<Record<string, number>> = {
    ...{ "claims taken": 1_500, "claims short": 250, "takes that were stale": 40, "buckets swept": 4 },
    ...{ "batches lostBefore": 50, "batches lostAfter": 50, "batches rolledBack": 50, "batches copied": 50 },
    ...{ "batches diedBefore": 5, "batches diedAfter": 8, "taken from shadows": 60, "passed by shadows": 40 },
    ...{
      "takes from slots": 150,
      "slots given back": 40,
      "holds that ended by themselves": 20,
      "renewals renewed": 15,
    },
  };
  for (const [what, count] of Object.entries(least)) {
    assert.ok((tally[what] ?? 0) >= count, `${what}: only ${tally[what]} in all worlds, ${count} were expected`);
  }
});

for (const store of ["memory", "sqlite", "straight"] as const) {
  test(`a seed plays the same way again, step by step, on ${store}`, async () => {
    for (const seed of [7, 12, 16]) assert.deepEqual(await played(seed, store), await played(seed, store));
  });
}

function played(seed: number, store: StoreKind): Promise<SeedReport> {
  return simulate(seed, { open: () => openFor(store, seed), verbose: false });
}

/** What happened in all worlds together; fails with the last steps of the first world that broke the promise. */
async function playSound(range: Parameters<typeof playSeeds>[0]): Promise<Record<string, number>> {
  const broken: SeedReport[] = [];
  const tally: Record<string, number> = {};
  await playSeeds(range, (report) => {
    if (report.violations.length > 0) broken.push(report);
    for (const [what, count] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + count;
  });
  const [first] = broken.sort((one, other) => one.seed - other.seed);
  assert.equal(
    first,
    undefined,
    `seed ${first?.seed}, ${range.store}: ${first?.violations.join("\n")}\n${first?.lastSteps.join("\n")}`,
  );
  return tally;
}
