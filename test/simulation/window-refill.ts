import type { Limit } from "../../src/domain/limits/limit.ts";
import { inForceAt, windowChangeAfter } from "../kit/model-terms.ts";
import { calendar } from "./calendar.ts";

/** Divided by every refill period that the simulation draws, in ms: what drips is exact in these parts of a millitoken. */
export const PARTS = 86_400_000n * 77n;

/** A stretch of time in which one rule is in force. */
interface Stretch {
  readonly fromMs: number;
  /** Up to where it began, in parts of a millitoken. */
  readonly dripped: bigint;
  readonly capacityMilli: bigint;
  readonly perMs: bigint;
}

/** What a limit drips through its windows, and the capacities that are in force in them. From one instant on; before it, as then. */
export class WindowRefill {
  readonly #limit: Limit;
  readonly #stretches: Stretch[];
  #knownUntilMs: number;

  constructor(limit: Limit, fromMs: number) {
    this.#limit = limit;
    this.#stretches = [this.#stretchAt(fromMs, 0n)];
    this.#knownUntilMs = windowChangeAfter(limit, fromMs, calendar);
  }

  /** What has dripped in up to an instant, in parts of a millitoken; only differences say something. */
  drippedTo(atMs: number): bigint {
    const { fromMs, dripped, perMs } = this.#at(atMs);
    return dripped + BigInt(atMs - fromMs) * perMs;
  }

  /** The most that was in force at any instant of this time. */
  capacityMost(fromMs: number, toMs: number): bigint {
    this.#at(toMs);
    const first = this.#stretches.indexOf(this.#at(fromMs));
    return this.#stretches
      .slice(first)
      .filter((one, i) => i === 0 || one.fromMs <= toMs)
      .reduce((most, { capacityMilli }) => (capacityMilli > most ? capacityMilli : most), 0n);
  }

  #at(atMs: number): Stretch {
    while (this.#knownUntilMs <= atMs) {
      const last = this.#stretches.at(-1) as Stretch;
      const dripped = last.dripped + BigInt(this.#knownUntilMs - last.fromMs) * last.perMs;
      this.#stretches.push(this.#stretchAt(this.#knownUntilMs, dripped));
      this.#knownUntilMs = windowChangeAfter(this.#limit, this.#knownUntilMs, calendar);
    }
    return this.#stretches.findLast(({ fromMs }) => fromMs <= atMs) ?? (this.#stretches[0] as Stretch);
  }

  #stretchAt(fromMs: number, dripped: bigint): Stretch {
    const { capacity, refill, periodMs } = inForceAt(this.#limit, fromMs, calendar);
    return { fromMs, dripped, capacityMilli: capacity, perMs: (refill * PARTS) / BigInt(periodMs) };
  }
}
