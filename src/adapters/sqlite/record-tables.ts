import type { SQLInputValue } from "node:sqlite";
import {
  type Access,
  type AccessOverride,
  type ConfiguredEntity,
  frozenOf,
  type LimitsOverride,
  type OnUnavailable,
  type StoredConfig,
  textOfFrozen,
} from "../../domain/config/config.ts";
import type { Entity } from "../../domain/config/entity.ts";
import type { Namespace, NamespaceStatus } from "../../domain/config/namespace.ts";
import type { OwnedPiece } from "../../domain/config/piece.ts";
import type { Plan } from "../../domain/config/plan.ts";
import { given } from "../../domain/names/given.ts";
import type { OwnerRecord } from "../../ports/config-store.ts";
import type { RecordKind } from "../../ports/record-store.ts";
import { knownLimits } from "../../stored/config-keys.ts";
import { readableJson } from "../../stored/row-damage.ts";
import type { Row } from "./connection.ts";

/** A table of records of one kind. */
export interface RecordTable {
  readonly table: string;
  /** All but that of namespaces have the namespace in front of their keys. */
  readonly isInNamespace: boolean;
  readonly key: readonly string[];
  readonly columns: readonly string[];
  /** The body of a record, from its columns and the last part of its key. */
  readonly bodyOf: (columns: Row, id: string) => unknown;
  readonly columnsOf: (body: unknown) => readonly SQLInputValue[];
}

/** `Body` is what the other rules of records take a body for. */
function table<Body>(
  name: string,
  key: readonly string[],
  columns: readonly string[],
  codec: {
    readonly bodyOf: (columns: Row, id: string) => Body;
    readonly columnsOf: (body: Body) => readonly SQLInputValue[];
  },
): RecordTable {
  const columnsOf = (body: unknown) => codec.columnsOf(body as Body);
  return { table: name, isInNamespace: name !== "namespace", key, columns, bodyOf: codec.bodyOf, columnsOf };
}

const PLAN_COLUMNS = ["limits", "inherit", "applies_to", "override"];

const PLAN_CONFIG = table<StoredConfig>("plan_config", ["plan", "resource"], PLAN_COLUMNS, {
  bodyOf: ([limits, inherit, appliesTo, override]) =>
    configOf([limits, null, null, null, inherit, appliesTo, override, null, null] as Row),
  columnsOf: ({ limits, inherit, appliesTo, override }) => [
    ...[JSON.stringify(limits), inherit === true ? 1 : null, appliesTo ?? null],
    textOf(override),
  ],
});

export const CONFIG_COLUMNS = [
  ...["limits", "on_unavailable", "access", "cascade", "inherit", "applies_to"],
  ...["override", "access_override", "frozen"],
];

const TABLES = {
  namespace: table<Namespace>("namespace", ["id"], ["name", "status", "created_at_ms", "deleted_at_ms"], {
    bodyOf: ([name, status, createdAtMs, deletedAtMs], id) => ({
      ...{ id, name: name as string, status: status as NamespaceStatus, createdAtMs: createdAtMs as number },
      ...(deletedAtMs === null ? {} : { deletedAtMs: deletedAtMs as number }),
    }),
    columnsOf: ({ name, status, createdAtMs, deletedAtMs }) => [name, status, createdAtMs, deletedAtMs ?? null],
  }),
  entity: table<Entity>(
    "entity",
    ["id"],
    ["name", "parent_id", "cascade", "metadata", "version", "created_at_ms", "updated_at_ms", "plan_id"],
    {
      bodyOf: ([name, parentId, cascade, metadata, version, createdAtMs, updatedAtMs, planId], id) => ({
        ...{ id, name: name as string, ...configuredEntity([parentId, cascade, planId] as Row) },
        metadata: readableJson<Entity["metadata"]>(metadata, { table: "entity", column: "metadata", of: id }),
        ...{ version: version as number, createdAtMs: createdAtMs as number, updatedAtMs: updatedAtMs as number },
      }),
      columnsOf: ({ name, parentId, cascade, metadata, version, createdAtMs, updatedAtMs, planId }) => [
        ...[name, parentId ?? null, cascade ? 1 : 0, JSON.stringify(metadata)],
        ...[version, createdAtMs, updatedAtMs, planId ?? null],
      ],
    },
  ),
  plan: table<Plan>("plan", ["id"], ["name", "metadata", "version", "created_at_ms", "updated_at_ms"], {
    bodyOf: ([name, metadata, version, createdAtMs, updatedAtMs], id) => ({
      ...{ id, name: name as string },
      metadata: readableJson<Plan["metadata"]>(metadata, { table: "plan", column: "metadata", of: id }),
      ...{ version: version as number, createdAtMs: createdAtMs as number, updatedAtMs: updatedAtMs as number },
    }),
    columnsOf: ({ name, metadata, version, createdAtMs, updatedAtMs }) => [
      ...[name, JSON.stringify(metadata), version, createdAtMs, updatedAtMs],
    ],
  }),
  config: table<StoredConfig>("config", ["entity", "resource"], CONFIG_COLUMNS, {
    bodyOf: configOf,
    columnsOf: ({ limits, onUnavailable, access, cascade, inherit, appliesTo, override, accessOverride, frozen }) => [
      ...[JSON.stringify(limits), onUnavailable ?? null, access ?? null],
      ...[cascade === undefined ? null : cascade ? 1 : 0, inherit === true ? 1 : null, appliesTo ?? null],
      ...[textOf(override), textOf(accessOverride), textOfFrozen(frozen) ?? null],
    ],
  }),
  history: table<string>("limit_history", ["of", "owner", "resource"], ["versions"], {
    bodyOf: ([versions]) => versions as string,
    columnsOf: (versions) => [versions],
  }),
  owner: table<OwnerRecord>("owner", ["owner"], ["run", "applied_at_ms"], {
    bodyOf: ([run, appliedAtMs], owner) => ({ owner, run: run as string, appliedAtMs: appliedAtMs as number }),
    columnsOf: ({ run, appliedAtMs }) => [run, appliedAtMs],
  }),
  owned: table<Omit<OwnedPiece, "piece"> & { readonly value?: unknown }>(
    "owned",
    ["piece"],
    ["owner", "at_ms", "applied"],
    {
      bodyOf: ([owner, atMs, applied], piece) => ({
        ...{ owner: owner as string, atMs: atMs as number },
        ...(applied === null
          ? { state: "pending" as const }
          : {
              state: "applied" as const,
              value: readableJson(applied, { table: "owned", column: "applied", of: piece }),
            }),
      }),
      columnsOf: ({ owner, atMs, state, value }) => [owner, atMs, state === "applied" ? JSON.stringify(value) : null],
    },
  ),
  refusalLog: table<{ readonly version: number; readonly log: string }>(
    "refusal_log",
    ["hour_ms", "entity", "writer"],
    ["version", "log"],
    {
      bodyOf: ([version, log]) => ({ version: version as number, log: log as string }),
      columnsOf: ({ version, log }) => [version, log],
    },
  ),
} satisfies Partial<Record<RecordKind, RecordTable>>;

/** The table of a record, and its key there: configuration of plans is in another one than that of entities and of defaults. */
export function tableOf(
  kind: RecordKind,
  key: readonly string[],
): { readonly of: RecordTable; readonly key: readonly string[] } {
  if (kind === "config") return { of: key[0] === "plan" ? PLAN_CONFIG : TABLES.config, key: key.slice(1) };
  if (kind in TABLES) return { of: TABLES[kind as keyof typeof TABLES], key };
  throw new TypeError(`Records of the kind ${kind} are in no table of their own.`);
}

function textOf(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

export function configOf(columns: Row): StoredConfig {
  const [limits, onUnavailable, access, cascade, inherit, appliesTo, override, accessOverride, frozen] = columns;
  return {
    limits: knownLimits(limits),
    ...(inherit === 1 ? { inherit: true as const } : {}),
    ...(appliesTo === "callers" ? { appliesTo } : {}),
    ...(onUnavailable === null ? {} : { onUnavailable: onUnavailable as OnUnavailable }),
    ...(access === null ? {} : { access: access as Access }),
    ...(cascade === null ? {} : { cascade: cascade === 1 }),
    ...(override === null ? {} : { override: knownOverride(override) }),
    ...(accessOverride === null
      ? {}
      : { accessOverride: readableJson<AccessOverride>(accessOverride, { ...ROW, column: "access_override" }) }),
    ...given({ frozen: frozenOf(frozen as string | null) }),
  };
}

const ROW = { table: "config", of: "" };

/** The override that a text of JSON has. */
function knownOverride(text: unknown): LimitsOverride {
  const override = readableJson<LimitsOverride>(text, { ...ROW, column: "override" });
  return { ...override, limits: knownLimits(JSON.stringify(override.limits)) };
}

/** The part of an entity that configuration needs. */
export function configuredEntity([parentId, cascade, planId]: Row): ConfiguredEntity {
  return {
    ...(parentId === null ? {} : { parentId: parentId as string }),
    ...(planId === null ? {} : { planId: planId as string }),
    cascade: cascade === 1,
  };
}
