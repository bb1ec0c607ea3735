import { BucketCache } from "../../src/protocol/process/bucket-cache.ts";
import type { Mutant } from "./mutants.ts";

/** Deliberate bugs that show where many come to a process, so that it forgets what it knew of buckets. */
export const CROWD_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a process that forgets a bucket while it writes to it": {
    layer: "code",
    caughtAs: /never ends/,
    spoil: () => {
      const before = Object.getOwnPropertyDescriptor(BucketCache.prototype, "isHeld") as PropertyDescriptor;
      Object.defineProperty(BucketCache.prototype, "isHeld", { ...before, get: () => false });
      return () => Object.defineProperty(BucketCache.prototype, "isHeld", before);
    },
  },
};
