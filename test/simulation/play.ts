import { simulateShared } from "../shared/simulation.ts";
import { fuzzBucket } from "./bucket-fuzz.ts";
import { BUCKET_STORES, type BucketStoreKind } from "./bucket-world.ts";
import { type SeedReport, simulate } from "./simulation.ts";
import { openFor, STORE_KINDS, type StoreKind } from "./stores.ts";

/**
 * Where a seed is played: on one of the stores with the whole engine, on a table that the original writes too, or on a
 * single bucket without an engine.
 */
export type Ground = StoreKind | "shared" | BucketStoreKind;

export const GROUNDS: readonly Ground[] = [...STORE_KINDS, "shared", ...BUCKET_STORES];

export function playSeed(seed: number, ground: Ground, verbose: boolean): Promise<SeedReport> {
  if (ground === "shared") return simulateShared(seed, { verbose });
  if (isBucketStore(ground)) return fuzzBucket(seed, ground);
  return simulate(seed, { open: () => openFor(ground, seed), verbose });
}

export function isBucketStore(ground: Ground): ground is BucketStoreKind {
  return (BUCKET_STORES as readonly string[]).includes(ground);
}
