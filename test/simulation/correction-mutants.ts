import { missingOf, ticketOf } from "../../src/domain/bucket/give-back.ts";
import { type Amount, aboveZero, milliOf } from "../../src/domain/charge/amounts.ts";
import type { ChainLink } from "../../src/engine/acquire/chain-link.ts";
import { Planner } from "../../src/engine/acquire/planner.ts";
import type { BucketStore, Held, WriteReply } from "../../src/ports/bucket-store.ts";
import type { ItemWrite } from "../../src/ports/item-store.ts";
import { RF } from "../../src/protocol/item/attributes.ts";
import { calendar } from "./calendar.ts";
import { without } from "./code-mutants.ts";
import { inBuckets, inScope, type Mutant } from "./mutants.ts";
import { atOnce, overriding } from "./port.ts";

const TOO_MUCH = /were given back, and only -?\d+ were missing/;

/** Deliberate bugs of what is charged and given back without a lease. */
export const CORRECTION_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a give-back without a lease that lifts a limit above its capacity": {
    layer: "store",
    caughtAs: TOO_MUCH,
    spoil: inBuckets((buckets) => ({
      refund: (of, amounts, context) => givingMore(buckets, of, context, amounts, amounts),
    })),
  },
  "a give-back without a lease of what the period before has used": {
    layer: "store",
    caughtAs: TOO_MUCH,
    spoil: inBuckets((buckets) => ({
      refund: (of, amounts, context) => {
        const [state] = atOnce(buckets.read([of.bucket]));
        const isOver = state !== undefined && state.validUntilMs <= context.nowMs;
        return givingMore(buckets, of, context, amounts, isOver ? missingOf(state, amounts, state.epochMs) : []);
      },
    })),
  },
  "a give-back without a lease that gives less than is missing": {
    layer: "store",
    caughtAs: /were given back, and \d+ were missing all the time/,
    spoil: inBuckets((buckets) => ({
      refund: (of, amounts, context) => {
        const fewer = amounts.map(({ limit, milli }) => ({ limit, milli: Math.floor(milli / 2) }));
        return buckets.refund(of, fewer, context);
      },
    })),
  },
  "a give-back without a lease that is made again after its answer was lost": {
    layer: "client",
    caughtAs: /asked for \d+ of \w+ and moved \d+/,
    spoil: inBuckets((buckets) => ({
      refund: async (of, amounts, context) => {
        const reply = await buckets.refund(of, amounts, context);
        return reply.kind === "unavailable" ? buckets.refund(of, amounts, context) : reply;
      },
    })),
  },
  "a charge without a lease that is made again after its answer was lost": {
    layer: "client",
    caughtAs: /the charge of .* asked for \d+ of \w+ and moved \d+/,
    spoil: inBuckets((buckets) => ({
      debit: async (held, amounts, context) => {
        const reply = await buckets.debit(held, amounts, context);
        return reply.kind === "unavailable" ? buckets.debit(held, amounts, context) : reply;
      },
    })),
  },
  "a correction of what is let through by a bypass": {
    layer: "code",
    caughtAs: /does not follow from configuration/,
    spoil: () => {
      const { lateChain } = Planner.prototype;
      const enforced = (link: ChainLink): ChainLink => ({ ...link, access: "enforce" });
      return without(
        Planner.prototype,
        "lateChain",
        async function (this: Planner, ...asked: Parameters<typeof lateChain>) {
          return (await lateChain.apply(this, asked)).map(enforced);
        },
      );
    },
  },
  "a key of corrections that nobody remembers": {
    layer: "client",
    caughtAs: /under (one|a|the) key/,
    spoil: inScope(({ leases }) => ({
      leases: overriding(leases, { beginKey: () => ({ kind: "begun" }) }),
    })),
  },
};

const TOKENS = /^b_.*_tk$/;

/** Deliberate bugs of the same between the protocol and its items, or beside it. */
export const CORRECTION_ITEM_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a give-back without a lease that does not look at the room there is": {
    layer: "items",
    caughtAs: TOO_MUCH,
    spoil: (items) =>
      overriding(items, {
        write: (write, call) => items.write(write.trace?.form === "credit" ? unbounded(write) : write, call),
      }),
  },
  "a give-back without a lease that is made again after its answer was lost": {
    layer: "client",
    caughtAs: /asked for \d+ of \w+ and moved \d+/,
    spoil: inBuckets((buckets) => ({
      refund: async (of, amounts, context) => {
        const reply = await buckets.refund(of, amounts, context);
        return reply.kind === "unavailable" ? buckets.refund(of, amounts, context) : reply;
      },
    })),
  },
};

/** Without the bounds of what a limit holds, and the epoch that they go by. */
function unbounded(write: ItemWrite): ItemWrite {
  const isBound = ({ name, is }: ItemWrite["when"][number][number]) =>
    name === RF || (TOKENS.test(name) && is === "<=");
  return { ...write, when: write.when.filter((clause) => !clause.some(isBound)) };
}

/** A refund that gives further amounts besides, as far as they were asked for. */
function givingMore(
  buckets: BucketStore,
  of: Parameters<BucketStore["refund"]>[0],
  context: Parameters<BucketStore["refund"]>[2],
  asked: readonly Amount[],
  more: readonly Amount[],
): WriteReply {
  const reply = atOnce(buckets.refund(of, asked, context));
  if (reply.kind !== "applied") return reply;
  const { state, given = [] } = reply;
  const left = asked.map(({ limit, milli }) => ({
    limit,
    milli: Math.min(milli - milliOf(given, limit), milliOf(more, limit)),
  }));
  const rest = aboveZero(left);
  if (rest.length === 0) return reply;
  const held: Held = { ...of, ticket: ticketOf(state, rest, context.nowMs, calendar), bypass: false };
  const credited = atOnce(buckets.credit(held, rest, context));
  return credited.kind === "applied" ? { ...credited, given: [...given, ...rest] } : credited;
}
