import { parentPort } from "node:worker_threads";
import { type Ground, playSeed } from "./play.ts";

/** Plays the seeds it is sent, one at a time, and answers with what came of each. */
export interface SeedOrder {
  readonly seed: number;
  readonly store: Ground;
}

parentPort?.on("message", async ({ seed, store }: SeedOrder) => {
  parentPort?.postMessage(await playSeed(seed, store, false));
});
