import type { Limit } from "../domain/limit.ts";
import { specOfLimit } from "../domain/limit-text.ts";
import type { DeclaredPiece, EntityValue } from "../domain/piece.ts";
import type { ScheduleEntry } from "../domain/schedule.ts";

/** A manifest as JSON: what a file of YAML says. */
export interface ManifestDocument {
  readonly namespace: string;
  readonly system?: Json;
  readonly resources?: Json;
  readonly entities?: Json;
}

type Json = Readonly<Record<string, unknown>>;
type Open = Record<string, Record<string, unknown>>;

/** The document that declares these pieces, in the order of their names. */
export function documentOf(namespace: string, pieces: readonly DeclaredPiece[]): ManifestDocument {
  const system: Record<string, unknown> = {};
  const resources: Open = {};
  const entities: Open = {};
  for (const { piece, value } of pieces) {
    const { what, level, resource = "_default_", entityId = "" } = piece;
    if (what === "entity")
      entities[entityId] = { ...entityMembers(entityId, value as EntityValue), ...entities[entityId] };
    else if (level === "system") system[what === "limits" ? "limits" : "on_unavailable"] = memberOf(what, value);
    else if (level === "resource") memberIn(resources, resource)[what] = memberOf(what, value);
    else {
      const levels = memberIn(memberIn(entities, entityId), "resources") as Open;
      memberIn(levels, resource)[what] = memberOf(what, value);
    }
  }
  const isNothing = [system, resources, entities].every((each) => Object.keys(each).length === 0);
  return {
    namespace,
    ...(Object.keys(system).length === 0 ? {} : { system }),
    ...(Object.keys(resources).length === 0 && !isNothing ? {} : { resources: sorted(resources) }),
    ...(Object.keys(entities).length === 0 ? {} : { entities: sorted(entities) }),
  };
}

/** The map under a key, made where there is none. */
export function memberIn(members: Record<string, unknown>, key: string): Record<string, unknown> {
  members[key] ??= {};
  return members[key] as Record<string, unknown>;
}

function memberOf(what: DeclaredPiece["piece"]["what"], value: unknown): unknown {
  return what === "limits" ? limitMembers(value as readonly Limit[]) : value;
}

function limitMembers(limits: readonly Limit[]): Json {
  return Object.fromEntries(limits.map((limit) => [limit.name, limitMember(limit)]));
}

/** A text where that says all of it; windows that leave some terms as they are need a map. */
function limitMember(limit: Limit): unknown {
  const isPlain = (limit.schedule ?? []).every(
    ({ scale, capacity, refillAmount }) =>
      scale !== undefined || (capacity !== undefined && (refillAmount !== undefined || limit.refillAmount === 0)),
  );
  return isPlain ? specOfLimit(limit) : limitTerms(limit);
}

/** Every field of a limit under its name in a manifest. */
export function limitTerms(limit: Limit): Json {
  const { counts, capacity, refillAmount, refillPeriodMs, soft, schedule, reset, resetAfterMs } = limit;
  const isQuota = reset !== undefined || resetAfterMs !== undefined;
  return {
    capacity,
    ...(isQuota ? {} : { refill_amount: refillAmount, refill_period: refillPeriodMs / 1000 }),
    ...(counts === undefined ? {} : { counts }),
    ...(soft === true ? { soft } : {}),
    ...(schedule === undefined ? {} : { schedule: schedule.map(windowMembers) }),
    ...(reset === undefined ? {} : { reset_schedule: [{ cron: reset.cron, tz: reset.tz ?? "UTC" }] }),
    ...(resetAfterMs === undefined ? {} : { reset_after_seconds: resetAfterMs / 1000 }),
  };
}

function windowMembers({ cron, tz, scale, capacity, refillAmount, refillPeriodMs }: ScheduleEntry): Json {
  return {
    cron,
    tz: tz ?? "UTC",
    ...(scale === undefined ? {} : { scale }),
    ...(capacity === undefined ? {} : { capacity }),
    ...(refillAmount === undefined ? {} : { refill_amount: refillAmount }),
    ...(refillPeriodMs === undefined ? {} : { refill_period_seconds: refillPeriodMs / 1000 }),
  };
}

function entityMembers(id: string, { name, parentId, cascade, metadata }: EntityValue): Json {
  return {
    // Something must declare the entity, also where everything has its default.
    ...(name === id && parentId !== undefined ? {} : { name }),
    ...(parentId === undefined ? {} : { parent: parentId }),
    ...(cascade === (parentId !== undefined) ? {} : { cascade }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

function sorted(members: Open): Json {
  return Object.fromEntries(Object.entries(members).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
