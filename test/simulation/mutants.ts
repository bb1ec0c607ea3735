import type { BucketState } from "../../src/domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { LevelConfig } from "../../src/domain/config/config.ts";
import type { LimitSet, SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Answer, BucketStore, BucketsMaybeInPlace, Claim, Held } from "../../src/ports/bucket-store.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";
import { atOnce, overriding } from "./port.ts";

/**
 * A deliberate bug: in the store itself, or in a client, between its engine and its line to the store; or, where a store is
 * made of conditional writes, between the protocol and its items; or in the code that is played.
 */
export type Mutant = (
  | { readonly layer: "store" | "client"; readonly spoil: (store: Store) => Store }
  | { readonly layer: "items"; readonly spoil: (items: ItemStore) => ItemStore }
  /** In the code itself, for as long as a world is played; answers how to mend it. */
  | { readonly layer: "code"; readonly spoil: () => () => void }
) & {
  /** What the simulation has to say about it. */
  readonly caughtAs: RegExp;
};

export const HOLDS_MORE = /holds \d+ millitokens more than the model|granted above capacity and refill/;

const OVER_RETURNED = /gave back \d+ of \w+ more than it took|believes to hold/;

/** A bug of a store, or of a client beside one. */
export type StoreMutant = Extract<Mutant, { readonly layer: "store" | "client" }>;

export const MUTANTS: Readonly<Record<string, StoreMutant>> = {
  "overflow that is spent after idle time": {
    layer: "store",
    caughtAs: HOLDS_MORE,
    // The take spends stored tokens and leaves the time for a later refill, as the original did.
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const overflows = claims.map((claim) => overflowOf(stateOf(buckets, claim), context.nowMs));
        const reply = atOnce(buckets.take(claims, context));
        if (reply === "stale") return reply;
        return reply.map((answer, i) => {
          if (answer.kind !== "taken") return answer;
          const credited = atOnce(buckets.credit(heldOf(claims[i]!, answer), overflows[i]!, context));
          return credited.kind === "applied" ? { ...answer, state: credited.state } : answer;
        });
      },
    })),
  },

  "time that is credited twice": {
    layer: "store",
    caughtAs: HOLDS_MORE,
    spoil: inBuckets((buckets) => {
      const seenMs = new Map<string, number>();
      return {
        take: (claims, context) => {
          for (const claim of claims) {
            const state = stateOf(buckets, claim);
            const sinceMs = Math.max(seenMs.get(claim.bucket.id) ?? context.nowMs, state?.epochMs ?? 0);
            seenMs.set(claim.bucket.id, context.nowMs);
            const again = (state?.limits ?? []).map(({ name, terms }) => ({
              limit: name,
              milli: drippedMilli(terms, context.nowMs - sinceMs),
            }));
            buckets.credit(heldOf(claim, undefined), again, context);
          }
          return buckets.take(claims, context);
        },
      };
    }),
  },

  "a debit that is lost in the overflow": {
    layer: "store",
    caughtAs: HOLDS_MORE,
    spoil: inBuckets((buckets) => ({
      debit: (held, amounts, context) => {
        const overflow = overflowOf(stateOf(buckets, held), context.nowMs);
        const reply = buckets.debit(held, amounts, context);
        const lost = overflow.map(({ limit, milli }) => ({
          limit,
          milli: Math.min(milli, amounts.find((amount) => amount.limit === limit)?.milli ?? 0),
        }));
        return lost.some(({ milli }) => milli > 0) ? buckets.credit(held, lost, context) : reply;
      },
    })),
  },

  "a give-back above what was taken": {
    layer: "client",
    caughtAs: OVER_RETURNED,
    spoil: inBuckets((buckets) => ({
      credit: (held, amounts, context) =>
        buckets.credit(
          held,
          amounts.map(({ limit, milli }) => ({ limit, milli: milli + 1 })),
          context,
        ),
    })),
  },

  "a give-back that is made twice": {
    layer: "client",
    caughtAs: OVER_RETURNED,
    spoil: inBuckets((buckets) => ({
      credit: async (held, amounts, context) => {
        await buckets.credit(held, amounts, context);
        return buckets.credit(held, amounts, context);
      },
    })),
  },

  "a take that is tried again after its answer was lost": {
    layer: "client",
    caughtAs: /was granted \d+ of \w+ but charged \d+|was not granted, but charged/,
    spoil: inBuckets((buckets) => ({
      take: async (claims, context) => {
        const reply = await buckets.take(claims, context);
        const lost = reply !== "stale" && reply.some(({ kind }) => kind === "unavailable");
        return lost ? buckets.take(claims, context) : reply;
      },
    })),
  },

  "a give-back that is tried again after its answer was lost": {
    layer: "client",
    caughtAs: OVER_RETURNED,
    spoil: inBuckets((buckets) => ({
      credit: async (held, amounts, context) => {
        const reply = await buckets.credit(held, amounts, context);
        return reply.kind === "unavailable" ? buckets.credit(held, amounts, context) : reply;
      },
    })),
  },

  "a refusal that does not know what was bought": {
    layer: "client",
    caughtAs: /was told (off|never), although/,
    spoil: inBuckets((buckets) => ({
      take: async (claims, context) => {
        const reply = await buckets.take(claims, context);
        return reply === "stale" ? reply : reply.map(withoutPurchases);
      },
    })),
  },

  "a parent that is not charged": {
    layer: "store",
    caughtAs: /holds -\d+ millitokens more|was never made|holds \d+ millitokens more/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const reply = atOnce(buckets.take(claims, context));
        if (reply === "stale") return reply;
        for (const [i, answer] of reply.entries()) {
          const claim = claims[i] as Claim;
          if (i > 0 && answer.kind === "taken") buckets.credit(heldOf(claim, answer), claim.take, context);
        }
        return reply;
      },
    })),
  },

  "a parent that the client leaves out": {
    layer: "client",
    caughtAs: /does not follow from it|but charged 0 on/,
    spoil: inBuckets((buckets) => ({
      take: async (claims, context) => {
        const reply = await buckets.take(claims.slice(0, 1), context);
        const [first] = reply;
        return typeof first === "object" ? claims.map((): Answer => first) : reply;
      },
    })),
  },

  "a child that is charged when its parent refused": {
    layer: "store",
    caughtAs: /holds -\d+ millitokens more than the model|was never made/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const reply = atOnce(buckets.take(claims, context));
        if (reply === "stale") return reply;
        for (const [i, answer] of reply.entries()) {
          const claim = claims[i] as Claim;
          if (answer.kind === "skipped") buckets.debit(heldOf(claim, undefined), claim.take, context);
        }
        return reply;
      },
    })),
  },

  "a child that is not given back when its parent refused": {
    layer: "client",
    caughtAs: /was not granted, but charged/,
    spoil: inBuckets((buckets) => {
      const refused = new WeakSet<object>();
      return {
        take: async (claims, context) => {
          const reply = await buckets.take(claims, context);
          if (reply === "stale" || reply.every(({ kind }) => kind === "taken")) return reply;
          return reply.map((answer) => {
            if (answer.kind !== "taken") return answer;
            const ticket = { ...answer.ticket };
            refused.add(ticket);
            return { ...answer, ticket };
          });
        },
        credit: (held, amounts, context) => {
          if (!refused.has(held.ticket)) return buckets.credit(held, amounts, context);
          return buckets.debit(held, [], context);
        },
      };
    }),
  },

  "changed limits that never reach a live bucket": {
    layer: "store",
    caughtAs: /goes by .*, not by|the limit \w+ is missing|is not configured|that nobody brought/,
    spoil: inBuckets((buckets) => {
      const first = new Map<string, { readonly set: LimitSet; readonly origin: SetOrigin }>();
      return {
        take: (claims, context) =>
          buckets.take(
            claims.map((claim) => {
              const { set, origin } = claim;
              if (!first.has(claim.bucket.id)) first.set(claim.bucket.id, { set, origin });
              return { ...claim, ...first.get(claim.bucket.id) };
            }),
            context,
          ),
      };
    }),
  },

  "changed limits that a client never hears of": {
    layer: "client",
    caughtAs: /out of date|does not follow from it|never hears of its limits|told off by old configuration/,
    spoil: inScope((scope) => {
      const first = new Map<string, LevelConfig>();
      return {
        config: overriding(scope.config, {
          resolve: async (entityId, resource) => {
            const key = `${entityId}\n${resource}`;
            const known = first.get(key) ?? (await scope.config.resolve(entityId, resource));
            first.set(key, known);
            return known;
          },
        }),
      };
    }),
  },

  "a refusal that promises the tokens too early": {
    layer: "client",
    caughtAs: /was refused again \d+ ms later, as told/,
    spoil: inBuckets((buckets) => ({
      take: async (claims, context) => {
        const reply = await buckets.take(claims, context);
        if (reply === "stale") return reply;
        return reply.map((answer) => (answer.kind === "short" ? { ...answer, state: rosy(answer.state) } : answer));
      },
    })),
  },
};

function withoutPurchases(answer: Answer): Answer {
  if (answer.kind !== "short") return answer;
  const limits = answer.state.limits.map((held) =>
    held.quota === undefined ? held : { ...held, quota: { ...held.quota, topUpMilli: 0 } },
  );
  return { ...answer, state: { ...answer.state, limits } };
}
export function inBuckets(spoiled: (buckets: BucketStore) => Partial<BucketStore>): (store: Store) => Store {
  return inScope(({ buckets }) => ({
    // Without the synchronous way and the shortest, which would lead around the bug.
    buckets: overriding(buckets, {
      takeSync: undefined,
      takeOne: undefined as never,
      ...spoiled(buckets),
    } as Partial<BucketsMaybeInPlace>),
  }));
}

export function inScope(spoiled: (scope: ScopedStore) => Partial<ScopedStore>): (store: Store) => Store {
  return (store) =>
    overriding(store, {
      scope: (namespaceId) => {
        const scope = store.scope(namespaceId);
        return { ...scope, ...spoiled(scope) };
      },
    });
}

export function heldOf(
  { bucket, set, origin, bypass }: Claim | Held,
  answer: { readonly ticket: Ticket } | undefined,
): Held {
  return { bucket, set, origin, bypass, ticket: answer?.ticket ?? PLAIN_TICKET };
}

export function stateOf(buckets: BucketStore, { bucket }: Claim | Held): BucketState | undefined {
  return atOnce(buckets.read([bucket]))[0];
}

/** What stands over the brim of each limit. */
function overflowOf(state: BucketState | undefined, nowMs: number): { limit: string; milli: number }[] {
  return (state?.limits ?? []).map(({ name, tokensMilli, terms }) => ({
    limit: name,
    milli: Math.max(0, tokensMilli + drippedMilli(terms, nowMs - state!.epochMs) - terms.capacityMilli),
  }));
}

function drippedMilli(terms: { refillAmountMilli: number; refillPeriodMs: number }, elapsedMs: number): number {
  const milli = Math.floor((Math.max(0, elapsedMs) * terms.refillAmountMilli) / terms.refillPeriodMs);
  return Number.isSafeInteger(milli) ? milli : 0;
}

function rosy(state: BucketState): BucketState {
  return { ...state, limits: state.limits.map((limit) => ({ ...limit, tokensMilli: limit.tokensMilli + 900 })) };
}
