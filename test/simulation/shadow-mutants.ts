import type { Amount } from "../../src/domain/charge/amounts.ts";
import { EventPublisher } from "../../src/engine/limiter/event-publisher.ts";
import type { Claim, TakeReply } from "../../src/ports/bucket-store.ts";
import type { Clause, ItemStore, ItemWrite, TracePart } from "../../src/ports/item-store.ts";
import { namesOf } from "../../src/protocol/item/attributes.ts";
import { without } from "./code-mutants.ts";
import { heldOf, inBuckets, inScope, type Mutant } from "./mutants.ts";
import { atOnce, overriding } from "./port.ts";

/** Deliberate bugs about shadows. */
export const SHADOW_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a shadow that debits": {
    layer: "store",
    caughtAs: /holds -\d+ millitokens more than the model/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) =>
        answered(atOnce(buckets.take(claims, context)), claims, (answer, claim) => {
          const due = claim.take.filter(({ limit }) => answer.shadowed.includes(limit));
          if (due.length === 0) return answer;
          const reply = atOnce(buckets.debit(heldOf(claim, answer), due, context));
          return reply.kind === "applied" ? { ...answer, state: reply.state } : answer;
        }),
    })),
  },

  "charges that are published as they were asked for": {
    layer: "code",
    caughtAs: /events of .* come to \d+, and usage to \d+/,
    spoil: () =>
      without(EventPublisher.prototype, "consumed", function (this: EventPublisher, { bucket, take }: Claim) {
        this.charged(bucket, take, "consume");
      }),
  },

  "a shadow that lets by what fits": {
    layer: "store",
    caughtAs: /\d+ passed by the shadow \w+, which held/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) =>
        answered(atOnce(buckets.take(claims, context)), claims, (answer, claim) => {
          const due = claim.take.filter(({ limit, milli }) => milli > 0 && isShadow(claim, limit));
          if (due.length === 0 || answer.shadowed.length > 0 || claim.bypass) return answer;
          const reply = atOnce(buckets.credit(heldOf(claim, answer), due, context));
          const names = due.map(({ limit }) => limit);
          return reply.kind === "applied" ? withNames({ ...answer, state: reply.state }, names) : answer;
        }),
    })),
  },

  "a shadow that does not name what it would refuse": {
    layer: "store",
    caughtAs: /\d+ were taken from the shadow \w+, which held/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) =>
        answered(atOnce(buckets.take(claims, context)), claims, (answer) => withNames(answer, [])),
    })),
  },

  "a shadow that is asked without its floor": {
    layer: "store",
    caughtAs: /\d+ were taken from the shadow \w+, which held/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) =>
        atOnce(
          buckets.take(
            claims.map(({ leavePercent, ...claim }) =>
              // What a hard limit leaves is another question.
              leavePercent === undefined || claim.take.some(({ limit }) => !isShadow(claim, limit))
                ? { ...claim, ...(leavePercent === undefined ? {} : { leavePercent }) }
                : claim,
            ),
            context,
          ),
        ),
    })),
  },

  "a shadow that counts nothing": {
    layer: "store",
    caughtAs: /usage of .* passed by is 0, not \d+/,
    spoil: inScope(({ usage }) => ({
      usage: overriding(usage, {
        query: async (...args) => {
          const page = await usage.query(...args);
          return { ...page, items: page.items.map((one) => ({ ...one, wouldRefuse: {} })) };
        },
      }),
    })),
  },

  "a shadow that refuses": {
    layer: "store",
    caughtAs: /refused although everything fits|is refused by the shadow/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const hard = claims.map((claim) => ({
          ...claim,
          set: { ...claim.set, limits: claim.set.limits.map(madeHard) },
        }));
        return atOnce(buckets.take(hard, context));
      },
    })),
  },

  "a lease that is not told what it passed by": {
    layer: "client",
    caughtAs: /were charged to a lease that passed by it|gave back \d+ of \w+ more than it took/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => {
        const reply = buckets.take(claims, context);
        const unnamed = (told: TakeReply) => answered(told, claims, (answer) => withNames(answer, []));
        return reply instanceof Promise ? reply.then(unnamed) : unnamed(reply);
      },
    })),
  },
};

type Taken = Extract<Exclude<TakeReply, "stale">[number], { readonly kind: "taken" }>;

function answered(
  reply: TakeReply,
  claims: readonly Claim[],
  change: (answer: Taken, claim: Claim) => Taken,
): TakeReply {
  if (reply === "stale") return reply;
  return reply.map((answer, i) => (answer.kind === "taken" ? change(answer, claims[i] as Claim) : answer));
}

function withNames(answer: Taken, shadowed: readonly string[]): Taken {
  return { ...answer, shadowed, ticket: { ...answer.ticket, shadowed } };
}

function isShadow({ set }: Pick<Claim, "set">, limit: string): boolean {
  return set.limits.some(({ name, shadow }) => name === limit && shadow === true);
}

function madeHard<One extends { readonly shadow?: true }>({ shadow: _, ...limit }: One): Omit<One, "shadow"> {
  return limit;
}

/** The same between the protocol and its items: of every shadow that a write passed by. */
export const SHADOW_ITEM_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a shadow on an item that debits": {
    layer: "items",
    caughtAs: /holds -\d+ millitokens more than the model/,
    spoil: rewriting((write) => {
      if (write.trace?.form !== "take") return write;
      const passed = passedIn(write).filter(({ limit }) => !(namesOf(limit).tk in write.set));
      const debits = passed.map(({ limit, milli }) => [
        namesOf(limit).tk,
        Number(write.add[namesOf(limit).tk] ?? 0) - milli,
      ]);
      return { ...write, add: { ...write.add, ...Object.fromEntries(debits) } };
    }),
  },
  "a shadow that is not bounded from above": {
    layer: "items",
    caughtAs: /\d+ passed by the shadow \w+, which held/,
    spoil: rewriting((write) => {
      const names = passedIn(write).map(({ limit }) => namesOf(limit).tk);
      return { ...write, when: write.when.filter((clause) => !clause.some((one) => isBound(one, names, "<"))) };
    }),
  },
  "a shadow that takes what is not there": {
    layer: "items",
    caughtAs: /\d+ were taken from the shadow \w+, which held/,
    spoil: rewriting((write) => {
      const taken = partsOf(write).flatMap(({ of, amounts, shadowed = [] }) =>
        amounts.filter(({ limit }) => isShadow(of as Claim, limit) && !shadowed.includes(limit)),
      );
      const names = taken.map(({ limit }) => namesOf(limit).tk);
      return { ...write, when: write.when.filter((clause) => !clause.some((one) => isBound(one, names, ">="))) };
    }),
  },
  "a shadow whose count is left out": {
    layer: "items",
    caughtAs: /would have refused went up by 0, not by \d+/,
    spoil: rewriting((write) => leftOut(write, passedIn(write))),
  },
  "a count of a shadow that an undone request keeps": {
    layer: "items",
    caughtAs: /would have refused went up by 0, not by -\d+/,
    spoil: rewriting((write) => {
      const undone = (write.trace?.parts ?? []).filter(({ undoes }) => undoes !== undefined);
      return leftOut(
        write,
        undone.flatMap(({ shadowed = [] }) => shadowed.map((limit) => ({ limit }))),
      );
    }),
  },
};

function rewriting(change: (write: ItemWrite) => ItemWrite): (items: ItemStore) => ItemStore {
  return (items) =>
    overriding(items, {
      write: (write, call) => items.write(change(write), call),
      transact: (writes, options, call) => items.transact(writes.map(change), options, call),
    });
}

function partsOf({ trace }: ItemWrite): readonly TracePart[] {
  return (trace?.parts ?? []).filter(({ kind }) => kind === "take");
}

function passedIn(write: ItemWrite): readonly Amount[] {
  return partsOf(write).flatMap(({ amounts, shadowed = [] }) =>
    amounts.filter(({ limit }) => shadowed.includes(limit)),
  );
}

function isBound({ name, is }: Clause[number], names: readonly string[], comparison: string): boolean {
  return names.includes(name) && is === comparison;
}

function leftOut(write: ItemWrite, limits: readonly { readonly limit: string }[]): ItemWrite {
  const names = limits.map(({ limit }) => namesOf(limit).wr);
  const kept = <Value>(values: Readonly<Record<string, Value>>) =>
    Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
  return { ...write, add: kept(write.add), set: kept(write.set) };
}
