import { parseArgs } from "node:util";
import { simulateShared } from "./simulation.ts";

// `node test/shared/simulate.ts --seeds 200 --from 1` runs many worlds; `--seed 17` runs one and tells every step.

const { values } = parseArgs({
  options: { seeds: { type: "string" }, from: { type: "string" }, seed: { type: "string" } },
});

if (values.seed !== undefined) {
  const { violations, tally } = await simulateShared(Number(values.seed), { verbose: true });
  console.log(tally, violations);
  process.exitCode = violations.length > 0 ? 1 : 0;
} else {
  const from = Number(values.from ?? 1);
  const count = Number(values.seeds ?? 200);
  const tally: Record<string, number> = {};
  const failed: number[] = [];
  for (let seed = from; seed < from + count; seed++) {
    const outcome = await simulateShared(seed, { verbose: false });
    for (const [what, times] of Object.entries(outcome.tally)) tally[what] = (tally[what] ?? 0) + times;
    if (outcome.violations.length === 0) continue;
    failed.push(seed);
    console.log(`seed ${seed}: ${outcome.violations[0]}`);
  }
  console.log(Object.fromEntries(Object.entries(tally).sort()));
  console.log(`${count} seeds from ${from}: ${failed.length} failed ${failed.join(" ")}`);
  process.exitCode = failed.length > 0 ? 1 : 0;
}
