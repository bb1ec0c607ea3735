import { TOTAL_RESOURCE } from "../../src/domain/bucket/bucket-key.ts";
import type { LevelConfig } from "../../src/domain/config/config.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { inBuckets, inScope, type StoreMutant } from "./mutants.ts";
import { atOnce, overriding } from "./port.ts";

/** Bugs in what is charged over all resources together, in which of several totals wins, and in when another plan counts. */
export const TOTAL_MUTANTS: Readonly<Record<string, StoreMutant>> = {
  "a total that only requests for one of the resources are charged to": {
    layer: "client",
    caughtAs: /was granted \d+ of \w+ but charged 0 on [\w-]+\/\*/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const isOfOne = claims.some(({ bucket }) => bucket.resource === "api");
        return buckets.take(isOfOne ? claims : claims.map(withoutTotal), context);
      },
    })),
  },

  "a give-back that does not come to the total": {
    layer: "client",
    caughtAs: /was rolled back, but \d+ of \w+ are gone on [\w-]+\/\*/,
    spoil: inBuckets((buckets) => ({
      credit: (held, amounts, context) => {
        const isTotal = held.bucket.resource === TOTAL_RESOURCE;
        return buckets.credit(held, isTotal ? amounts.map(({ limit }) => ({ limit, milli: 0 })) : amounts, context);
      },
    })),
  },

  "a refusal by a total that does not name its limit": {
    layer: "client",
    caughtAs: /is refused by [\w-]+\/\*, and not told/,
    spoil: inBuckets((buckets) => ({
      take: async (claims, context) => {
        const reply = await buckets.take(claims, context);
        if (reply === "stale") return reply;
        const isShort = reply.some(({ kind }, i) => kind === "short" && isOfTotal(claims[i] as Claim));
        if (!isShort) return reply;
        return reply.map((answer, i) => {
          const state = "state" in answer ? answer.state : undefined;
          return isOfTotal(claims[i] as Claim) && state !== undefined
            ? {
                kind: "short" as const,
                state: { ...state, limits: state.limits.map((one) => ({ ...one, name: "_" })) },
              }
            : answer;
        });
      },
    })),
  },

  "totals that count beside the resources they are the sum of": {
    layer: "client",
    caughtAs: /usage of all resources sums up to/,
    spoil: inScope(({ usage }) => ({
      usage: {
        query: async (query, page) => {
          const found = await usage.query(query, page);
          if (query.resource !== undefined) return found;
          const items = found.items.map((row) => (row.resource === TOTAL_RESOURCE ? { ...row, resource: "all" } : row));
          return { ...found, items };
        },
      },
    })),
  },

  "another plan that counts from the next request on": {
    layer: "store",
    caughtAs: /has the changes/,
    spoil: inScope(({ config }) => ({
      config: overriding(config, {
        resolve: (entityId: string, resource: string) => {
          const level = atOnce(config.resolve(entityId, resource));
          return level.planId === undefined ? level : withoutChanges(level);
        },
      }),
    })),
  },

  "totals of a plan that outdo those of the entity": {
    layer: "store",
    caughtAs: /in total resolves to/,
    spoil: inScope(({ config }) => ({
      config: overriding(config, {
        resolve: (entityId: string, resource: string) => {
          const level = atOnce(config.resolve(entityId, resource));
          const { planId } = level;
          const plan = planId === undefined ? undefined : atOnce(config.get({ level: "planTotal", planId }));
          return plan === undefined ? level : { ...level, totals: plan.limits };
        },
      }),
    })),
  },
};

function isOfTotal({ bucket }: Claim): boolean {
  return bucket.resource === TOTAL_RESOURCE;
}

function withoutTotal(claim: Claim): Claim {
  return isOfTotal(claim) ? { ...claim, take: claim.take.map(({ limit }) => ({ limit, milli: 0 })) } : claim;
}

function withoutChanges({ changes: _, totalsChanges: __, ...level }: LevelConfig): LevelConfig {
  return level;
}
