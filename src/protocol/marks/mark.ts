import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Ticket } from "../../domain/bucket/give-back.ts";
import { markText, type Use } from "../../domain/bucket/mark-keeper.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { CallContext, Claim, Held } from "../../ports/bucket-store.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import { BN, namesOf } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import type { JobOutcome } from "../take/job.ts";

// Thresholds that a take has crossed, and the write of the mark that says so: pure.

export interface TakeUse {
  readonly amounts: readonly Amount[];
  readonly readingMs: number;
}

/** Observes the outcomes of takes. */
export interface TakeListener {
  /**
   * A take or a debit left the bucket in this state, as far as this process knows. `image`: the item, if the bucket has only one
   * and it was seen.
   */
  look(of: Claim | Held, used: TakeUse, left: BucketState, image?: Image): void;
}

/** Thresholds of limits that takes have crossed (marks.ts). */
export interface ThresholdMarks extends TakeListener {
  watch(listener: (crossed: Crossed) => void): () => void;
  /** Resolves when everything looked at so far is told, or will not be. */
  told(): Promise<void>;
}

/**
 * Collects the takes of a request until it is decided: takes that are undone tell nothing. Only the last take from a bucket
 * counts; earlier ones were given back.
 */
export class UndecidedTakes implements TakeListener {
  readonly #last = new Map<string, Parameters<TakeListener["look"]>>();
  readonly #listener: TakeListener;

  constructor(listener: TakeListener) {
    this.#listener = listener;
  }

  look(...take: Parameters<TakeListener["look"]>): void {
    const [{ bucket }] = take;
    this.#last.set(bucket.id, take);
  }

  /** All of them were taken, and stay. */
  decided(): void {
    for (const take of this.#last.values()) this.#listener.look(...take);
  }
}

/** The observer for the takes of a call: at once, or once the caller knows that they stay. */
export function listenerFor(marks: TakeListener, { undecided }: Pick<CallContext, "undecided">): TakeListener {
  if (undecided === undefined) return marks;
  return { look: (...take) => undecided.add(() => marks.look(...take)) };
}

/**
 * The amounts of a take, and the reading to look at it by. After a lost answer the item shows what later readings and give-backs
 * left: by the take's own reading more would seem used, and the use before it is unknown.
 */
export function usedBy(
  amounts: readonly Amount[],
  { readingMs, image, orLeft }: Extract<JobOutcome, { kind: "taken" }>,
): TakeUse {
  if (orLeft === undefined) return { amounts, readingMs };
  const unknown = amounts.map(({ limit }) => ({ limit, milli: 0 }));
  return { amounts: unknown, readingMs: Math.max(readingMs, image.state.writtenMs ?? 0) };
}

/** The amounts without those that a shadow limit let pass. */
export function takenOf(amounts: readonly Amount[], { shadowed }: Pick<Ticket, "shadowed">): readonly Amount[] {
  return shadowed.length === 0 ? amounts : amounts.filter(({ limit }) => !shadowed.includes(limit));
}

/** Swaps a mark in for the one on the item. Pinning the number alone would do: it changes with every mark, even if the text is the same. */
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
