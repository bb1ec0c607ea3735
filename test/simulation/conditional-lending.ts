import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { CreditContext, Held, WriteReply } from "../../src/ports/bucket-store.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import type { Process } from "./conditional-process.ts";

/** How often a lease is given back by another process than the one that took it. */
const LENT = 0.25;

/**
 * Leases whose records are stored are ended by whichever process is asked: it reads the ticket from the record, and knows
 * nothing of the take but that.
 */
export class Lending {
  readonly #random: SeededRandom;
  readonly #processes: Process[] = [];

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  add(process: Process): void {
    this.#processes.push(process);
  }

  /** The process that gives back what this one has taken. */
  giverFor(process: Process): Process {
    if (process.direct || !this.#random.chance(LENT)) return process;
    const others = this.#processes.filter((other) => other !== process && !other.direct && other.isAlive());
    return others.length === 0 ? process : this.#random.pick(others);
  }
}

/** A give-back by another process than the one that is waited for: that one is answered also where the other dies. */
export function lent(
  { buckets, clock, gone }: Process,
  held: Held,
  amounts: readonly Amount[],
  context: CreditContext,
): Promise<WriteReply> {
  const cause = new Error("the process that was to give it back is gone");
  const lost = gone.then((): WriteReply => ({ kind: "unavailable", applied: "unknown", cause }));
  return Promise.race([Promise.resolve(buckets.credit(held, amounts, { ...context, nowMs: clock.now() })), lost]);
}
