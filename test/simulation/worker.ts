import { parentPort } from "node:worker_threads";
import { type Ground, playSeed } from "./play.ts";

/** Plays the seeds it is sent, one at a time, and answers with what came of each. */
export interface SeedOrder {
  readonly seed: number;
  readonly store: Ground;
}

parentPort?.on("message", async ({ seed, store }: SeedOrder) => {
  const report = await playSeed(seed, store, false);
  // Nobody reads what happened in a world that holds, and handing it over takes a tenth of playing it.
  const isSound = report.violations.length === 0;
  parentPort?.postMessage(isSound ? { ...report, lastSteps: [], script: undefined } : report);
});
