import { NONCE_SLOTS } from "./attributes.ts";

const COUNTER = 2 ** 20;

/** The number that a bucket counts its resets from: no other bucket's, and with room to count on. */
export function birthOf(birth: number): number {
  return (birth % 2 ** 46) * 64;
}

/** Numbers by which a process knows its own writes again. No two processes share them, but by a chance of one in 2^33. */
export class Nonces {
  /** The slot that this process writes into; others may use the same. */
  readonly slot: number;
  readonly #base: number;
  #count = 0;

  /** `random`: a number in [0, 1). */
  constructor(random: () => number) {
    const own = Math.floor(random() * 2 ** 33);
    this.slot = own % NONCE_SLOTS;
    this.#base = own * COUNTER;
  }

  next(): number {
    this.#count = (this.#count + 1) % COUNTER;
    return this.#base + this.#count;
  }
}
