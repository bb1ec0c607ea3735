import { type ChangeTime, numberOfGeneration } from "../domain/config/change-number.ts";

/** The generations of namespaces. A take compares its own on the server, so that one that is out of date does no harm. */
export interface Generations {
  of(namespaceId: string): number;
  /** Every answer brings the one of its namespace. */
  note(namespaceId: string, generation: number): void;
  /** When a change is made that is decided by what was read in this generation. */
  timeAfter(generation: number, atMs: number): ChangeTime;
}

/** The change makes the next generation. */
export function timeAfter(generation: number, atMs: number): ChangeTime {
  return { atMs, number: numberOfGeneration(generation + 1) };
}

/** As far as this process has seen them. */
export class SeenGenerations implements Generations {
  readonly #seen = new Map<string, number>();
  readonly timeAfter = timeAfter;

  of(namespaceId: string): number {
    return this.#seen.get(namespaceId) ?? 0;
  }

  /** Answers may overtake each other: what was seen never goes back. */
  note(namespaceId: string, generation: number): void {
    if (generation > this.of(namespaceId)) this.#seen.set(namespaceId, generation);
  }
}
