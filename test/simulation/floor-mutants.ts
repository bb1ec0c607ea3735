import { WaitingRoom } from "../../src/engine/outage/waiting.ts";
import type { Claim, TakeReply } from "../../src/ports/bucket-store.ts";
import { without } from "./code-mutants.ts";
import { inBuckets, type Mutant } from "./mutants.ts";
import { atOnce } from "./port.ts";

/** Deliberate bugs about what a request must leave. */
export const FLOOR_MUTANTS: Readonly<Record<string, Mutant>> = {
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

  // The engine goes by its own claims when it says what is short and how long to wait.
  "a floor left out of the wait": {
    layer: "client",
    caughtAs: /is refused by \S+, and not told|was refused again \d+ ms later, as told/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const asked = claims.map((claim) => ({ ...claim }));
        for (const claim of claims) delete (claim as { leavePercent?: number }).leavePercent;
        return buckets.take(asked, context) as TakeReply;
      },
    })),
  },

  "waiters that are served first come only, whatever they must leave": {
    layer: "code",
    caughtAs: /served first the one that leaves more/,
    spoil: () => {
      const { enter } = WaitingRoom.prototype;
      return without(WaitingRoom.prototype, "enter", function (this: WaitingRoom, key: string) {
        return enter.call(this, key, 0);
      });
    },
  },
};

function withoutFloor({ leavePercent: _, ...claim }: Claim): Claim {
  return claim;
}
