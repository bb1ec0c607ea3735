import { parentPort } from "node:worker_threads";
import { simulate } from "./simulation.ts";
import type { StoreKind } from "./stores.ts";
import { openFor } from "./stores.ts";

/** Plays the seeds it is told, one at a time, and answers with what came of each. */
export interface SeedOrder {
  readonly seed: number;
  readonly store: StoreKind;
}

parentPort?.on("message", async ({ seed, store }: SeedOrder) => {
  parentPort?.postMessage(await simulate(seed, { open: () => openFor(store, seed), verbose: false }));
});
