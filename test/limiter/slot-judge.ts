import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { withoutShadowed } from "../../src/domain/bucket/bucket-questions.ts";
import type { BucketState } from "../../src/domain/bucket/bucket-state.ts";
import { isSlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import { heldMilli } from "../../src/domain/bucket/holds.ts";
import { holdMsOf } from "../../src/domain/limits/kinds/concurrent.ts";
import { rulesOf } from "../../src/domain/limits/kinds/table.ts";
import type { BucketStore, Claim, Held, TakeReply } from "../../src/ports/bucket-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { balanceProblems, coverProblems, ToldHolds, takenProblems } from "../simulation/slot-rules.ts";

// The judge of slots: it keeps every hold by what its process was told, and looks at the bucket after each call that the store has applied.

export { ToldHolds };

/** Looks at buckets, and remembers the first thing that is wrong. */
export class SlotJudge {
  readonly told: ToldHolds[] = [];
  problem: string | undefined;
  /** Calls that a process has begun and not heard of. */
  underWay = 0;
  /** Nothing is lost, nobody dies, and no limit becomes another kind: what is free is what nobody holds. */
  readonly #isExact: boolean;

  constructor(isExact: boolean) {
    this.#isExact = isExact;
  }

  found(problem: string): void {
    this.problem ??= problem;
  }

  /** A bucket after a call was applied, with the names of limits that it took from. */
  look(id: string, state: BucketState, after: string, taken: readonly string[] = []): void {
    for (const { name, limit, terms, tokensMilli, slices, quota } of state.limits) {
      if (!rulesOf(limit).holdsSlots) continue;
      const tell = (problems: readonly string[]) => {
        for (const problem of problems) this.found(`of ${name} (${id}) ${problem}, after ${after}`);
      };
      tell(balanceProblems(tokensMilli, terms.capacityMilli, slices));
      if (taken.includes(name)) tell(takenProblems(tokensMilli));
      const begun = { resets: quota?.resets ?? 0, epochMs: state.epochMs };
      const live = this.told.flatMap((told) => told.liveIn(id, name, begun));
      tell(coverProblems(slices, live));
      const [held, sum] = [heldMilli(slices), heldMilli(live.map((one) => ({ place: 0, ...one })))];
      if (this.#isExact && this.underWay === 1 && after === "give-back" && held !== sum) {
        this.found(`${held} are held and ${sum} live (${id}) after ${after}`);
      }
    }
  }
}

/** The store as a process has it: what it is told of slots is noted. */
export function told(store: Store, told: ToldHolds, judge: SlotJudge): Store {
  const during = async <Reply>(call: () => Promise<Reply>): Promise<Reply> => {
    judge.underWay++;
    try {
      return await call();
    } finally {
      judge.underWay--;
    }
  };
  return withBuckets(store, (buckets) =>
    overriding(withoutShortcuts(buckets), {
      take: (claims, context) =>
        during(async () => {
          const reply = await buckets.take(claims, context);
          if (reply !== "stale") noteTaken(claims, reply, told);
          return reply;
        }),
      credit: (held, amounts, context) =>
        during(async () => {
          if (!held.bypass) told.addAll(held.bucket.id, held.ticket, amounts, -1);
          return buckets.credit(held, amounts, context);
        }),
      renew: (held, amounts, context) =>
        during(async () => {
          const reply = await buckets.renew(held, amounts, context);
          if (reply.kind === "renewed") {
            told.addAll(held.bucket.id, held.ticket, amounts, -1);
            told.addAll(held.bucket.id, reply.ticket, amounts, 1);
          }
          return reply;
        }),
    }),
  );
}

function noteTaken(claims: readonly Claim[], reply: Exclude<TakeReply, "stale">, told: ToldHolds): void {
  if (!reply.every(({ kind }) => kind === "taken")) return;
  for (const [i, answer] of reply.entries()) {
    const { bucket, take } = claims[i] as Claim;
    if (answer.kind === "taken") told.addAll(bucket.id, answer.ticket, take, 1);
  }
}

/** The store itself: the judge looks at each bucket that a call has changed. */
export function judged(store: Store, judge: SlotJudge): Store {
  return withBuckets(store, (buckets) => {
    const look = async (
      of: readonly Pick<Held, "bucket">[],
      after: string,
      taken: readonly (readonly string[])[] = [],
    ) => {
      const states = await buckets.read(of.map(({ bucket }) => bucketKey(bucket.entityId, bucket.resource)));
      for (const [i, state] of states.entries())
        if (state !== undefined) judge.look(of[i]?.bucket.id ?? "", state, after, taken[i]);
    };
    return overriding(withoutShortcuts(buckets), {
      take: async (claims, context) => {
        const reply = await buckets.take(claims, context);
        const isTaken = reply !== "stale" && reply.every(({ kind }) => kind === "taken");
        if (isTaken) lasting(claims, reply, context.nowMs, judge);
        if (isTaken) await look(claims, "take", takenOf(claims, reply));
        else await look(claims, "a refusal");
        return reply;
      },
      credit: async (held, amounts, context) => {
        const reply = await buckets.credit(held, amounts, context);
        await look([held], "give-back");
        return reply;
      },
      renew: async (held, amounts, context) => {
        const before = latestEnds(held.ticket);
        const reply = await buckets.renew(held, amounts, context);
        if (reply.kind === "renewed") {
          for (const [limit, endMs] of latestEnds(reply.ticket)) {
            if (endMs < (before.get(limit) ?? 0)) judge.found(`a renewal shortened a hold of ${limit}`);
          }
        }
        await look([held], "renewal");
        return reply;
      },
    });
  });
}

/** Names of the limits that each claim took from. Another may be overdrawn by a change, and a shadow that is passes the claim by. */
function takenOf(claims: readonly Claim[], reply: Exclude<TakeReply, "stale">): readonly (readonly string[])[] {
  return reply.map((answer, i) => {
    if (answer.kind !== "taken") return [];
    const taken = withoutShadowed(claims[i]?.take ?? [], answer.ticket.shadowed);
    return taken.filter(({ milli }) => milli > 0).map(({ limit }) => limit);
  });
}

/** A hold lasts at least as long as it was asked for. */
function lasting(claims: readonly Claim[], reply: Exclude<TakeReply, "stale">, nowMs: number, judge: SlotJudge): void {
  for (const [i, answer] of reply.entries()) {
    if (answer.kind !== "taken") continue;
    for (const pin of answer.ticket.pins.filter(isSlotPin)) {
      const limit = answer.state.limits.find(({ name }) => name === pin.limit)?.limit;
      if (limit === undefined) continue;
      const holdMs = Math.min(claims[i]?.holdMs ?? Number.POSITIVE_INFINITY, holdMsOf(limit));
      if (pin.endMs < nowMs + holdMs) judge.found(`a hold of ${holdMs} ms ends after ${pin.endMs - nowMs} ms`);
      if (pin.endMs >= Math.max(nowMs, answer.state.epochMs) + (holdMsOf(limit) * 5) / 4 + 1) {
        if (answer.state.limits.every(({ slices }) => slices.length < 8))
          judge.found("a hold ends later than 5/4 of its time");
      }
    }
  }
}

function latestEnds(ticket: Ticket): ReadonlyMap<string, number> {
  const ends = new Map<string, number>();
  for (const { limit, endMs } of ticket.pins.filter(isSlotPin)) ends.set(limit, Math.max(endMs, ends.get(limit) ?? 0));
  return ends;
}

/** A store whose buckets are other ones. */
export function withBuckets(store: Store, of: (buckets: BucketStore) => BucketStore): Store {
  return overriding(store, {
    scope: (id: string) => {
      const scoped = store.scope(id);
      return overriding(scoped, { buckets: of(scoped.buckets) });
    },
  });
}

/** All calls of a port, without those that answer at once: they would pass the judge by. */
export function withoutShortcuts(buckets: BucketStore): BucketStore {
  return overriding(buckets, { takeSync: undefined, takeOne: undefined } as unknown as Partial<BucketStore>);
}
