import { ValidationError } from "./errors.ts";
import { shown } from "./names.ts";

/** Seconds since 1970, from 2001 to 2286. As milliseconds these are days of early 1970. */
const SECONDS_FROM = 1_000_000_000;
const SECONDS_TO = 10_000_000_000;

/** A clock past this is one of our time, in milliseconds: a simulated clock that begins near 0 means what it says. */
const CLOCK_OF_OUR_TIME_MS = 100_000_000_000;

/** An instant as a caller gives it, in ms since 1970, `Infinity` included; absent stays so. Throws for one that is none, or in seconds. */
export function checkInstant(name: string, value: number | undefined, nowMs: number): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "number" || Number.isNaN(value)) {
    throw new ValidationError("instant_invalid", `${name} is ${shown(value)}; give milliseconds since 1970.`);
  }
  if (nowMs > CLOCK_OF_OUR_TIME_MS && value >= SECONDS_FROM && value < SECONDS_TO) {
    throw new ValidationError(
      "instant_invalid",
      `${name} is ${value}, which looks like seconds; give milliseconds since 1970, ${value * 1000} for ` +
        `${new Date(value * 1000).toISOString()}.`,
    );
  }
  return value;
}

/** An instant under the name that its giver knows it by. */
interface NamedInstant {
  readonly name: string;
  readonly ms: number | undefined;
}

/** Throws where a span ends before it begins: the answer would be empty, as if nothing had happened in it. */
export function checkSpan(from: NamedInstant, to: NamedInstant): void {
  if (from.ms === undefined || to.ms === undefined || !Number.isFinite(from.ms) || from.ms <= to.ms) return;
  throw new ValidationError(
    "instant_invalid",
    `${from.name} is ${dated(from.ms)}, after ${to.name}, ${dated(to.ms)}; give the earlier one as ${from.name}.`,
  );
}

/** The last instant that a date can have. */
const DATE_MAX_MS = 8_640_000_000_000_000;

function dated(ms: number): string {
  return Math.abs(ms) <= DATE_MAX_MS ? `${ms} (${new Date(ms).toISOString()})` : String(ms);
}
