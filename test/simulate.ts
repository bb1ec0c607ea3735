import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { shrinkBucketWorld } from "./simulation/bucket-stories.ts";
import { GROUNDS, type Ground, isBucketStore, playSeed } from "./simulation/play.ts";
import { playSeeds } from "./simulation/pool.ts";
import type { SeedReport } from "./simulation/simulation.ts";
import { shrinkWorld } from "./simulation/world-stories.ts";

// npm run simulate -- --seeds N --from S [--store KIND]     plays N seeds from S on
// npm run simulate -- --seed K [--store KIND]               plays one seed and tells every step
// with --shrink, the first seed that fails is shortened: what it fails without is left out, and the rest printed as a story
// KIND is memory, sqlite, conditional (single-item conditional writes) or shared (the same, on a table that a client like the
// original writes too); or bucket-memory, bucket-sqlite, bucket-conditional: one bucket without an engine.

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seeds: { type: "string", default: "1000" },
      from: { type: "string", default: "1" },
      seed: { type: "string" },
      store: { type: "string", default: "memory" },
      shrink: { type: "boolean", default: false },
    },
  });
  const store = storeKind(values.store);
  if (values.seed !== undefined) {
    const seed = whole("seed", values.seed);
    if (values.shrink) return shrink(seed, store);
    return conclude(1, tell(await playSeed(seed, store, true)));
  }
  const seeds = whole("seeds", values.seeds);
  const from = whole("from", values.from);
  let violations = 0;
  let firstFailed = Number.POSITIVE_INFINITY;
  await playSeeds({ from, seeds, store, workers: availableParallelism() }, (report) => {
    const found = values.shrink ? report.violations.length : tell(report);
    violations += found;
    if (found > 0) firstFailed = Math.min(firstFailed, report.seed);
  });
  if (values.shrink && violations > 0) await shrink(firstFailed, store);
  return conclude(seeds, violations);
}

/** Tells the shortest story of a seed, and the data to keep it by. */
async function shrink(seed: number, store: Ground): Promise<number> {
  if (store === "shared") throw new RangeError("Worlds with the original are not shortened; give another --store.");
  const found = isBucketStore(store) ? await shrinkBucketWorld(seed, store) : await shrinkWorld(seed, store);
  if (found === undefined) {
    console.log(`seed ${seed} holds, there is nothing to shorten`);
    return 0;
  }
  console.log(`seed ${seed}, shortened:\n${found.report.lastSteps.join("\n")}\n${JSON.stringify(found.story)}`);
  return 1;
}

function tell({ seed, violations, lastSteps }: SeedReport): number {
  if (violations.length > 0) {
    console.log(`seed ${seed}:\n${lastSteps.join("\n")}`);
    for (const violation of violations) console.log(`seed ${seed}: ${violation}`);
  }
  return violations.length;
}

function conclude(seeds: number, violations: number): number {
  console.log(`seeds ${seeds}, violations ${violations}`);
  return violations === 0 ? 0 : 1;
}

function storeKind(given: string): Ground {
  const kind = GROUNDS.find((one) => one === given);
  if (kind !== undefined) return kind;
  throw new RangeError(`--store is ${JSON.stringify(given)}; give one of ${GROUNDS.join(", ")}.`);
}

function whole(name: string, given: string): number {
  const value = Number(given);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new RangeError(`--${name} is ${JSON.stringify(given)}; give a whole number.`);
}
