import { NO_PAST, type Past } from "./model-period.ts";

/** What a write says of slots besides how many: for how long they are to be held, or in which slice they are. */
export interface SlotWrite {
  readonly holdMs?: number | undefined;
  readonly endMs?: number | undefined;
}

/** A slice as a store has it. */
export interface StoredSlice {
  readonly place: number;
  readonly endMs: number;
  readonly heldMilli: number;
}

/** So many ends are told apart at most. */
const ENDS_MAX = 8;

/** The slots of one limit that are held, by when they end: a list of holds and nothing else, whatever kind the limit is meanwhile. */
export class HeldSlots {
  /** By end, also those of which nothing is held any more. */
  readonly #held = new Map<number, bigint>();
  /** Where the last hold or renewal went. */
  latestEndMs: number | undefined;

  static of(slices: readonly StoredSlice[]): HeldSlots {
    const held = new HeldSlots();
    for (const { endMs, heldMilli } of slices) held.#held.set(endMs, BigInt(heldMilli));
    return held;
  }

  copy(): HeldSlots {
    const copy = new HeldSlots();
    for (const [endMs, milli] of this.#held) copy.#held.set(endMs, milli);
    return copy;
  }

  /** Held beyond an instant. */
  milliAfter(atMs: number): bigint {
    let sum = 0n;
    for (const [endMs, milli] of this.#held) if (endMs > atMs) sum += milli;
    return sum;
  }

  /** The end of the first slice that ends after an instant; `Infinity` where none does. */
  nextEndAfter(atMs: number): number {
    return Math.min(Infinity, ...[...this.#held.keys()].filter((endMs) => endMs > atMs));
  }

  /** All that ended by then is gone. */
  end(atMs: number): void {
    for (const endMs of this.#held.keys()) if (endMs <= atMs) this.#held.delete(endMs);
  }

  hold(milli: number, endMs: number): void {
    let into = endMs;
    // With no place left it joins what ends next; where nothing ends later, the last slice is moved up.
    if (!this.#held.has(endMs) && this.#held.size >= ENDS_MAX) {
      const nextMs = this.nextEndAfter(endMs);
      if (nextMs < Infinity) into = nextMs;
      else {
        const lastMs = Math.max(...this.#held.keys());
        this.#held.set(endMs, this.#held.get(lastMs) ?? 0n);
        this.#held.delete(lastMs);
      }
    }
    this.#held.set(into, (this.#held.get(into) ?? 0n) + BigInt(milli));
    this.latestEndMs = into;
  }

  /** Whether so many are held until that end. */
  has(endMs: number | undefined, milli: number): boolean {
    return (this.#held.get(endMs ?? Number.NaN) ?? -1n) >= BigInt(milli);
  }

  /** Out of their own slice, or nowhere. */
  giveBack(endMs: number | undefined, milli: number): boolean {
    if (endMs === undefined || !this.has(endMs, milli)) return false;
    this.#held.set(endMs, (this.#held.get(endMs) ?? 0n) - BigInt(milli));
    return true;
  }

  /** Held until `toMs` from now on, never less long. False: they were not held any more. */
  renew(endMs: number, milli: number, toMs: number): boolean {
    this.latestEndMs = endMs;
    if (!this.has(endMs, milli)) return false;
    if (toMs <= endMs) return true;
    // With no place left, its own slice would be moved, with what others hold in it.
    const isFull = !this.#held.has(toMs) && this.#held.size >= ENDS_MAX;
    if (isFull && this.nextEndAfter(toMs) === Infinity && Math.max(...this.#held.keys()) === endMs) return true;
    this.giveBack(endMs, milli);
    this.hold(milli, toMs);
    return true;
  }

  clear(): void {
    this.#held.clear();
  }

  /** How much ends when, of what has ended by an instant. */
  endedBy(atMs: number): bigint {
    let sum = 0n;
    for (const [endMs, milli] of this.#held) if (endMs <= atMs) sum += milli;
    return sum;
  }

  /** Where slices of a store differ from it. Slices that nothing is held in are the store's to open and to keep. */
  problems(slices: readonly StoredSlice[]): string[] {
    const ends = new Set([...this.#held.keys(), ...slices.map(({ endMs }) => endMs)]);
    const problems = [...ends].flatMap((endMs) => {
      const is = slices.filter((slice) => slice.endMs === endMs).reduce((sum, one) => sum + one.heldMilli, 0);
      const due = this.#held.get(endMs) ?? 0n;
      return BigInt(is) === due ? [] : [`${is} are held until ${endMs}, not ${due}`];
    });
    if (slices.length > ENDS_MAX) problems.push(`${slices.length} slices are open`);
    if (new Set(slices.map(({ place }) => place)).size < slices.length) problems.push("two slices have one place");
    this.#held.forEach((milli, endMs) => {
      if (milli === 0n && !slices.some((slice) => slice.endMs === endMs)) this.#held.delete(endMs);
    });
    for (const { endMs } of slices) if (!this.#held.has(endMs)) this.#held.set(endMs, 0n);
    return problems;
  }
}

/** What every limit of the model has, whatever its kind. */
export class ModelStanding {
  /** Readings before it count as it; all boundaries up to it have been passed. */
  epochMs: number;
  /** @internal By which rules it went before. */
  past: Past = NO_PAST;
  /** @internal Slots that are held, or were before it became another kind. */
  held: HeldSlots = new HeldSlots();

  constructor(atMs: number) {
    this.epochMs = atMs;
  }

  /** A store may have this one or the other, which stands alike: then it may remember the rules of the other, too. */
  mayRemember(other: ModelStanding): void {
    this.past = { ...this.past, filledByMs: Math.max(this.past.filledByMs, other.past.filledByMs) };
  }
}
