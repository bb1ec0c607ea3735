import { createHash } from "node:crypto";
import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Clock, Random } from "../../ports/system.ts";

/**
 * Names for audit events as the original gives them (ULIDs), so that both sort by when they were written: by the clock of the
 * writer, and within one process always upwards, also in one millisecond and when the clock is set back. The event's own time
 * is not used: the event may have waited.
 */
export class AuditIds {
  readonly #clock: Clock;
  readonly #random: Random;
  /** An event that is written again, after an answer was lost, keeps its place. */
  readonly #known = new WeakMap<AuditEvent, string>();
  #lastMs = 0;
  #lastTail = 0n;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  of(event: AuditEvent): string {
    let id = this.#known.get(event);
    if (id === undefined) {
      id = this.#next();
      this.#known.set(event, id);
    }
    return id;
  }

  #next(): string {
    const nowMs = Math.max(0, this.#clock.now());
    if (nowMs > this.#lastMs) {
      this.#lastMs = nowMs;
      // Half the range is left for those that follow in the same millisecond.
      this.#lastTail = BigInt(`0x${createHash("sha256").update(this.#random.id()).digest("hex").slice(0, 20)}`) >> 1n;
    } else this.#lastTail += 1n;
    return crockford(BigInt(this.#lastMs), TIME_DIGITS) + crockford(this.#lastTail, TAIL_DIGITS);
  }
}

const TIME_DIGITS = 10;
const TAIL_DIGITS = 16;
const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

function crockford(value: bigint, digits: number): string {
  let text = "";
  for (let rest = value; text.length < digits; rest >>= 5n) text = DIGITS.charAt(Number(rest & 31n)) + text;
  return text;
}
