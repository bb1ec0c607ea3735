import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { migrate } from "../../src/adapters/postgres/migrations.ts";
import { hasThresholds } from "../simulation/profile.ts";
import { hasShadows } from "../simulation/shadow-profile.ts";
import { simulate } from "../simulation/simulation.ts";
import { hasSlots } from "../simulation/slot-profile.ts";
import { BEYOND_RATES } from "../simulation/stores.ts";
import { straightGroundOn } from "../simulation/straight-ground.ts";
import { judgedWorld } from "./judged-world.ts";
import { describePostgres } from "./postgres.ts";
import { connectionOn } from "./record-kit.ts";

/** A third of them as they come, the others with what is drawn in few worlds. */
const SEEDS = [
  ...first(10, () => true),
  ...first(8, hasShadows, 17),
  ...first(12, hasSlots, 17),
  ...first(2, hasThresholds, 17),
];

await describePostgres("worlds of the simulation on PostgreSQL", ({ url, newSchema }) => {
  test("what the server stores is what the model says, write by write, in 32 worlds", async () => {
    const client = new pg.Pool({ connectionString: url, max: 1 });
    const schema = newSchema();
    await migrate(connectionOn(client, schema));
    const tally: Record<string, number> = {};
    for (const seed of SEEDS) {
      const world = await judgedWorld(client, schema);
      const ground = straightGroundOn.bind(undefined, world);
      const open = () => ({ ground, countsChanges: true, ...BEYOND_RATES, close: () => {} });
      const { violations, lastSteps, tally: counted } = await simulate(seed, { open, verbose: false });
      assert.deepEqual(violations, [], `seed ${seed}:\n${lastSteps.join("\n")}`);
      for (const [what, count] of Object.entries(counted)) tally[what] = (tally[what] ?? 0) + count;
    }
    await client.end();
    // Worlds in which little happens prove little.
    const least: Readonly<Record<string, number>> = {
      ...{ "claims taken": 400, "claims short": 60, "give-backs": 200, debits: 50, "takes that were stale": 5 },
      ...{ "batches lostBefore": 5, "batches lostAfter": 5, "batches copied": 5, "operations bucket_topped_up": 3 },
      ...{ "taken from shadows": 20, "passed by shadows": 8, "thresholds told": 4, "takes from slots": 25 },
      ...{ "slots given back": 6, "slots given back too late": 3, "holds that ended by themselves": 3 },
    };
    for (const [what, count] of Object.entries(least)) {
      assert.ok((tally[what] ?? 0) >= count, `${what}: only ${tally[what]} in all worlds, ${count} were expected`);
    }
  });
});

function first(count: number, isMeant: (seed: number) => boolean, from = 1): number[] {
  const seeds: number[] = [];
  for (let seed = from; seeds.length < count; seed++) if (isMeant(seed)) seeds.push(seed);
  return seeds;
}
