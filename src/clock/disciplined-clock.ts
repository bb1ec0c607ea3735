import { divCeil } from "../bucket/integers.ts";
import type { Clock } from "../ports/system.ts";
import { type ClockBounds, correctedMs, latestMs, observed } from "./clock-bounds.ts";

export interface Stamp {
  readonly localMs: number;
  readonly steadyMs: number;
}

/**
 * The local clock, kept to the time of the server whose answers it sees: right to a second, the time an answer takes, and
 * 200 ppm of the time since.
 *
 * The local clock is the one that people and NTP put. The steady one counts ms from anywhere, is never put, and may stand
 * still while the machine sleeps (Linux) or not (Windows, macOS).
 *
 * ```ts
 * const sent = clock.stamp();
 * const answer = await send(request);
 * clock.observe({ dateMs: Date.parse(answer.headers.date), sent }); // before anything in the answer is judged by the time
 * ```
 *
 * When the two clocks part, either the local one was put, and the steady one still tells the server's time; or the machine
 * slept, and the server's time is later than that by an unknown amount. From here they look alike. So, until an answer
 * settles it, each question gets the answer that is safe either way:
 *
 * - `now` stays with the steady clock: exact if the local clock was put. If the machine slept it is behind, which only makes
 *   a bucket look emptier than it is. The local clock, put forward by an hour, would spend an hour's tokens.
 * - `latestServerMs` is Infinity: an epoch that another process wrote during the sleep must not be repaired.
 * - `isDisciplined` and `isFresh` are false, so that the next thing sent is a read.
 */
export class DisciplinedClock implements Clock {
  readonly #local: Clock;
  readonly #steadyMs: () => number;
  #bounds: ClockBounds | undefined;
  /** The stamp of the last answer that was believed. */
  #believed: Stamp | undefined;

  /** `steadyMs` counts whole ms and never goes back. */
  constructor(local: Clock, steadyMs: () => number) {
    this.#local = local;
    this.#steadyMs = steadyMs;
  }

  /** The local time, moved as far as the server's answers demand. Asked for every acquire: makes no object. */
  now(): number {
    return correctedMs(this.#local.now(), this.#bounds, this.#steadyMs());
  }

  steadyMs(): number {
    return this.#local.steadyMs?.() ?? this.#steadyMs();
  }

  sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return this.#local.sleep(ms, signal);
  }

  sleepInBackground(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return this.#local.sleepInBackground?.(ms, signal) ?? this.#local.sleep(ms, signal);
  }

  /** Call it before a request leaves, and hand the result to `observe` with the answer. */
  stamp(): Stamp {
    return { localMs: this.#local.now(), steadyMs: this.#steadyMs() };
  }

  /** Takes in the Date of an answer that has just arrived. An unreadable one (NaN) changes nothing. */
  observe({ dateMs, sent }: { dateMs: number; sent: Stamp }): void {
    if (!Number.isSafeInteger(dateMs)) return;
    const received = this.stamp();
    // If the machine slept while the answer was under way, it is not known for how long, nor on which side of the sleep the
    // server wrote its Date. Counting the sleep as latency would be right as well, but would make a clock that was put
    // forward in that moment believable. The next answer will do.
    if (haveParted(sent, received)) return;
    const isDoubtful = this.#believed !== undefined && haveParted(this.#believed, received);
    this.#bounds = observed(isDoubtful ? undefined : this.#bounds, {
      dateMs,
      sentMs: sent.steadyMs,
      receivedMs: received.steadyMs,
    });
    this.#believed = received;
  }

  /** Has seen the server's time, and knows of nothing that happened to the clocks since. */
  get isDisciplined(): boolean {
    return this.#isKnownFor(Number.POSITIVE_INFINITY, this.#steadyMs());
  }

  /** Like `isDisciplined`, and the last answer is recent. While false, read before writing. */
  get isFresh(): boolean {
    return this.#isKnownFor(FRESH_MS, this.#steadyMs());
  }

  #isKnownFor(mostMs: number, steadyMs: number): boolean {
    const believed = this.#believed;
    if (this.#bounds === undefined || believed === undefined) return false;
    const sinceMs = steadyMs - believed.steadyMs;
    return sinceMs <= mostMs && !areApart(this.#local.now() - believed.localMs, sinceMs);
  }

  /** The latest time that the server's clock can show now; Infinity where the last answer is long ago. */
  latestServerMs(): number {
    const steadyMs = this.#steadyMs();
    return this.#isKnownFor(FRESH_MS, steadyMs) ? latestMs(this.#bounds, steadyMs) : Number.POSITIVE_INFINITY;
  }
}

/** An answer proves the time for this long: clocks drift, in a day by more than an epoch may lie ahead. */
const FRESH_MS = 600_000;

/** Two clocks are not read in the same instant: a pause of the process between the readings is no reason to doubt them. */
const APART_MAX_MS = 1000;

/** The fastest rate at which a system slews its local clock. */
const SLEW_MAX_PPM = 500;

/** True if one clock has gone on further than the other by more than drift and slewing explain. */
function haveParted(from: Stamp, to: Stamp): boolean {
  return areApart(to.localMs - from.localMs, to.steadyMs - from.steadyMs);
}

function areApart(localMs: number, steadyMs: number): boolean {
  return Math.abs(localMs - steadyMs) > APART_MAX_MS + divCeil(Math.max(0, steadyMs) * SLEW_MAX_PPM, 1_000_000);
}
