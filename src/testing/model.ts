import type { Terms } from "../bucket/balance.ts";

export type WriteKind = "take" | "debit" | "credit";

/** A moment at which a limit held no more than its brim, whatever came before. */
interface Mark {
  /** r(its reading): what had dripped in by then since the beginning, in units. */
  readonly dripped: bigint;
  readonly brim: bigint;
  /** What was net taken before it, in units. */
  readonly takenBefore: bigint;
  /** A take or debit; otherwise the birth of the limit, or a change of its terms. */
  readonly spends: boolean;
}

/** Refill periods that are exact together with all that divide them: seconds, minutes, hours and days among them. */
const PERIODS_MS: readonly number[] = [7_000, 11_000, 86_400_000];

/**
 * The slow, obvious limiter: nothing is rounded, nothing is summed up. It keeps the list of all that was taken and asks,
 * for each entry, how much can be left if the bucket was full just then. What the promise of the acquire protocol says for
 * every run of writes is here the definition of the level; that is what makes it an oracle.
 */
export class ModelLimit {
  /** One millitoken in units: a multiple of every refill period, so that a millisecond of refill is whole. */
  readonly #unitsPerMilli: bigint;
  readonly #marks: Mark[] = [];
  #terms: Terms;
  /** Readings before it count as it. */
  #epochMs: number;
  #drippedBefore = 0n;
  #sinceMs: number;
  #taken = 0n;

  constructor(terms: Terms, atMs: number, periodsMs: readonly number[] = PERIODS_MS) {
    this.#unitsPerMilli = periodsMs.map(BigInt).reduce((all, one) => (all * one) / divisor(all, one), 1n);
    this.#terms = this.#checked(terms);
    this.#epochMs = atMs;
    this.#sinceMs = atMs;
    this.#mark(atMs, terms.capacityMilli, false);
  }

  get terms(): Terms {
    return this.#terms;
  }

  /** Takes, debits and give-backs in the order in which the store applied them; `readingMs` is the writer's clock. */
  write(kind: WriteKind, milli: number, readingMs: number): void {
    if (kind !== "credit") this.#mark(readingMs, this.#terms.capacityMilli, true);
    this.#taken += this.#units(kind === "credit" ? -milli : milli);
  }

  /** New terms from `atMs` on: the time before counts at the old ones, what is there is kept, as far as there is room. */
  change(terms: Terms, atMs: number): void {
    this.moveEpoch(atMs);
    this.#mark(atMs, Math.min(terms.capacityMilli, this.#terms.capacityMilli), false);
    this.#drippedBefore = this.#dripped(atMs);
    this.#sinceMs = this.#epochMs;
    this.#terms = this.#checked(terms);
  }

  /** The store tells this limit from a later instant now: earlier readings count as that one. */
  moveEpoch(toMs: number): void {
    this.#epochMs = Math.max(this.#epochMs, toMs);
  }

  /** What the limit holds at a reading, rounded down to millitokens; negative in debt. */
  levelMilli(readingMs: number): bigint {
    const capacity = this.#units(this.#terms.capacityMilli);
    const left = this.#left(readingMs, () => true);
    if (left >= capacity) return BigInt(this.#terms.capacityMilli);
    return floorDiv(left, this.#unitsPerMilli);
  }

  /**
   * How far the writes so far stay below the promise at a reading, in millitokens: the least, over every take or debit so
   * far, of capacity + r(reading) - r(of that one) - (taken + debited - given back from it on). Negative: over-admitted.
   */
  slackMilli(readingMs: number): bigint {
    // Rounded up: the promise is to the next millitoken.
    return -floorDiv(-this.#left(readingMs, (mark) => mark.spends), this.#unitsPerMilli);
  }

  #left(readingMs: number, counts: (mark: Mark) => boolean): bigint {
    let least: bigint | undefined;
    const dripped = this.#dripped(readingMs);
    for (const mark of this.#marks) {
      if (!counts(mark)) continue;
      const left = mark.brim + (dripped - mark.dripped) - (this.#taken - mark.takenBefore);
      if (least === undefined || left < least) least = left;
    }
    return least ?? 0n;
  }

  #mark(readingMs: number, brimMilli: number, spends: boolean): void {
    const dripped = this.#dripped(readingMs);
    this.#marks.push({ dripped, brim: this.#units(brimMilli), takenBefore: this.#taken, spends });
  }

  #dripped(readingMs: number): bigint {
    const { refillAmountMilli, refillPeriodMs } = this.#terms;
    const passedMs = Math.max(readingMs, this.#epochMs) - this.#sinceMs;
    return this.#drippedBefore + (BigInt(passedMs) * this.#units(refillAmountMilli)) / BigInt(refillPeriodMs);
  }

  #units(milli: number): bigint {
    return BigInt(milli) * this.#unitsPerMilli;
  }

  #checked(terms: Terms): Terms {
    if (this.#unitsPerMilli % BigInt(terms.refillPeriodMs) === 0n) return terms;
    throw new RangeError(
      `A refill period of ${terms.refillPeriodMs} ms is not exact in this model; name it among the model's periods.`,
    );
  }
}

// Floor of a / b, also for negative a; b > 0.
function floorDiv(a: bigint, b: bigint): bigint {
  return a >= 0n ? a / b : -((-a + b - 1n) / b);
}

function divisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : divisor(b, a % b);
}
