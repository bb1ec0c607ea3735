import type { Claim } from "../../src/ports/bucket-store.ts";
import { HOLDS_MORE, inBuckets, inScope, type StoreMutant } from "./mutants.ts";
import { atOnce, overriding } from "./port.ts";

/** Bugs in how changes of stored limits count from their instants. */
export const CHANGE_MUTANTS: Readonly<Record<string, StoreMutant>> = {
  "changed limits that count from the next request on": {
    layer: "store",
    caughtAs: HOLDS_MORE,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => buckets.take(claims.map(unaware), context),
    })),
  },
  "a change that is lost when another one follows": {
    layer: "store",
    caughtAs: /has the changes/,
    spoil: inScope(({ config }) => ({
      config: overriding(config, {
        resolve: (entityId: string, resource: string) => {
          const level = atOnce(config.resolve(entityId, resource));
          return level.changes === undefined ? level : { ...level, changes: level.changes.slice(-1) };
        },
      }),
    })),
  },
};

/** As if nothing were known of when its limits were changed. */
function unaware(claim: Claim): Claim {
  const { changes: _, changeNumber: __, ...origin } = claim.origin;
  return { ...claim, origin };
}
