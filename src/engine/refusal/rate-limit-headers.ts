import {
  carriedBy,
  grantHeaders,
  type LimitStanding,
  refusalHeaders,
  shareOf,
  standingsOfFields,
} from "../../domain/charge/rate-limit-headers.ts";
import {
  type LimiterError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ValidationError,
} from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";
import { calendarOfLease, Lease, partsOfLease } from "../lease/lease.ts";
import { basisOf, type Refusal } from "./refusal.ts";
import { refusalIn, standingsIn } from "./refused.ts";
import { standingsOfParts } from "./standing.ts";

/** Which header fields are written. */
export interface RateLimitHeaderOptions {
  /**
   * `"draft-10"`: `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10. `"legacy"`:
   * `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (seconds since 1970) of the limit nearest to
   * its end. `"both"`: all of them. Default: `"draft-10"`.
   */
  readonly headers?: "draft-10" | "legacy" | "both";
  /**
   * `"own"`: the limits of the entity that asked; if none of them counts the request, those of the nearest parent.
   * `"all"`: those of all levels, a parent's as `name^1`. Default: `"own"`.
   */
  readonly levels?: "own" | "all";
  /** The unit of a limit by its name, such as `{ tpm: "tokens" }`: the parameter `qu`. Default: none. */
  readonly units?: Readonly<Record<string, string>>;
}

const OPTIONS = new KnownNames<RateLimitHeaderOptions>({ headers: true, levels: true, units: true });

/**
 * The header fields that tell a client how its limits stand, by lower-case name. They are made of what came with the
 * take; nothing is read. A refusal has `retry-after` too, unless the request never fits; so has an outage. Without
 * anything to tell it answers an empty object.
 *
 * ```ts
 * const lease = await limiter.acquire({ entityId: "key-1", resource: "api", consume: { rpm: 1 } });
 * rateLimitHeaders(lease); // { "ratelimit-policy": '"rpm";q=60;w=60', ratelimit: '"rpm";r=59;t=1' }
 * ```
 */
export function rateLimitHeaders(
  leaseOrError: Lease | Refusal | LimiterError,
  options: RateLimitHeaderOptions = {},
): Record<string, string> {
  return headersOf(leaseOrError, checkHeaderOptions(options));
}

/** Checked options with defaults: a middleware checks once. */
export interface HeaderForm {
  readonly headers: "draft-10" | "legacy" | "both";
  readonly levels: "own" | "all";
  readonly units: ReadonlyMap<string, string>;
}

export function checkHeaderOptions(options: RateLimitHeaderOptions): HeaderForm {
  const { headers = "draft-10", levels = "own", units = {} } = OPTIONS.check(options, "The options of header fields");
  if (!["draft-10", "legacy", "both"].includes(headers)) {
    throw new ValidationError("option_invalid", `headers is ${shown(headers)}; give "draft-10", "legacy" or "both".`);
  }
  if (levels !== "own" && levels !== "all") {
    throw new ValidationError("option_invalid", `levels is ${shown(levels)}; give "own" or "all".`);
  }
  if (typeof units !== "object" || units === null || !Object.values(units).every(isUnit)) {
    throw new ValidationError(
      "option_invalid",
      `units is ${shown(units)}; give an object of limits with their units in printable ASCII, { tpm: "tokens" }.`,
    );
  }
  return { headers, levels, units: new Map(Object.entries(units)) };
}

/** A string of a structured field is printable ASCII. */
function isUnit(unit: unknown): boolean {
  return typeof unit === "string" && /^[\x20-\x7e]+$/.test(unit);
}

/** `rateLimitHeaders` with checked options. */
export function headersOf(told: Lease | Refusal | LimiterError, form: HeaderForm): Record<string, string> {
  if (told instanceof RateLimiterUnavailable) return { "retry-after": "1" };
  const position = positionOf(told);
  if (position === undefined) return {};
  const standings = form.levels === "all" ? position.standings : nearestIn(position.standings);
  const all = standings === position.standings ? position : { ...position, standings };
  if (form.headers === "draft-10" && position.refused === undefined) return grantHeaders(standings, form.units);
  const draft = form.headers === "legacy" ? {} : draftFields(all, form.units);
  const legacy = form.headers === "draft-10" ? {} : legacyFields(all);
  return { ...draft, ...legacy, ...retryAfter(position.refused?.retryAfterMs) };
}

/**
 * The limits of the caller. If none of them counts the request, those of the nearest level above are shown as its own: for a key
 * without limits, the limits of its customer apply.
 */
function nearestIn(standings: readonly LimitStanding[]): readonly LimitStanding[] {
  if (standings.every(({ level }) => level === 0)) return standings;
  const nearest = Math.min(...standings.map(({ level }) => level));
  const shown = standings.filter(({ level }) => level === nearest);
  return nearest === 0 ? shown : shown.map((standing) => ({ ...standing, level: 0 }));
}

interface Position {
  readonly standings: readonly LimitStanding[];
  readonly refused: Refusal | RateLimitExceeded | undefined;
  /** True if the fields came from a service: then the `t` of a refusal is a wait already. */
  readonly isCarried: boolean;
  readonly atMs: number;
}

function positionOf(told: Lease | Refusal | LimiterError): Position | undefined {
  const refused = told instanceof RateLimitExceeded ? told : "statuses" in told ? told : undefined;
  const refusal = refused && refusalIn(refused);
  const carried = carriedBy(told) ?? (refusal && carriedBy(refusal));
  if (carried !== undefined) {
    const { policy, state, atMs } = carried;
    return { standings: standingsOfFields(policy, state), refused, isCarried: true, atMs };
  }
  if (refused !== undefined) {
    const atMs = refusal === undefined ? 0 : basisOf(refusal).toldMs;
    return { standings: standingsIn(refused), refused, isCarried: false, atMs };
  }
  if (!(told instanceof Lease)) return undefined;
  const parts = partsOfLease(told);
  const standings = standingsOfParts(parts, calendarOfLease(told));
  return { standings, refused, isCarried: false, atMs: parts[0]?.takenAtMs ?? 0 };
}

function draftFields(
  { standings, refused, isCarried }: Position,
  units: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  if (refused === undefined || isCarried) return grantHeaders(standings, units);
  return refusalHeaders(refused, standings, units);
}

/** The fields of the limit with the smallest share left: they have room for one. */
function legacyFields({ standings, refused, atMs }: Position): Readonly<Record<string, string>> {
  const [first, ...others] = standings;
  if (first === undefined) return {};
  const nearest = others.reduce((least, one) => (shareOf(one) < shareOf(least) ? one : least), first);
  const untilMs = refused === undefined ? (nearest.fullInMs ?? 0) : refused.retryAfterMs;
  return {
    "x-ratelimit-limit": String(nearest.capacity),
    "x-ratelimit-remaining": String(Math.max(0, nearest.available)),
    ...(Number.isFinite(untilMs) ? { "x-ratelimit-reset": String(Math.ceil((atMs + untilMs) / 1000)) } : {}),
  };
}

function retryAfter(ms: number | undefined): Readonly<Record<string, string>> {
  return ms === undefined || !Number.isFinite(ms) ? {} : { "retry-after": String(Math.ceil(ms / 1000)) };
}
