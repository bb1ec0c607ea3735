import {
  type DeclaredPiece,
  type EntityValue,
  type LimitsValue,
  limitsOfValue,
  type PieceValue,
  type PlanValue,
} from "../domain/config/piece.ts";
import { formOf } from "../domain/limits/kinds/table.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { FIELDS_JSON } from "../domain/limits/limit-json.ts";
import { specOfLimit } from "../domain/limits/limit-text.ts";
import type { ScheduleEntry } from "../domain/limits/schedule.ts";
import { given } from "../domain/names/given.ts";

/** A manifest as JSON: what a file of YAML says. */
export interface ManifestDocument {
  readonly namespace: string;
  readonly plans?: Json;
  readonly system?: Json;
  readonly resources?: Json;
  readonly entities?: Json;
}

type Json = Readonly<Record<string, unknown>>;
type Open = Record<string, Record<string, unknown>>;

/** The document that declares these pieces, in the order of their names. */
export function documentOf(namespace: string, pieces: readonly DeclaredPiece[]): ManifestDocument {
  const plans: Open = {};
  const system: Record<string, unknown> = {};
  const resources: Open = {};
  const entities: Open = {};
  for (const { piece, value, ifAbsent } of pieces) {
    const { what, level, resource = "_default_", entityId = "", planId = "" } = piece;
    const members = membersOf(what, value);
    if (what === "entity")
      entities[entityId] = {
        ...(ifAbsent === true ? {} : entityMembers(entityId, value as EntityValue)),
        ...entities[entityId],
      };
    else if (what === "plan") plans[planId] = { ...planMembers(planId, value as PlanValue), ...plans[planId] };
    else if (level === "system" || level === "systemTotal") Object.assign(system, members);
    else if (level === "resource") Object.assign(memberIn(resources, resource), members);
    else if (level === "plan") {
      Object.assign(memberIn(memberIn(memberIn(plans, planId), "resources") as Open, resource), members);
    } else if (level === "planDefault" || level === "planTotal") Object.assign(memberIn(plans, planId), members);
    else if (level === "entityTotal") Object.assign(memberIn(entities, entityId), members);
    else Object.assign(memberIn(memberIn(memberIn(entities, entityId), "resources") as Open, resource), members);
  }
  for (const id of notCreatedIn(pieces)) entities[id] = { create: false, ...entities[id] };
  const isNothing = [plans, system, resources, entities].every((each) => Object.keys(each).length === 0);
  return {
    namespace,
    ...(Object.keys(plans).length === 0 ? {} : { plans: sorted(plans) }),
    ...(Object.keys(system).length === 0 ? {} : { system }),
    ...(Object.keys(resources).length === 0 && !isNothing ? {} : { resources: sorted(resources) }),
    ...(Object.keys(entities).length === 0 ? {} : { entities: sorted(entities) }),
  };
}

/** Entities whose limits are declared, and they themselves are not. */
export function notCreatedIn(pieces: readonly DeclaredPiece[]): ReadonlySet<string> {
  const left = new Set(pieces.flatMap(({ piece: { entityId = [] } }) => entityId));
  for (const { piece } of pieces) if (piece.what === "entity") left.delete(piece.entityId ?? "");
  return left;
}

/** The map under a key, made where there is none. */
export function memberIn(members: Record<string, unknown>, key: string): Record<string, unknown> {
  members[key] ??= {};
  return members[key] as Record<string, unknown>;
}

/** A piece of a level under its names in a manifest. */
function membersOf(what: DeclaredPiece["piece"]["what"], value: PieceValue): Json {
  if (what === "onUnavailable") return { on_unavailable: value };
  if (what === "usageKeptDays") return { usage_kept_days: value };
  if (what !== "limits" && what !== "totals") return { [what]: value };
  const { limits, inherit, appliesTo } = limitsOfValue(value as readonly Limit[] | LimitsValue);
  const prefix = what === "limits" ? "" : "totals_";
  return {
    [what]: limitMembers(limits),
    ...given({ [`${prefix}inherit`]: inherit, [`${prefix}applies_to`]: appliesTo }),
  };
}

function planMembers(id: string, { name, metadata }: PlanValue): Json {
  return {
    ...(name === id ? {} : { name }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

function limitMembers(limits: readonly Limit[]): Json {
  return Object.fromEntries(limits.map((limit) => [limit.name, specOfLimit(limit)]));
}

/** Every field of a limit under its name in a manifest. */
export function limitTerms(limit: Limit): Json {
  const { schedule, reset } = limit;
  const terms = {
    ...limit,
    ...given({ schedule: schedule?.map(windowMembers), reset: reset && [{ cron: reset.cron, tz: reset.tz ?? "UTC" }] }),
    ...(formOf(limit) === undefined ? {} : { refillAmount: undefined, refillPeriodMs: undefined }),
  } as Json;
  const members = Object.entries(FIELDS_JSON).map(([field, { manifest }]) => {
    const value = terms[field];
    return [manifest.key, manifest.unit === "seconds" && value !== undefined ? Number(value) / 1000 : value];
  });
  return given(Object.fromEntries(members));
}

function windowMembers({ cron, tz = "UTC", scale, capacity, refillAmount, refillPeriodMs }: ScheduleEntry): Json {
  const seconds = refillPeriodMs && refillPeriodMs / 1000;
  return given({ cron, tz, scale, capacity, refill_amount: refillAmount, refill_period_seconds: seconds });
}

function entityMembers(id: string, { name, parentId, planId, cascade, metadata }: EntityValue): Json {
  return {
    // Something must declare the entity, also where everything has its default.
    ...(name === id && (parentId !== undefined || planId !== undefined) ? {} : { name }),
    ...given({ parent: parentId, plan: planId }),
    ...(cascade === (parentId !== undefined) ? {} : { cascade }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

function sorted(members: Open): Json {
  return Object.fromEntries(Object.entries(members).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
