import { canonical } from "../domain/lease/idempotency.ts";
import type { Digest } from "../ports/system.ts";

/** Rows as they were read or written, in any order: their number, a sum of their digests, and sums of what they count. */
export interface Tally {
  readonly count: number;
  readonly digest: string;
  /** Whole numbers as text, for they may pass 2^53. */
  readonly sums: Readonly<Record<string, string>>;
}

export const NOTHING: Tally = { count: 0, digest: "0", sums: {} };

/** A tally that is being made. */
export class Tallying {
  #count: number;
  #digest: bigint;
  readonly #sums: Map<string, bigint>;
  readonly #digester: Digest;

  constructor(digester: Digest, { count, digest, sums }: Tally) {
    this.#digester = digester;
    this.#count = count;
    this.#digest = BigInt(digest);
    this.#sums = new Map(Object.entries(sums).map(([name, sum]) => [name, BigInt(sum)]));
  }

  get count(): number {
    return this.#count;
  }

  add(row: unknown, sums: Iterable<readonly [name: string, count: number]>): void {
    this.#count += 1;
    this.#digest = (this.#digest + numberOf(this.#digester.of(canonical(row)))) % MODULUS;
    for (const [name, count] of sums) this.#sums.set(name, (this.#sums.get(name) ?? 0n) + BigInt(count));
  }

  tally(): Tally {
    const sums = Object.fromEntries(
      [...this.#sums].filter(([, sum]) => sum !== 0n).map(([name, sum]) => [name, String(sum)]),
    );
    return { count: this.#count, digest: String(this.#digest), sums };
  }
}

const MODULUS = 2n ** 64n;

/** The number of a url-safe digest, as far as it goes. */
function numberOf(text: string): bigint {
  let number = 0n;
  for (let i = 0; i < text.length; i++) number = (number * 131n + BigInt(text.charCodeAt(i))) % MODULUS;
  return number;
}

export function isSameTally(a: Tally, b: Tally): boolean {
  return a.count === b.count && a.digest === b.digest;
}
