import assert from "node:assert/strict";
import { test } from "node:test";
import { playSeeds } from "./simulation/pool.ts";
import { type SeedReport, simulate } from "./simulation/simulation.ts";
import { openFor, type StoreKind } from "./simulation/stores.ts";

test("three hundred worlds on the memory store keep the promise at every step", async () => {
  const tally = await playSound({ from: 1, seeds: 300, store: "memory", workers: 1 });
  // Worlds in which little happens prove little.
  const least: Readonly<Record<string, number>> = {
    "claims taken": 10_000,
    "claims short": 1_500,
    "claims skipped": 500,
    "give-backs": 3_000,
    debits: 1_000,
    "takes that were stale": 100,
    "leases settled": 1_000,
    "leases rolledBack": 1_000,
    "grants in an outage": 100,
    "granted when told, drip": 100,
    "granted when told, calendar": 25,
    "granted when told, session": 30,
    "takes by the shortest way": 150,
    "takes from what drips with windows": 2_000,
    "takes from calendar quotas": 2_000,
    "takes from calendar quotas with windows": 1_000,
    "takes from sessions": 2_000,
    "takes from sessions with windows": 1_000,
    "give-backs that came too late": 300,
    overdrafts: 400,
    "claims bypassed": 200,
    "requests to disabled resources": 60,
    "operations bucket_topped_up": 100,
    "operations bucket_reset": 40,
    "operations repeated": 25,
    "faults refused": 200,
    "faults lostBefore": 200,
    "faults lostAfter": 200,
    aborts: 200,
    crashes: 50,
  };
  for (const [what, count] of Object.entries(least)) {
    assert.ok((tally[what] ?? 0) >= count, `${what}: only ${tally[what]} in all worlds, ${count} were expected`);
  }
});

test("forty worlds on SQLite files, every second one shared by two connections, keep the promise too", async () => {
  const tally = await playSound({ from: 1, seeds: 40, store: "sqlite", workers: 1 });
  assert.ok((tally["claims taken"] ?? 0) > 1_000, JSON.stringify(tally));
});

for (const store of ["memory", "sqlite"] as const) {
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
