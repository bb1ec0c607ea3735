import type { Status } from "../domain/status.ts";
import type { LimitReading } from "../engine/limit-readings.ts";
import { type BareItem, type Item, serializeList } from "./vendor.ts";

/** `RateLimit-Policy` and `RateLimit` of a grant, by draft-ietf-httpapi-ratelimit-headers-10. */
export function grantHeaders(
  readings: readonly LimitReading[],
  units: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  return fieldsOf(readings, units, ({ fullInSeconds }) => fullInSeconds);
}

/** The same of a refusal, with `Retry-After`. Only what stood in the way has a `t`, which is its own wait. */
export function refusalHeaders(
  refusal: { readonly statuses: readonly Status[]; readonly retryAfterMs: number },
  readings: readonly LimitReading[],
  units: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  const waits = new Map(refusal.statuses.filter(({ exceeded }) => exceeded).map((status) => [keyOf(status), status]));
  const fields = fieldsOf(readings, units, (reading) => secondsOf(waits.get(keyOf(reading))?.retryAfterMs));
  const seconds = secondsOf(refusal.retryAfterMs);
  return seconds === undefined ? fields : { ...fields, "retry-after": String(seconds) };
}

function fieldsOf(
  readings: readonly LimitReading[],
  units: ReadonlyMap<string, string>,
  resetOf: (reading: LimitReading) => number | undefined,
): Readonly<Record<string, string>> {
  const [own] = readings;
  if (own === undefined) return {};
  const levels: string[] = [];
  const policies: Item[] = [];
  const states: Item[] = [];
  for (const reading of readings) {
    const { entityId, resource, limit, capacity, available, windowSeconds } = reading;
    let level = levels.indexOf(entityId);
    if (level < 0) level = levels.push(entityId) - 1;
    const name = policyName({ limit, level, resource: resource === own.resource ? undefined : resource });
    policies.push([name, parameters(["q", capacity], ["qu", units.get(limit)], ["w", windowSeconds])]);
    states.push([name, parameters(["r", Math.max(0, available)], ["t", resetOf(reading)])]);
  }
  return { "ratelimit-policy": serializeList(policies), ratelimit: serializeList(states) };
}

/** The name of a limit: of the parent `name^1`, of a further resource `resource/name`. Ids do not show. */
function policyName(of: {
  readonly limit: string;
  readonly level: number;
  readonly resource: string | undefined;
}): string {
  const name = of.resource === undefined ? of.limit : `${of.resource}/${of.limit}`;
  return of.level === 0 ? name : `${name}^${of.level}`;
}

/** What a structured field can hold as an integer. */
const INTEGER_MAX = 999_999_999_999_999;

function parameters(...given: (readonly [name: string, value: BareItem | undefined])[]): Map<string, BareItem> {
  const known = new Map<string, BareItem>();
  for (const [name, value] of given) {
    if (value !== undefined && (typeof value !== "number" || value <= INTEGER_MAX)) known.set(name, value);
  }
  return known;
}

function secondsOf(ms: number | undefined): number | undefined {
  return ms === undefined || !Number.isFinite(ms) ? undefined : Math.ceil(ms / 1000);
}

function keyOf({ entityId, resource, limit }: { entityId: string; resource: string; limit: string }): string {
  return `${entityId}\n${resource}\n${limit}`;
}
