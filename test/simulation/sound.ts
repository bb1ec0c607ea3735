import assert from "node:assert/strict";
import { atDepth, firstSeed } from "../depth.ts";
import type { Ground } from "./play.ts";
import { playSeeds } from "./pool.ts";
import type { SeedReport } from "./simulation.ts";

/** The worlds of a run on one store. */
interface SoundWorlds {
  readonly store: Ground;
  /** How many `npm test` plays, always the same. */
  readonly quick: number;
  /** How many `npm run test:deep` plays, from the seed of the day on. */
  readonly deep: number;
  /** What has to happen in all worlds of a deep run together: about a third of what does. Worlds in which little happens prove little. */
  readonly least: Readonly<Record<string, number>>;
}

/** Plays worlds; fails with the last steps of the first that breaks the promise, or where too little happened in them. */
export async function assertSound({ store, quick, deep, least }: SoundWorlds): Promise<void> {
  const broken: SeedReport[] = [];
  const tally: Record<string, number> = {};
  const range = { from: firstSeed(), seeds: atDepth(quick, deep), store, workers: atDepth(1, 2) };
  await playSeeds(range, (report) => {
    if (report.violations.length > 0) broken.push(report);
    for (const [what, count] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + count;
  });
  const [first] = broken.sort((one, other) => one.seed - other.seed);
  const told = `${broken.length} worlds broke; npm run simulate -- --store ${store} --seed ${first?.seed} plays the first`;
  assert.equal(first, undefined, `${told}: ${first?.violations.join("\n")}\n${first?.lastSteps.join("\n")}`);
  // The few worlds of a quick run are the same each time, and may have little of what is rare.
  const share = range.seeds === deep ? 1 : range.seeds / deep / 3;
  for (const [what, count] of Object.entries(least)) {
    const due = Math.floor(count * share);
    assert.ok((tally[what] ?? 0) >= due, `${what}: only ${tally[what] ?? 0} in all worlds, ${due} were expected`);
  }
}
