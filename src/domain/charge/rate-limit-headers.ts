import { TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import { levelName, type Status } from "./status.ts";

/** The state of one limit of one level, from which header fields for clients are made. JSON-safe. */
export interface LimitStanding {
  readonly entityId: string;
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** 0 the entity that asked, 1 the first parent that counts the request, and so on. */
  readonly level: number;
  /** The limit is of another entity than the one that asked: its resource stands before its name. Absent: it is of the one that asked. */
  readonly ofOther?: true;
  /** Whole tokens, negative in debt. */
  readonly available: number;
  /** Whole tokens in force. */
  readonly capacity: number;
  /** In which time an empty limit fills up by dripping, or how long a session lasts; null for a calendar quota, or never. */
  readonly windowMs: number | null;
  /** Until it is full or resets; null when it is full, or never is, and in a refusal, where waits stand in the statuses. */
  readonly fullInMs: number | null;
}

/** `RateLimit-Policy` and `RateLimit` of a grant, by draft-ietf-httpapi-ratelimit-headers-10. */
export function grantHeaders(
  standings: readonly LimitStanding[],
  units: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  return fieldsOf(standings, units, ({ fullInMs }) => secondsOf(fullInMs));
}

/** The header fields of a refusal, with `Retry-After`. Only a limit that refused has a `t`, which is its own wait. */
export function refusalHeaders(
  refusal: { readonly statuses: readonly Status[]; readonly retryAfterMs: number },
  standings: readonly LimitStanding[],
  units: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  const waits = new Map(refusal.statuses.filter(({ exceeded }) => exceeded).map((status) => [keyOf(status), status]));
  const fields = fieldsOf(standings, units, (standing) => secondsOf(waits.get(keyOf(standing))?.retryAfterMs));
  const seconds = secondsOf(refusal.retryAfterMs);
  return seconds === undefined ? fields : { ...fields, "retry-after": String(seconds) };
}

/** The share of its capacity that a limit has left. */
export function shareOf({ available, capacity }: LimitStanding): number {
  return capacity === 0 ? 0 : available / capacity;
}

function fieldsOf(
  standings: readonly LimitStanding[],
  units: ReadonlyMap<string, string>,
  resetOf: (standing: LimitStanding) => number | undefined,
): Readonly<Record<string, string>> {
  if (standings.length === 0) return {};
  const asked = standings.find(({ resource }) => resource !== TOTAL_RESOURCE)?.resource;
  let policies = "";
  let states = "";
  for (const standing of standings) {
    const { resource, limit, level, capacity, available, windowMs, ofOther } = standing;
    const name = quoted(levelName(limit, level, resource === asked && !ofOther ? undefined : resource));
    const unit = units.get(limit);
    const between = policies === "" ? "" : ", ";
    policies += `${between}${name}${integer(";q=", capacity)}${unit === undefined ? "" : `;qu=${quoted(unit)}`}`;
    policies += integer(";w=", secondsOf(windowMs));
    states += `${between}${name}${integer(";r=", Math.max(0, available))}${integer(";t=", resetOf(standing))}`;
  }
  return { "ratelimit-policy": policies, ratelimit: states };
}

/** The largest integer of a structured field. */
const INTEGER_MAX = 999_999_999_999_999;

// Structured fields (RFC 9651) are written here and not by a library: two lists of this one form are part of every answer.

/** A parameter, such as `;q=`, whose value is an integer; nothing where there is none, or none that can be said. */
function integer(parameter: string, value: number | undefined): string {
  return value === undefined || value > INTEGER_MAX ? "" : parameter + value;
}

/** A string of printable ASCII: names of limits and resources, and units, are no other. */
function quoted(text: string): string {
  return text.includes('"') || text.includes("\\") ? `"${text.replace(/["\\]/g, "\\$&")}"` : `"${text}"`;
}

function secondsOf(ms: number | null | undefined): number | undefined {
  return ms === undefined || ms === null || !Number.isFinite(ms) ? undefined : Math.ceil(ms / 1000);
}

function keyOf({ entityId, resource, limit }: { entityId: string; resource: string; limit: string }): string {
  return `${entityId}\n${resource}\n${limit}`;
}

/**
 * Reads how limits stand from the two header fields that are written here. A policy without a resource has the resource "". `t` becomes
 * `fullInMs`. Items of another form are left out.
 */
export function standingsOfFields(policy: string, state: string): readonly LimitStanding[] {
  const states = new Map(itemsOf(state));
  return itemsOf(policy).flatMap(([name, { q, w }]) => {
    const { r, t } = states.get(name) ?? {};
    if (q === undefined || r === undefined) return [];
    const [, resource = "", limit = "", level = "0"] = /^(?:(.*)\/)?([^/]*?)(?:\^(\d+))?$/.exec(name) ?? [];
    const times = { windowMs: msOf(w), fullInMs: msOf(t) };
    return [{ entityId: level, resource, limit, level: Number(level), available: r, capacity: q, ...times }];
  });
}

/** The items of a list, each a string with parameters that are integers; parameters of another type are left out. */
function itemsOf(field: string): readonly (readonly [string, Readonly<Record<string, number>>])[] {
  return Array.from(field.matchAll(/"((?:[^"\\]|\\.)*)"((?:;\w+=(?:-?\d+|"(?:[^"\\]|\\.)*"))*)/g), ([, name, rest]) => [
    (name ?? "").replace(/\\(.)/g, "$1"),
    Object.fromEntries(
      // Text in quotes is matched first, so that nothing in it is taken for a parameter.
      Array.from((rest ?? "").matchAll(/;(\w+)=(?:(-?\d+)|"(?:[^"\\]|\\.)*")/g), ([, key, value]) => [key, value])
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => [key, Number(value)]),
    ),
  ]);
}

function msOf(seconds: number | undefined): number | null {
  return seconds === undefined ? null : seconds * 1000;
}

/** Header fields that a service has sent with a lease or a refusal. */
interface CarriedFields {
  /** The value of `RateLimit-Policy`. */
  readonly policy: string;
  /** The value of `RateLimit`. */
  readonly state: string;
  /** When they came, in ms since 1970. */
  readonly atMs: number;
}

// Fields are not on leases and errors themselves: their members are the public interface.
const CARRIED = new WeakMap<object, CarriedFields>();

/** Keeps the fields that came with a lease or an error, so that a middleware can pass them on. */
export function carryFields(of: object, fields: CarriedFields): void {
  CARRIED.set(of, fields);
}

export function carriedBy(leaseOrError: object): CarriedFields | undefined {
  return CARRIED.get(leaseOrError);
}
