import type { Claim, TakeReply } from "../../src/ports/bucket-store.ts";
import { inBuckets, type StoreMutant } from "./mutants.ts";
import { atOnce } from "./port.ts";

/** Deliberate bugs about what a request must leave. */
export const FLOOR_MUTANTS: Readonly<Record<string, StoreMutant>> = {
  "a floor that the take leaves out": {
    layer: "store",
    caughtAs: /are left where \d+ had to be/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => atOnce(buckets.take(claims.map(withoutFloor), context)),
    })),
  },

  "a floor of one percent less": {
    layer: "store",
    caughtAs: /are left where \d+ had to be/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) =>
        atOnce(
          buckets.take(
            claims.map((claim) => ({ ...claim, leavePercent: Math.max(0, (claim.leavePercent ?? 0) - 1) })),
            context,
          ),
        ),
    })),
  },

  // The engine goes by its own claims when it says how long to wait.
  "a floor left out of the wait": {
    layer: "client",
    caughtAs: /was refused again \d+ ms later, as told|refused although everything fits/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const asked = claims.map((claim) => ({ ...claim }));
        for (const claim of claims) delete (claim as { leavePercent?: number }).leavePercent;
        return buckets.take(asked, context) as TakeReply;
      },
    })),
  },
};

function withoutFloor({ leavePercent: _, ...claim }: Claim): Claim {
  return claim;
}
