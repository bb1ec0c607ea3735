import { canonical } from "../lease/idempotency.ts";
import { formOf } from "../limits/kinds/table.ts";
import type { Limit } from "../limits/limit.ts";
import { TZ_DEFAULT } from "../limits/schedule.ts";
import { given } from "../names/given.ts";
import type { Access, ConfigScope, LevelOptions, OnUnavailable, StoredConfig } from "./config.ts";
import type { Entity } from "./entity.ts";
import type { Plan } from "./plan.ts";

/**
 * One thing that a manifest declares and owns: the limits or totals of a level, its access, its cascade, an entity, a
 * plan.
 */
export interface Piece {
  /** The kind of the piece. */
  readonly what: "limits" | "totals" | "access" | "cascade" | "onUnavailable" | "usageKeptDays" | "entity" | "plan";
  /** Its level. Absent for an entity and a plan. */
  readonly level?: ConfigScope["level"];
  /** The resource, if the level has one. */
  readonly resource?: string;
  /** The entity, if the piece has one. */
  readonly entityId?: string;
  /** The plan, if the piece has one. */
  readonly planId?: string;
}

/** An entity as it is declared. */
export interface EntityValue {
  /** A name for people. */
  readonly name: string;
  /** The entity above it. Absent: none. */
  readonly parentId?: string;
  /** Its plan. Absent: none. */
  readonly planId?: string;
  /** Whether its parent is charged too. */
  readonly cascade: boolean;
  /** Texts of your own. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** A plan as it is declared, without its limits. */
export interface PlanValue {
  /** A name for people. */
  readonly name: string;
  /** Texts of your own. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** Limits with options that differ from the default. */
export interface LimitsValue extends LevelOptions {
  /** The limits. */
  readonly limits: readonly Limit[];
}

/** The value of a piece. Limits and totals without options are a list. */
export type PieceValue =
  | readonly Limit[]
  | LimitsValue
  | Access
  | boolean
  | number
  | OnUnavailable
  | EntityValue
  | PlanValue;

/** A piece as a manifest declares it. */
export interface DeclaredPiece {
  /** The piece. */
  readonly piece: Piece;
  /** Its declared value. */
  readonly value: PieceValue;
  /** Of an entity of which nothing is said but its limits: it is created if it is missing, and otherwise left as it is. */
  readonly ifAbsent?: boolean;
}

/**
 * A piece as the store has it for its owner. `pending`: it is being written or deleted, or was when that was cut off; what it
 * is now is not known. `applied`: it was written as `value`.
 */
export type OwnedPiece = { readonly piece: Piece; readonly owner: string; readonly atMs: number } & (
  | { readonly state: "pending" }
  | { readonly state: "applied"; readonly value: PieceValue }
);

/** A text that is the same for the same piece; names have no `#`. */
export function pieceKey({ what, level, entityId = "", resource = "", planId }: Piece): string {
  return [what, level ?? "", entityId, resource, ...(planId === undefined ? [] : [planId])].join("#");
}

export function pieceOfKey(key: string): Piece {
  const [what, level, entityId, resource, planId] = key.split("#");
  const names = { resource: resource || undefined, entityId: entityId || undefined, planId: planId || undefined };
  return { what: what as Piece["what"], ...given({ level: (level || undefined) as Piece["level"], ...names }) };
}

export function pieceIn(what: Exclude<Piece["what"], "entity" | "plan">, scope: ConfigScope): Piece {
  const { level, resource, entityId, planId }: Omit<Piece, "what"> = scope;
  return { what, ...given({ level, resource, entityId, planId }) };
}

/** The scope of a piece; undefined of an entity and of a plan. */
export function scopeOfPiece({ level, resource = "", entityId = "", planId = "" }: Piece): ConfigScope | undefined {
  switch (level) {
    case undefined:
      return undefined;
    case "system":
    case "systemTotal":
      return { level };
    case "plan":
      return { level, planId, resource };
    case "planDefault":
    case "planTotal":
      return { level, planId };
    case "resource":
      return { level, resource };
    case "entityDefault":
    case "entityTotal":
      return { level, entityId };
    case "entity":
      return { level, entityId, resource };
  }
}

/** The value of a piece in a stored configuration; undefined: none. */
export function valueInConfig(what: Piece["what"], config: StoredConfig | undefined): PieceValue | undefined {
  switch (what) {
    case "limits":
    case "totals":
      return config === undefined || config.limits.length === 0 ? undefined : limitsValue(config.limits, config);
    case "access":
      return config?.access;
    case "cascade":
      return config?.cascade;
    case "onUnavailable":
      return config?.onUnavailable;
    case "usageKeptDays":
      return config?.usageKeptDays;
    case "entity":
    case "plan":
      return undefined;
  }
}

/** Limits and their options as the value of a piece. */
export function limitsValue(
  limits: readonly Limit[],
  { inherit, appliesTo }: LevelOptions,
): readonly Limit[] | LimitsValue {
  if (inherit === undefined && appliesTo === undefined) return limits;
  return { limits, ...given({ inherit, appliesTo }) };
}

/** Reads what `limitsValue` has made. */
export function limitsOfValue(value: readonly Limit[] | LimitsValue): LimitsValue {
  return isLimits(value) ? { limits: value } : value;
}

export function valueOfEntity({ name, parentId, planId, cascade, metadata }: Entity): EntityValue {
  return { name, ...given({ parentId, planId }), cascade, metadata };
}

export function valueOfPlan({ name, metadata }: Plan): PlanValue {
  return { name, metadata };
}

/** Whether two values of one piece say the same: limits by name, in any order. */
export function isSameValue(one: PieceValue | undefined, other: PieceValue | undefined): boolean {
  return one === other || (one !== undefined && other !== undefined && textOf(one) === textOf(other));
}

function textOf(value: PieceValue): string {
  if (typeof value !== "object") return JSON.stringify(value);
  if (isLimits(value)) return JSON.stringify(value.map(plainLimit).toSorted());
  if ("limits" in value) return JSON.stringify([textOf(value.limits), value.inherit ?? null, value.appliesTo ?? null]);
  return ownerText(value);
}

function isLimits(value: object): value is readonly Limit[] {
  return Array.isArray(value);
}

/** A limit as text that is the same for what means the same: the period of a quota means nothing, and no zone is UTC. */
function plainLimit(limit: Limit): string {
  const { refillPeriodMs, soft, shadow, schedule = [], reset } = limit;
  const zoned = <Timed extends { readonly tz?: string }>(timed: Timed) => ({ ...timed, tz: timed.tz ?? TZ_DEFAULT });
  return canonical({
    ...limit,
    refillPeriodMs: formOf(limit) === undefined ? refillPeriodMs : 0,
    ...{ soft: soft === true, shadow: shadow === true, schedule: schedule.map(zoned), reset: reset && zoned(reset) },
  });
}

function ownerText({ name, metadata, ...rest }: EntityValue | PlanValue): string {
  const { parentId = null, planId = null, cascade = null } = rest as Partial<EntityValue>;
  const pairs = Object.entries(metadata).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([name, parentId, planId, cascade, pairs]);
}

const NAMES: Readonly<Record<Piece["what"], string>> = {
  limits: "the limits",
  totals: "the totals",
  access: "the access",
  cascade: "the cascade",
  onUnavailable: "on_unavailable",
  usageKeptDays: "usage_kept_days",
  entity: "the entity",
  plan: "the plan",
};

/** A piece in words: `the limits of key-1 on gpt-4`. */
export function pieceText({ what, level, resource, entityId, planId }: Piece): string {
  if (what === "entity") return `the entity ${entityId}`;
  if (what === "plan") return `the plan ${planId}`;
  const place = resource === undefined ? "the system" : `the resource ${resource}`;
  const owner = planId === undefined ? entityId : `the plan ${planId}`;
  const hasBoth = level === "plan" || level === "entity";
  return `${NAMES[what]} of ${hasBoth ? `${owner} on ${resource}` : (owner ?? place)}`;
}
