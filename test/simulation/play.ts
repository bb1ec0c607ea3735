import { simulateShared } from "../shared/simulation.ts";
import { type SeedReport, simulate } from "./simulation.ts";
import { openFor, type StoreKind } from "./stores.ts";

/** Where a seed is played: on one of the stores with the whole engine, or on a table that the original writes too. */
export type Ground = StoreKind | "shared";

export function playSeed(seed: number, ground: Ground, verbose: boolean): Promise<SeedReport> {
  if (ground === "shared") return simulateShared(seed, { verbose });
  return simulate(seed, { open: () => openFor(ground, seed), verbose });
}
