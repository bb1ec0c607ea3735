import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { type Ground, playSeed } from "./simulation/play.ts";
import { playSeeds } from "./simulation/pool.ts";
import type { SeedReport } from "./simulation/simulation.ts";
import { STORE_KINDS } from "./simulation/stores.ts";

// npm run simulate -- --seeds N --from S [--store KIND]     plays N seeds from S on
// npm run simulate -- --seed K [--store KIND]               plays one seed and tells every step
// KIND is memory, sqlite, conditional (single-item conditional writes) or shared (the same, on a table that a client like the
// original writes too).

const GROUNDS = [...STORE_KINDS, "shared"] as const;

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seeds: { type: "string", default: "1000" },
      from: { type: "string", default: "1" },
      seed: { type: "string" },
      store: { type: "string", default: "memory" },
    },
  });
  const store = storeKind(values.store);
  if (values.seed !== undefined) {
    const seed = whole("seed", values.seed);
    return conclude(1, tell(await playSeed(seed, store, true)));
  }
  const seeds = whole("seeds", values.seeds);
  let violations = 0;
  const workers = availableParallelism();
  await playSeeds({ from: whole("from", values.from), seeds, store, workers }, (report) => {
    violations += tell(report);
  });
  return conclude(seeds, violations);
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
