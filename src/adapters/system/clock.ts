import { ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Clock, Turns } from "../../ports/system.ts";

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  steadyMs: exactSteadyMs,
  sleep: (ms, signal) => sleep(ms, signal, "keepsAlive"),
  sleepInBackground: (ms, signal) => sleep(ms, signal, "background"),
};

/** Whole ms since some instant, not affected when the machine's clock is set. It may stop while the machine sleeps. */
export function steadyMs(): number {
  return Math.floor(exactSteadyMs());
}

/** With fractions. Node's `performance` would load modules of its own, which a command that ends at once would wait for; browsers have nothing else. */
function exactSteadyMs(): number {
  if (globalThis.process?.hrtime === undefined) return performance.now();
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}

/** Calls back after this time, even if the clock is set; the returned function cancels it. */
export function after(ms: number, work: () => void): () => void {
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
}

/**
 * A clock given by the caller, with its readings unchanged; one without `sleep` waits in real time. It is read once
 * here, so that an invalid clock is found before the first request.
 */
export function clockFrom(given: Pick<Clock, "now"> & Partial<Clock>): Clock {
  checkFirstReading(given.now());
  return {
    now: () => checkReading(given.now()),
    ...(given.sleep === undefined
      ? { sleep: systemClock.sleep, sleepInBackground: systemClock.sleepInBackground as Clock["sleep"] }
      : {
          sleep: given.sleep.bind(given),
          // A wait in the background that kept the process alive would keep it for as long as requests are refused.
          ...(given.sleepInBackground === undefined ? {} : { sleepInBackground: given.sleepInBackground.bind(given) }),
        }),
  };
}

/** Checks a reading of the caller's clock. A fraction, or no number at all, would get into buckets and stay there. */
function checkReading(nowMs: number): number {
  if (Number.isSafeInteger(nowMs)) return nowMs;
  throw new ValidationError(
    "clock_invalid",
    `The clock returned ${shown(nowMs)}; now() must return whole milliseconds since 1970. Round down with Math.floor.`,
  );
}

/** Units in which clocks are given by mistake, in milliseconds. */
const OTHER_UNITS = { seconds: 1_000, microseconds: 0.001 };
const YEAR_MS = 365 * 86_400_000;

/**
 * Checks the first reading of the caller's clock. This year in another unit would refill limits a thousand times too
 * slowly, or too fast; a simulated clock may show any other time.
 */
function checkFirstReading(reading: number): void {
  checkReading(reading);
  for (const [unit, ms] of Object.entries(OTHER_UNITS)) {
    const readMs = Math.floor(reading * ms);
    if (Math.abs(readMs - systemClock.now()) > YEAR_MS) continue;
    throw new ValidationError(
      "clock_invalid",
      `The clock returned ${reading}, which looks like ${unit}; now() must return milliseconds since 1970, ${readMs} for ` +
        `${new Date(readMs).toISOString()}.`,
    );
  }
}

/**
 * After this time a request that was under way when access was switched has been answered (`timeoutMs` is 1 s unless
 * configured otherwise), and an index of DynamoDB has caught up.
 */
const SETTLE_MS = 2_000;

/** Waits, by the machine's time, until a switch is effective: see docs/adr/0020-switches-reach-what-is-below.md. */
export function settle(): Promise<void> {
  return sleep(SETTLE_MS, undefined, "keepsAlive");
}

/** setTimeout fires at once above this, about 24 days. */
const TIMEOUT_MAX_MS = 2_147_483_647;

function sleep(ms: number, signal: AbortSignal | undefined, how: "keepsAlive" | "background"): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(
      () => {
        signal?.removeEventListener("abort", aborted);
        resolve();
      },
      Math.min(Math.ceil(ms), TIMEOUT_MAX_MS),
    );
    // Timers of browsers and workers are numbers, and keep nothing alive.
    if (how === "background") (timer as { unref?(): void }).unref?.();
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

/** Turns of the event loop, which let timers, sockets and signals run in between. */
export const systemTurns: Turns = {
  next: () => new Promise((resolve) => setImmediate(resolve)),
};
