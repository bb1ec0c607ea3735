import type { LimitState } from "../../src/domain/bucket/bucket-state.ts";
import type { LevelConfig } from "../../src/domain/config/config.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { CurrentLimits } from "../../src/stored/bucket-rules.ts";
import { without } from "./code-mutants.ts";
import { HOLDS_MORE, heldOf, inBuckets, inScope, type Mutant, type StoreMutant, stateOf } from "./mutants.ts";
import { atOnce, overriding } from "./port.ts";

const HOLDS_OTHER = /holds -?\d+ millitokens more than the model/;

/** Bugs in how changes of stored limits count from their instants. */
export const CHANGE_MUTANTS: Readonly<Record<string, Mutant>> = {
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
    spoil: resolvingTo((changes) => changes.slice(-1)),
  },
  "changes of one millisecond that have one number": {
    layer: "store",
    caughtAs: /has the changes/,
    spoil: resolvingTo((changes) => changes.map((change) => ({ ...change, number: change.fromMs }))),
  },
  "a give-back that goes by the limits of before a change": {
    layer: "code",
    caughtAs: /a write left it without the change from/,
    spoil: () => without(CurrentLimits.prototype, "of", () => undefined),
  },
  "a quota of another amount that keeps its balance": {
    layer: "store",
    caughtAs: HOLDS_OTHER,
    spoil: whenQuotaChanges((old, now) => baseMilli(old) - baseMilli(now)),
  },
  "a quota that forgets what was used when it is lowered": {
    layer: "store",
    caughtAs: HOLDS_MORE,
    spoil: whenQuotaChanges((old, now) =>
      baseMilli(now) < baseMilli(old) ? Math.max(0, baseMilli(old) - old.tokensMilli) : 0,
    ),
  },
  "a quota of another amount that loses what was bought": {
    layer: "store",
    caughtAs: HOLDS_OTHER,
    spoil: whenQuotaChanges((old) => -(old.quota?.topUpMilli ?? 0)),
  },
};

type Changes = NonNullable<LevelConfig["changes"]>;

/** Levels are read with other changes than were made. */
function resolvingTo(changed: (changes: Changes) => Changes) {
  return inScope(({ config }) => ({
    config: overriding(config, {
      resolve: (entityId: string, resource: string) => {
        const level = atOnce(config.resolve(entityId, resource));
        return level.changes === undefined ? level : { ...level, changes: changed(level.changes) };
      },
    }),
  }));
}

/** As if nothing were known of when its limits were changed. */
function unaware(claim: Claim): Claim {
  const { changes: _, changeNumber: __, ...origin } = claim.origin;
  return { ...claim, origin };
}

/** What a quota holds is moved by so much when a take has brought another amount. */
function whenQuotaChanges(movedMilli: (old: LimitState, now: LimitState) => number): StoreMutant["spoil"] {
  return inBuckets((buckets) => ({
    take: (claims, context) => {
      const before = claims.map((claim) => stateOf(buckets, claim));
      const reply = atOnce(buckets.take(claims, context));
      if (reply === "stale") return reply;
      return reply.map((answer, i) => {
        const claim = claims[i] as Claim;
        if (answer.kind !== "taken" || claim.bypass) return answer;
        const moved = answer.state.limits.flatMap((now) => {
          const old = before[i]?.limits.find(({ name }) => name === now.name);
          if (old?.quota === undefined || now.quota?.resets !== old.quota.resets) return [];
          if (now.limit.capacity === old.limit.capacity || now.limit.holdMs !== undefined) return [];
          return [{ limit: now.name, milli: movedMilli(old, now) }];
        });
        const more = moved.filter(({ milli }) => milli > 0);
        const less = moved.flatMap(({ limit, milli }) => (milli < 0 ? [{ limit, milli: -milli }] : []));
        const writes = [
          ...(more.length === 0 ? [] : [buckets.credit(heldOf(claim, answer), more, context)]),
          ...(less.length === 0 ? [] : [buckets.debit(heldOf(claim, answer), less, context)]),
        ];
        const written = writes.map(atOnce).at(-1);
        return written?.kind === "applied" ? { ...answer, state: written.state } : answer;
      });
    },
  }));
}

/** The capacity in force, without what was bought. */
function baseMilli({ terms, quota }: LimitState): number {
  return terms.capacityMilli - (quota?.topUpMilli ?? 0);
}
