import type { Random } from "../ports/system.ts";

/**
 * Random numbers that can be replayed: the same seed gives the same numbers on every machine (sfc32).
 *
 * ```ts
 * const random = new SeededRandom(42);
 * random.integer(1, 6);
 * ```
 */
export class SeededRandom implements Random {
  readonly #words: Uint32Array;
  #ids = 0;

  constructor(seed: number) {
    this.#words = Uint32Array.of(seed, Math.floor(seed / 2 ** 32), 0x9e3779b9, 1);
    // Neighbouring seeds begin alike; after some rounds they have nothing in common.
    for (let i = 0; i < 15; i++) this.next();
  }

  /** A number in [0, 1). */
  next(): number {
    const words = this.#words;
    const [a, b, c, counter] = words as unknown as [number, number, number, number];
    const sum = (a + b + counter) >>> 0;
    words[3] = counter + 1;
    words[0] = b ^ (b >>> 9);
    words[1] = c + (c << 3);
    words[2] = ((c << 21) | (c >>> 11)) + sum;
    return sum / 2 ** 32;
  }

  /** A whole number from `min` to `max`, both included. */
  integer(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** One of the items, each as likely as the others. */
  pick<Item>(items: readonly Item[]): Item {
    if (items.length === 0) throw new RangeError("Nothing to pick from: the list is empty.");
    return items[this.integer(0, items.length - 1)] as Item;
  }

  /** One of the values, each as likely as its weight says. */
  weighted<Value>(choices: readonly (readonly [weight: number, value: Value])[]): Value {
    let left = this.next() * choices.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, value] of choices) {
      left -= weight;
      if (left < 0) return value;
    }
    throw new RangeError("Nothing to choose from: no choice has a weight above 0.");
  }

  /** A new identifier that is safe in URLs. One source never gives the same twice. */
  id(): string {
    return `r${(this.#ids++).toString(36)}-${this.integer(0, 0xffffffff).toString(36)}`;
  }

  /** Another source that follows from this one. Drawing from it does not change the numbers of this one. */
  fork(): SeededRandom {
    return new SeededRandom(this.integer(0, 2 ** 48));
  }
}
