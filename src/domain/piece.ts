import type { Access, ConfigScope, OnUnavailable, StoredConfig } from "./config.ts";
import type { Entity } from "./entity.ts";
import type { Limit } from "./limit.ts";

/** One thing that a manifest declares and owns: the limits of a level, its access, its cascade, an entity. */
export interface Piece {
  /** Which kind of piece. */
  readonly what: "limits" | "access" | "cascade" | "onUnavailable" | "entity";
  /** Absent of an entity. */
  readonly level?: ConfigScope["level"];
  /** Of which resource, where the level has one. */
  readonly resource?: string;
  /** Of which entity, where the level has one. */
  readonly entityId?: string;
}

/** An entity as it is declared: as a whole. */
export interface EntityValue {
  /** For people. */
  readonly name: string;
  /** Absent: it has none. */
  readonly parentId?: string;
  /** Whether its parent is charged too. */
  readonly cascade: boolean;
  /** Whatever belongs to it. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** What a piece says, by what it is. */
export type PieceValue = readonly Limit[] | Access | boolean | OnUnavailable | EntityValue;

/** A piece as a manifest declares it. */
export interface DeclaredPiece {
  /** Which one. */
  readonly piece: Piece;
  /** What it shall be. */
  readonly value: PieceValue;
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
export function pieceKey({ what, level, entityId = "", resource = "" }: Piece): string {
  return [what, level ?? "", entityId, resource].join("#");
}

export function pieceOfKey(key: string): Piece {
  const [what, level, entityId, resource] = key.split("#");
  return {
    what: what as Piece["what"],
    ...(level ? { level: level as ConfigScope["level"] } : {}),
    ...(resource ? { resource } : {}),
    ...(entityId ? { entityId } : {}),
  };
}

export function pieceIn(what: Exclude<Piece["what"], "entity">, scope: ConfigScope): Piece {
  return {
    what,
    level: scope.level,
    ...("resource" in scope ? { resource: scope.resource } : {}),
    ...("entityId" in scope ? { entityId: scope.entityId } : {}),
  };
}

/** The scope of a piece; undefined of an entity. */
export function scopeOfPiece({ level, resource = "", entityId = "" }: Piece): ConfigScope | undefined {
  switch (level) {
    case undefined:
      return undefined;
    case "system":
      return { level };
    case "resource":
      return { level, resource };
    case "entityDefault":
      return { level, entityId };
    case "entity":
      return { level, entityId, resource };
  }
}

/** What a stored configuration says of a piece; undefined: nothing. */
export function valueInConfig(what: Piece["what"], config: StoredConfig | undefined): PieceValue | undefined {
  switch (what) {
    case "limits":
      return config === undefined || config.limits.length === 0 ? undefined : config.limits;
    case "access":
      return config?.access;
    case "cascade":
      return config?.cascade;
    case "onUnavailable":
      return config?.onUnavailable;
    case "entity":
      return undefined;
  }
}

export function valueOfEntity({ name, parentId, cascade, metadata }: Entity): EntityValue {
  return { name, ...(parentId === undefined ? {} : { parentId }), cascade, metadata };
}

/** Whether two values of one piece say the same: limits by name, in any order. */
export function isSameValue(one: PieceValue | undefined, other: PieceValue | undefined): boolean {
  return one === other || (one !== undefined && other !== undefined && textOf(one) === textOf(other));
}

function textOf(value: PieceValue): string {
  if (typeof value !== "object") return JSON.stringify(value);
  return isLimits(value) ? JSON.stringify(value.map(plainLimit).toSorted()) : entityText(value);
}

function isLimits(value: object): value is readonly Limit[] {
  return Array.isArray(value);
}

// The period of a quota means nothing: nothing drips in it.
function plainLimit({
  name,
  counts,
  capacity,
  refillAmount,
  refillPeriodMs,
  soft,
  schedule,
  reset,
  resetAfterMs,
}: Limit): string {
  const isQuota = reset !== undefined || resetAfterMs !== undefined;
  const windows = (schedule ?? []).map((entry) => [
    ...[entry.cron, entry.tz ?? "UTC", entry.scale ?? null, entry.capacity ?? null],
    ...[entry.refillAmount ?? null, entry.refillPeriodMs ?? null],
  ]);
  return JSON.stringify([
    ...[name, capacity, refillAmount, isQuota ? 0 : refillPeriodMs, soft === true, windows],
    ...[reset === undefined ? null : [reset.cron, reset.tz ?? "UTC"], resetAfterMs ?? null],
    ...(counts === undefined ? [] : [counts]),
  ]);
}

function entityText({ name, parentId, cascade, metadata }: EntityValue): string {
  const pairs = Object.entries(metadata).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([name, parentId ?? null, cascade, pairs]);
}

/** For people: `the limits of key-1 on gpt-4`. */
export function pieceText({ what, level, resource, entityId }: Piece): string {
  if (what === "entity") return `the entity ${entityId}`;
  const named = { limits: "the limits", access: "the access", cascade: "the cascade", onUnavailable: "on_unavailable" };
  switch (level) {
    case "entity":
      return `${named[what]} of ${entityId} on ${resource}`;
    case "entityDefault":
      return `${named[what]} of ${entityId}`;
    case "resource":
      return `${named[what]} of the resource ${resource}`;
    default:
      return `${named[what]} of the system`;
  }
}
