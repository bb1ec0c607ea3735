import {
  type DeclaredPiece,
  type EntityValue,
  type LimitsValue,
  limitsOfValue,
  type Piece,
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
  readonly namespace?: string;
  readonly owner?: string;
  readonly plans?: Json;
  readonly system?: Json;
  readonly resources?: Json;
  readonly entities?: Json;
}

type Json = Readonly<Record<string, unknown>>;
type Open = Record<string, Record<string, unknown>>;
type LevelWhat = Exclude<Piece["what"], "plan" | "entity">;

/** How pieces are written: the keys of a document, and the members of each piece. */
interface DocumentForm {
  readonly resources: string;
  readonly create: string;
  readonly plan: (id: string, value: PlanValue) => Json;
  readonly entity: (id: string, value: EntityValue) => Json;
  readonly level: (what: LevelWhat, value: PieceValue) => Json;
}

/** The parts of a document, each with its members in the order of the pieces. */
export function partsOfDocument(pieces: readonly DeclaredPiece[], form: DocumentForm) {
  const [plans, system, resources, entities]: [Open, Record<string, unknown>, Open, Open] = [{}, {}, {}, {}];
  const levelOf = ({ level, resource = "_default_", entityId, planId }: Piece): Record<string, unknown> => {
    const owner =
      planId !== undefined
        ? memberIn(plans, planId)
        : entityId !== undefined
          ? memberIn(entities, entityId)
          : undefined;
    if (owner === undefined) return level === "resource" ? memberIn(resources, resource) : system;
    const isOnResource = level === "plan" || level === "entity" || level === "entityDefault";
    return isOnResource ? memberIn(memberIn(owner, form.resources), resource) : owner;
  };
  for (const { piece, value, ifAbsent } of pieces) {
    const { what, entityId = "", planId = "" } = piece;
    if (what === "plan") plans[planId] = { ...form.plan(planId, value as PlanValue), ...plans[planId] };
    else if (what === "entity") {
      const own = ifAbsent === true ? {} : form.entity(entityId, value as EntityValue);
      entities[entityId] = { ...own, ...entities[entityId] };
    } else Object.assign(levelOf(piece), form.level(what, value));
  }
  for (const id of notCreatedIn(pieces)) entities[id] = { [form.create]: false, ...entities[id] };
  return { plans, system, resources, entities };
}

/** Leaves out parts without members. */
export function withoutEmpty<Parts extends object>(parts: Parts): Partial<Parts> {
  return Object.fromEntries(
    Object.entries(parts).filter(([, members]) => Object.keys(members).length > 0),
  ) as Partial<Parts>;
}

/** The document that declares these pieces, in the order of their names. */
export function documentOf(
  whose: Pick<ManifestDocument, "namespace" | "owner">,
  pieces: readonly DeclaredPiece[],
): ManifestDocument {
  const { plans, system, resources, entities } = partsOfDocument(pieces, MANIFEST);
  const parts = { plans: sorted(plans), system, resources: sorted(resources), entities: sorted(entities) };
  const declared = withoutEmpty(parts);
  return { ...whose, ...(Object.keys(declared).length === 0 ? { resources: {} } : declared) };
}

const MANIFEST: DocumentForm = {
  resources: "resources",
  create: "create",
  plan: (id, { name, metadata }) => ({ ...(name === id ? {} : { name }), ...withoutEmpty({ metadata }) }),
  entity: (id, { name, parentId, planId, cascade, metadata }) => ({
    // Something must declare the entity, also where everything has its default.
    ...(name === id && (parentId !== undefined || planId !== undefined) ? {} : { name }),
    ...given({ parent: parentId, plan: planId }),
    ...(cascade === (parentId !== undefined) ? {} : { cascade }),
    ...withoutEmpty({ metadata }),
  }),
  level: (what, value) => levelMembers(what, value, specOfLimit),
};

/** Entities whose limits are declared, and they themselves are not. */
function notCreatedIn(pieces: readonly DeclaredPiece[]): ReadonlySet<string> {
  const left = new Set(pieces.flatMap(({ piece: { entityId = [] } }) => entityId));
  for (const { piece } of pieces) if (piece.what === "entity") left.delete(piece.entityId ?? "");
  return left;
}

/** The map under a key, made where there is none. */
function memberIn(members: Record<string, unknown>, key: string): Record<string, unknown> {
  members[key] ??= {};
  return members[key] as Record<string, unknown>;
}

/** A piece of a level under its names in a manifest, with each limit as `written`. */
export function levelMembers(what: LevelWhat, value: PieceValue, written: (limit: Limit) => unknown): Json {
  if (what === "onUnavailable") return { on_unavailable: value };
  if (what === "usageKeptDays") return { usage_kept_days: value };
  if (what !== "limits" && what !== "totals") return { [what]: value };
  const { limits, inherit, appliesTo } = limitsOfValue(value as readonly Limit[] | LimitsValue);
  const prefix = what === "limits" ? "" : "totals_";
  return {
    [what]: Object.fromEntries(limits.map((limit) => [limit.name, written(limit)])),
    ...given({ [`${prefix}inherit`]: inherit, [`${prefix}applies_to`]: appliesTo }),
  };
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

function sorted(members: Open): Json {
  return Object.fromEntries(Object.entries(members).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
