import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Ticket } from "../../domain/bucket/give-back.ts";
import { markText, type Use } from "../../domain/bucket/mark-words.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { CallContext, Claim, Held } from "../../ports/bucket-store.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import { BN, namesOf } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import type { JobOutcome } from "../take/job.ts";

// What a take has to tell of a limit, and the write of its mark: pure.

/** What a take used, by which reading. */
export interface TakeUse {
  readonly amounts: readonly Amount[];
  readonly readingMs: number;
}

/** Who hears what takes have left. */
export interface TakeListener {
  /**
   * A take or a debit left the bucket in this state, as far as this process knows; `image`: its item, where it has only one and
   * that was seen with it.
   */
  look(of: Claim | Held, used: TakeUse, left: BucketState, image?: Image): void;
}

/** Percentages of limits that takes have reached (marks.ts). */
export interface ThresholdMarks extends TakeListener {
  watch(listener: (crossed: Crossed) => void): () => void;
  /** Resolves when what was looked at so far is told, or will not be. */
  told(): Promise<void>;
}

/**
 * What the takes of a request left, until it is decided: those that are undone tell nothing. Of several takes from one bucket the last
 * counts; the others were given back.
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

/** Who hears what takes of a call have left: at once, or once somebody knows that they stay. */
export function listenerOf(marks: TakeListener, { undecided }: Pick<CallContext, "undecided">): TakeListener {
  if (undecided === undefined) return marks;
  return { look: (...take) => undecided.add(() => marks.look(...take)) };
}

/**
 * What a take used, and by which reading it is looked at. After a lost answer its item shows what later readings and give-backs left: by its own
 * reading more would be used than was, and what was used before it is not known.
 */
export function usedBy(
  amounts: readonly Amount[],
  { readingMs, image, orLeft }: Extract<JobOutcome, { kind: "taken" }>,
): TakeUse {
  if (orLeft === undefined) return { amounts, readingMs };
  const unknown = amounts.map(({ limit }) => ({ limit, milli: 0 }));
  return { amounts: unknown, readingMs: Math.max(readingMs, image.state.writtenMs ?? 0) };
}

/** What was taken of some amounts: nothing of a shadow limit that they did not fit. */
export function takenOf(amounts: readonly Amount[], { shadowed }: Pick<Ticket, "shadowed">): readonly Amount[] {
  return shadowed.length === 0 ? amounts : amounts.filter(({ limit }) => !shadowed.includes(limit));
}

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
