import type { Terms } from "../../src/bucket/balance.ts";

/**
 * The slow, obvious bucket that the arithmetic is compared with: time only moves forward, every step is taken, and nothing
 * is rounded, because one millitoken is `unitsPerMilli` units, a multiple of every period that occurs.
 */
export class ExactBucket {
  #terms: Terms;
  #units: bigint;
  #atMs: number;
  readonly #unitsPerMilli: bigint;

  constructor(terms: Terms, unitsPerMilli: bigint, atMs: number) {
    this.#terms = terms;
    this.#unitsPerMilli = unitsPerMilli;
    this.#units = this.#brim();
    this.#atMs = atMs;
  }

  /** Lets time act up to `atMs`. */
  advance(atMs: number): void {
    const unitsPerMs =
      (BigInt(this.#terms.refillAmountMilli) * this.#unitsPerMilli) / BigInt(this.#terms.refillPeriodMs);
    this.#units = lesser(this.#brim(), this.#units + unitsPerMs * BigInt(atMs - this.#atMs));
    this.#atMs = atMs;
  }

  /** Debits and credits; a credit may stand over the brim until time or a debit comes by. */
  add(milli: number): void {
    const cut = milli < 0 ? lesser(this.#brim(), this.#units) : this.#units;
    this.#units = cut + BigInt(milli) * this.#unitsPerMilli;
  }

  change(terms: Terms): void {
    this.#terms = terms;
    this.#units = lesser(this.#brim(), this.#units);
  }

  /** The level, rounded down. */
  floorMilli(): bigint {
    return floorDiv(lesser(this.#brim(), this.#units), this.#unitsPerMilli);
  }

  #brim(): bigint {
    return BigInt(this.#terms.capacityMilli) * this.#unitsPerMilli;
  }
}

/** A number of units per millitoken in which a millisecond of each of these terms is whole. */
export function unitsPerMilliOf(all: readonly Terms[]): bigint {
  return [...new Set(all.map((terms) => terms.refillPeriodMs))].reduce((product, ms) => product * BigInt(ms), 1n);
}

export function floorDiv(a: bigint, b: bigint): bigint {
  return a >= 0n ? a / b : -((-a + b - 1n) / b);
}

export function ceilDiv(a: bigint, b: bigint): bigint {
  return -floorDiv(-a, b);
}

export function lesser(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
