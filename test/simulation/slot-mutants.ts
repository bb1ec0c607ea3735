import { holdMsOf } from "../../src/domain/limits/kinds/concurrent.ts";
import type { BucketStore, Claim, TakeReply } from "../../src/ports/bucket-store.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import { withBuckets } from "../limiter/slot-judge.ts";
import { ENGINE_MUTANTS, STORE_MUTANTS } from "../limiter/slot-mutants.ts";
import { slotMutants } from "../protocol/slot-mutants.ts";
import { inBuckets, type Mutant, type StoreMutant, stateOf } from "./mutants.ts";
import { atOnce } from "./port.ts";
import { LIMIT_NAMES } from "./profile.ts";

// Deliberate bugs of slots, in worlds that have some: those of the judges beside, and those that need a clock or a line of a world.

const HELD_OTHERWISE = /are held until|told to end|told to hold otherwise|renewed that are held no more|live until/;

/** On stores that apply a call as a whole. */
export const SLOT_STORE_MUTANTS: Readonly<Record<string, Mutant>> = {
  "a clock behind the epoch that is believed": {
    layer: "store",
    caughtAs: /told to end at/,
    spoil: inBuckets((buckets) => ({
      take: (claims, context) => buckets.take(claims.map(believing(buckets, context.nowMs)), context),
    })),
  },

  "a renewal to an earlier slice": {
    layer: "store",
    caughtAs: /a renewal is told to hold otherwise/,
    spoil: inBuckets((buckets) => ({
      renew: (held, amounts, context) => {
        const reply = atOnce(buckets.renew(held, amounts, context));
        if (reply.kind !== "renewed") return reply;
        const { bucket, set, origin } = held;
        atOnce(buckets.credit({ ...held, ticket: reply.ticket }, amounts, context));
        const claim: Claim = { bucket, set, origin, take: amounts, bypass: false, holdMs: 1 };
        const taken = atOnce(buckets.take([claim], { ...context, generation: undefined, atomic: false })) as TakeReply;
        const [answer] = taken === "stale" ? [] : taken;
        return { kind: "renewed", ticket: answer?.kind === "taken" ? answer.ticket : reply.ticket };
      },
    })),
  },

  ...fromStore("a ticket that ends later than its slice", HELD_OTHERWISE),
  ...fromStore("a give-back by its place alone", HELD_OTHERWISE),
  ...fromStore("a give-back without the beginning", HELD_OTHERWISE),
  ...fromStore("a give-back of settled slots that is not written", HELD_OTHERWISE),
  ...fromStore("a renewal that is told and not written", HELD_OTHERWISE),
  ...fromStore("a renewal that leaves the slot where it was, too", HELD_OTHERWISE),
  ...fromEngine("a settle that keeps the slot", /was settled, but \d+ slots of \w+ are held/),
};

/** On conditional writes. */
export const SLOT_ITEM_MUTANTS: Readonly<Record<string, Mutant>> = {
  ...fromItems("an end that is rounded down", /are held until|live until/),
  ...fromItems("a take without a lower bound", /more are held than there are after a take/),
  ...fromItems("a give-back by its place alone", HELD_OTHERWISE),
  ...fromItems("a renewal that is told and not written", HELD_OTHERWISE),
  ...fromItems("what is free cut at N", /are free and \d+ held of/),
};

function fromStore(bug: string, caughtAs: RegExp): Record<string, StoreMutant> {
  const spoiled = STORE_MUTANTS[bug];
  if (spoiled === undefined) throw new RangeError(`There is no mutant "${bug}".`);
  return { [bug]: { layer: "store", caughtAs, spoil: (store) => withBuckets(store, spoiled) } };
}

function fromEngine(bug: string, caughtAs: RegExp): Record<string, Mutant> {
  const spoil = ENGINE_MUTANTS[bug];
  if (spoil === undefined) throw new RangeError(`There is no mutant "${bug}".`);
  return { [bug]: { layer: "code", caughtAs, spoil } };
}

/** The same bug for each limit of a world. */
function fromItems(bug: string, caughtAs: RegExp): Record<string, Mutant> {
  const all = LIMIT_NAMES.map((name) => slotMutants(name)[bug]);
  const spoil = (items: ItemStore) => all.reduce((spoiled, one) => one?.(spoiled) ?? spoiled, items);
  return { [bug]: { layer: "items", caughtAs, spoil } };
}

/** A claim that holds from its reading on, also where the bucket's time is later: so much shorter. */
function believing(buckets: BucketStore, nowMs: number): (claim: Claim) => Claim {
  return (claim) => {
    const state = stateOf(buckets, claim);
    const behindMs = (state?.epochMs ?? nowMs) - nowMs;
    const holds = (state?.limits ?? []).flatMap(({ limit }) => (limit.holdMs === undefined ? [] : [holdMsOf(limit)]));
    if (behindMs <= 0 || holds.length === 0) return claim;
    return { ...claim, holdMs: Math.max(1, (claim.holdMs ?? Math.min(...holds)) - behindMs) };
  };
}
