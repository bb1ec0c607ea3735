import type { Amount } from "../../domain/amounts.ts";
import { resetsAtMs } from "../../domain/bucket-operations.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import type { Ticket } from "../../domain/give-back.ts";
import { rulesOf } from "../../domain/kinds/table.ts";
import { type Crossed, type Crossing, crossing, type UsedPart } from "../../domain/thresholds.ts";
import type { Claim, Held } from "../../ports/bucket-store.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import { BN, namesOf } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { markIn, markText, periodOf } from "../item/mark-words.ts";
import { WriteBuilder } from "../item/write-builder.ts";

// What a take has to tell of a limit, and the write of its mark: pure.

/** Percentages of limits that takes have reached (marks.ts). */
export interface ThresholdMarks {
  /**
   * A take or a debit left the bucket in this state, as far as this process knows; `image`: its item, where it has only one and
   * that was seen with it.
   */
  look(of: Claim | Held, amounts: readonly Amount[], left: BucketState, readingMs: number, image?: Image): void;
  watch(listener: (crossed: Crossed) => void): () => void;
  /** Resolves when what was looked at so far is told, or will not be. */
  told(): Promise<void>;
}

/** What a take has used of one limit of a bucket. */
export interface Use {
  readonly limit: string;
  readonly used: UsedPart;
  /** The period that it was taken in. */
  readonly period: string;
  readonly readingMs: number;
  /** Of a quota: when that period ends. */
  readonly resetsAtMs: number | undefined;
}

/** What was taken of some amounts: nothing of a shadow limit that they did not fit. */
export function takenOf(amounts: readonly Amount[], { shadowed }: Pick<Ticket, "shadowed">): readonly Amount[] {
  return shadowed.length === 0 ? amounts : amounts.filter(({ limit }) => !shadowed.includes(limit));
}

/** Of one limit: what was used of it when a state was left, with an amount taken last. */
export function useOf(
  held: LimitState,
  state: BucketState,
  { milli, readingMs }: { readonly milli: number; readonly readingMs: number },
  calendar: Calendar,
): Use {
  const capacity = held.terms.capacityMilli;
  const after = capacity - availableMilli(state, held, readingMs);
  const before = Math.max(0, after - milli);
  const atMs = Math.max(readingMs, state.epochMs);
  // Of a bucket in shards the first of them has the marks, and its periods count.
  const first = (state.shards?.[0] && findLimit(state.shards[0], held.name)) ?? held;
  return {
    ...{ limit: held.name, used: { before, after, capacity }, period: periodOf(first, atMs, calendar), readingMs },
    resetsAtMs: resetsAtMs(held, atMs, calendar),
  };
}

/** The mark that a state says; undefined: none. */
export function toldText({ told }: LimitState, { period }: Use): string | undefined {
  return told === undefined ? undefined : markText({ percent: told, period });
}

/**
 * What is to be told of a use by what the item of shard 0 says; undefined: nothing, and the mark stays. `seen`: the mark as the
 * use itself met it. A mark of another period that has come since is of a later one: that of this use is over, and no mark is taken
 * back for it.
 */
export function dueOf(
  { limit }: Pick<LimitState, "limit">,
  { used, period }: Use,
  marks: { readonly now: Item[string] | undefined; readonly seen: Item[string] | undefined },
): Crossing | undefined {
  const mark = markIn(marks.now);
  const isOfPeriod = mark?.period === period;
  if (!isOfPeriod && marks.now !== marks.seen) return undefined;
  const told = isOfPeriod ? mark.percent : 0;
  const due = crossing(limit.notifyAt ?? NONE, told, used, rulesOf(limit));
  return due.tell.length === 0 && due.told === told ? undefined : due;
}

const NONE: readonly number[] = Object.freeze([]);

/**
 * Swaps a mark in for the one that the item has. The number alone would do: it changes with every mark, also with one that says
 * the same as that before it.
 */
export function markWrite(
  key: ItemKey,
  item: Item,
  { limit, period }: Use,
  { percent, number }: { readonly percent: number; readonly number: number },
): ItemWrite {
  const { th, tb } = namesOf(limit);
  const builder = new WriteBuilder().asSeen(BN, item).asSeen(th, item).asSeen(tb, item);
  return builder.set(th, markText({ percent, period })).set(tb, number).update(key, "exists", undefined);
}
