import { TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import type { LimitStanding } from "./limit-standing.ts";
import type { Status } from "./status.ts";

/** `RateLimit-Policy` and `RateLimit` of a grant, by draft-ietf-httpapi-ratelimit-headers-10. */
export function grantHeaders(
  standings: readonly LimitStanding[],
  units: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  return fieldsOf(standings, units, ({ fullInMs }) => secondsOf(fullInMs));
}

/** The same of a refusal, with `Retry-After`. Only what stood in the way has a `t`, which is its own wait. */
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
    const { resource, limit, level, capacity, available, windowMs } = standing;
    const isOwn = resource === asked;
    const name = quoted(isOwn && level === 0 ? limit : policyName(limit, level, isOwn ? undefined : resource));
    const unit = units.get(limit);
    const between = policies === "" ? "" : ", ";
    policies += `${between}${name}${integer(";q=", capacity)}${unit === undefined ? "" : `;qu=${quoted(unit)}`}`;
    policies += integer(";w=", secondsOf(windowMs));
    states += `${between}${name}${integer(";r=", Math.max(0, available))}${integer(";t=", resetOf(standing))}`;
  }
  return { "ratelimit-policy": policies, ratelimit: states };
}

/** The name of a limit: of the parent `name^1`, of a further resource `resource/name`. Ids do not show. */
function policyName(limit: string, level: number, resource: string | undefined): string {
  const name = resource === undefined ? limit : `${resource}/${limit}`;
  return level === 0 ? name : `${name}^${level}`;
}

/** What a structured field can hold as an integer. */
const INTEGER_MAX = 999_999_999_999_999;

// Written here and not by a library for structured fields (RFC 9651): two lists of this one form are part of every answer.

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
