import type { BucketState, LimitState } from "../../src/domain/bucket/bucket-state.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Answer, BucketStore, Claim, Operation, TakeContext } from "../../src/ports/bucket-store.ts";
import { HOLDS_MORE, heldOf, inBuckets, inScope, type StoreMutant, stateOf } from "./mutants.ts";
import { atOnce, overriding } from "./port.ts";

/** Deliberate bugs that only limits of some kind, or policies, can have. */
export const KIND_MUTANTS: Readonly<Record<string, StoreMutant>> = {
  "a quota that is reset twice at one boundary": {
    layer: "store",
    caughtAs: HOLDS_MORE,
    spoil: inBuckets((buckets) => {
      const again = new Set<string>();
      return {
        take: (claims, context) => {
          for (const claim of claims) {
            const state = stateOf(buckets, claim);
            const quotas = calendarQuotas(state);
            if (again.delete(claim.bucket.id) && state !== undefined && quotas.length > 0) {
              atOnce(buckets.reset(operationOf(claim, context), quotas));
            } else if (crossing(state, context.nowMs)) again.add(claim.bucket.id);
          }
          return buckets.take(claims, context);
        },
      };
    }),
  },

  "a reset that is missed": {
    layer: "store",
    caughtAs: /holds -\d+ millitokens more than the model/,
    spoil: afterTaking((buckets, claim, context, before, answer) => {
      const missed = limitsOf(before, answer.state).flatMap(([old, now]) =>
        now.limit.reset !== undefined && now.tokensMilli > old.tokensMilli
          ? [{ limit: now.name, milli: now.tokensMilli - old.tokensMilli }]
          : [],
      );
      return missed.length === 0 ? undefined : buckets.debit(heldOf(claim, answer), missed, context);
    }),
  },

  "time before a window that drips at the window's rate": {
    layer: "store",
    caughtAs: HOLDS_MORE,
    spoil: afterTaking((buckets, claim, context, before, answer) => {
      const elapsedMs = answer.state.epochMs - before.epochMs;
      const more = limitsOf(before, answer.state).flatMap(([old, now]) => {
        const [then, since] = [old, now].map(
          ({ terms }) => Math.floor((elapsedMs * terms.refillAmountMilli) / terms.refillPeriodMs) || 0,
        ) as [number, number];
        return now.limit.schedule !== undefined && since > then ? [{ limit: now.name, milli: since - then }] : [];
      });
      return more.length === 0 ? undefined : buckets.credit(heldOf(claim, undefined), more, context);
    }),
  },

  "a give-back into the next period": {
    layer: "store",
    caughtAs: HOLDS_MORE,
    spoil: inBuckets((buckets) => ({
      credit: (held, amounts, context) => {
        const limits = stateOf(buckets, held)?.limits ?? [];
        const pins = limits.flatMap(({ name, limit, quota }) =>
          quota === undefined ? [] : [{ ...quota, limit: name, reset: limit.reset, untilMs: Number.POSITIVE_INFINITY }],
        );
        return buckets.credit({ ...held, ticket: { ...held.ticket, pins } }, amounts, context);
      },
    })),
  },

  "a top-up that survives the reset": {
    layer: "store",
    caughtAs: /goes by .*"toppedUp"/,
    spoil: afterTaking((buckets, claim, context, before, answer) => {
      const kept = limitsOf(before, answer.state).flatMap(([old, now]) => {
        const milli = (old.quota?.topUpMilli ?? 0) - (now.quota?.topUpMilli ?? 0);
        return now.limit.reset !== undefined && milli > 0 ? [{ limit: now.name, milli }] : [];
      });
      if (kept.length > 0) atOnce(buckets.topUp(operationOf(claim, context), kept));
      return undefined;
    }),
  },

  "a top-up that is made twice for one key": {
    layer: "store",
    caughtAs: /was good for a second time|is told to be used/,
    spoil: inBuckets((buckets) => ({
      topUp: (operation, amounts) => buckets.topUp({ ...operation, idempotencyKey: nextKey() }, amounts),
    })),
  },

  "a session window that a refused take opens": {
    layer: "store",
    caughtAs: /goes by .*"windowStartMs"|next boundary/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const reply = atOnce(buckets.take(claims, context));
        if (reply === "stale") return reply;
        for (const [i, answer] of reply.entries()) {
          const claim = claims[i] as Claim;
          if (answer.kind !== "short" && answer.kind !== "skipped") continue;
          if (stateOf(buckets, claim) === undefined) continue;
          const sessions = answer.state.limits.filter(({ limit }) => limit.resetAfterMs !== undefined);
          const amounts = sessions.map(({ name }) => ({ limit: name, milli: 1 }));
          const opened = atOnce(buckets.debit(heldOf(claim, undefined), amounts, context));
          if (opened.kind !== "applied" || opened.ticket === undefined) continue;
          atOnce(buckets.credit({ ...heldOf(claim, undefined), ticket: opened.ticket }, amounts, context));
        }
        return reply;
      },
    })),
  },

  "a soft limit that refuses": {
    layer: "store",
    caughtAs: /refused although everything fits/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const states = claims.map((claim) => stateOf(buckets, claim));
        const known = states.every((state, i) => {
          const { set } = claims[i] as Claim;
          return state !== undefined && state.signature === set.signature && context.nowMs < state.renewAtMs;
        });
        if (!known || !claims.some((claim, i) => overdraws(states[i], claim))) return buckets.take(claims, context);
        return states.map((state): Answer => ({ kind: "short", state: state as BucketState }));
      },
    })),
  },

  "a bypass that debits": {
    layer: "store",
    caughtAs: /holds -\d+ millitokens more than the model|refused although everything fits/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) =>
        buckets.take(
          claims.map((claim) => ({ ...claim, bypass: false })),
          context,
        ),
    })),
  },

  "a disabled resource that admits": {
    layer: "client",
    caughtAs: /does not follow from it|out of date/,
    spoil: inScope(({ config }) => ({
      config: overriding(config, {
        resolve: async (entityId, resource) => {
          const level = await config.resolve(entityId, resource);
          return level.access === "disabled" ? { ...level, access: "enforce" } : level;
        },
      }),
    })),
  },

  "a second resource that is kept when the first refused": {
    layer: "client",
    caughtAs: /was not granted, but charged/,
    spoil: inBuckets((buckets) => {
      const kept = new WeakSet<object>();
      return {
        take: async (claims, context) => {
          const reply = await buckets.take(claims, context);
          if (reply === "stale" || reply.every(({ kind }) => kind === "taken")) return reply;
          return reply.map((answer, i) => {
            const second = claims[i]?.bucket.resource !== claims[0]?.bucket.resource;
            if (answer.kind !== "taken" || !second) return answer;
            const ticket = { ...answer.ticket };
            kept.add(ticket);
            return { ...answer, ticket };
          });
        },
        credit: (held, amounts, context) =>
          kept.has(held.ticket) ? buckets.debit(held, [], context) : buckets.credit(held, amounts, context),
      };
    }),
  },
};

/** Spoils what a take left behind that crossed a boundary; the answer shows it. */
function afterTaking(
  spoiled: (
    buckets: BucketStore,
    claim: Claim,
    context: TakeContext,
    before: BucketState,
    answer: Extract<Answer, { kind: "taken" }>,
  ) => ReturnType<BucketStore["debit"]> | undefined,
): StoreMutant["spoil"] {
  return inBuckets((buckets) => ({
    take: (claims, context) => {
      const before = claims.map((claim) => stateOf(buckets, claim));
      const reply = atOnce(buckets.take(claims, context));
      if (reply === "stale") return reply;
      return reply.map((answer, i) => {
        const [claim, old] = [claims[i] as Claim, before[i]];
        if (answer.kind !== "taken" || claim.bypass || old === undefined || !crossing(old, context.nowMs))
          return answer;
        const changed = spoiled(buckets, claim, context, old, answer);
        const written = changed === undefined ? undefined : atOnce(changed);
        return written?.kind === "applied" ? { ...answer, state: written.state } : answer;
      });
    },
  }));
}

function crossing(state: BucketState | undefined, nowMs: number): boolean {
  return state !== undefined && nowMs >= state.validUntilMs;
}

function calendarQuotas(state: BucketState | undefined): string[] {
  return (state?.limits ?? []).filter(({ limit }) => limit.reset !== undefined).map(({ name }) => name);
}

/** Each limit as it was and as it is, where it is still the same limit. */
function limitsOf(before: BucketState, after: BucketState): (readonly [LimitState, LimitState])[] {
  return after.limits.flatMap((now) => {
    const old = before.limits.find(({ name }) => name === now.name);
    return old === undefined || JSON.stringify(old.limit) !== JSON.stringify(now.limit) ? [] : [[old, now] as const];
  });
}

function overdraws(state: BucketState | undefined, { take, bypass }: Claim): boolean {
  const short = ({ limit: name, milli }: Amount) => {
    const limit = state?.limits.find((one) => one.name === name);
    return limit?.limit.soft === true && limit.limit.refillAmount === 0 && limit.tokensMilli < milli;
  };
  return !bypass && take.some(short);
}

let keys = 0;

function nextKey(): string {
  return `spoiled-${++keys}`;
}

function operationOf({ bucket, set, origin }: Claim, { nowMs }: TakeContext): Operation {
  const key = nextKey();
  const about = { atMs: nowMs, entityId: bucket.entityId, resource: bucket.resource };
  const event = { id: key, action: "bucket_reset", actor: "nobody", details: {}, ...about };
  return { bucket, set, origin, nowMs, idempotencyKey: key, event: event as unknown as Operation["event"] };
}
