import type { ChangeTime } from "../domain/config/change-number.ts";
import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import {
  type LimitsVersion,
  stintsFrom,
  stintsText,
  versionsText,
  withStint,
  withVersion,
} from "../domain/config/config-versions.ts";
import type { Entity } from "../domain/config/entity.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import type { Plan } from "../domain/config/plan.ts";
import type { RecordKey, RecordPut, StoredRecord } from "../ports/record-store.ts";
import { historyKey, knownLimits, knownVersions, stintsKey } from "../stored/config-keys.ts";
import { rowUnreadable } from "../stored/row-damage.ts";

type Body = RecordKey & { readonly body: unknown };

export function namespacePut(namespace: Namespace): RecordPut {
  const { id, name, status } = namespace;
  return { kind: "namespace", key: [id], by: { name, status }, body: namespace };
}

export function namespaceOf(record: Body): Namespace {
  return objectIn<Namespace>(record);
}

export function entityPut(entity: Entity): RecordPut {
  const { id, parentId, planId } = entity;
  return { kind: "entity", key: [id], by: { parentId, planId }, body: entity };
}

export function entityOf(record: Body): Entity {
  return objectIn<Entity>(record);
}

export function planPut(plan: Plan): RecordPut {
  return { kind: "plan", key: [plan.id], by: {}, body: plan };
}

export function planOf(record: Body): Plan {
  return objectIn<Plan>(record);
}

export function configPut(scope: ConfigScope, config: StoredConfig): RecordPut {
  const hasLimits = config.limits.length > 0 || config.override !== undefined;
  return { kind: "config", key: historyKey(scope), by: { hasLimits }, body: config };
}

/** One body gives one object: many ids that are read in one statement go by the same defaults. */
export function configOf(record: Body): StoredConfig {
  const config = objectIn<StoredConfig>(record);
  let known = configs.get(config);
  if (known === undefined) {
    known = withKnownLimits(config);
    configs.set(config, known);
  }
  return known;
}

const configs = new WeakMap<StoredConfig, StoredConfig>();

function withKnownLimits(config: StoredConfig): StoredConfig {
  const { override } = config;
  const limits = knownLimits(JSON.stringify(config.limits));
  if (override === undefined) return { ...config, limits };
  return { ...config, limits, override: { ...override, limits: knownLimits(JSON.stringify(override.limits)) } };
}

/** The text of a history; undefined where there is none. */
export function textOf(record: Body | undefined): string | undefined {
  if (record === undefined) return undefined;
  if (typeof record.body === "string") return record.body;
  throw unreadable(record);
}

export function objectIn<Value>(record: Body): Value {
  const { body } = record;
  if (typeof body === "object" && body !== null) return body as Value;
  throw unreadable(record);
}

function unreadable({ kind, key, body }: Body): Error {
  return rowUnreadable(body, { table: kind, column: "body", of: key.join(" ") });
}

/** The scope of the records that are of no namespace: the namespaces themselves. */
export const REGISTRY = "";

export const namespaceKey = (id: string): RecordKey => ({ kind: "namespace", key: [id] });
export const entityKey = (id: string): RecordKey => ({ kind: "entity", key: [id] });
export const planKey = (id: string): RecordKey => ({ kind: "plan", key: [id] });
export const ownerKey = (owner: string): RecordKey => ({ kind: "owner", key: [owner] });
export const ownedKey = (piece: string): RecordKey => ({ kind: "owned", key: [piece] });
export const leaseKey = (id: string): RecordKey => ({ kind: "lease", key: [id] });
export const markKey = (key: string): RecordKey => ({ kind: "leaseKey", key: [key] });

export const configKey = (scope: ConfigScope): RecordKey => ({ kind: "config", key: historyKey(scope) });
export const historyOf = (scope: ConfigScope): RecordKey => ({ kind: "history", key: historyKey(scope) });
export const stintsOf = (entityId: string): RecordKey => ({ kind: "history", key: stintsKey(entityId) });

/** The limits of a scope over time; undefined if nothing is known of them. */
export function versionsIn(record: StoredRecord | undefined): readonly LimitsVersion[] | undefined {
  const text = textOf(record);
  return text === undefined ? undefined : knownVersions(text);
}

/** The writes for a scope that says something else; `history` is what is stored of it. */
export function versionPuts(
  scope: ConfigScope,
  history: StoredRecord | undefined,
  change: { readonly before: StoredConfig | undefined; readonly after: StoredConfig | undefined },
  time: ChangeTime,
): readonly RecordPut[] {
  const known = versionsIn(history);
  const versions = withVersion(known, change.before, change.after, time);
  if (versions === undefined || versions === known) return [];
  return [{ kind: "history", key: historyKey(scope), by: {}, body: versionsText(versions) }];
}

/** The writes for an entity that was made, or changed: it may have come to another plan. */
export function stintPuts(
  history: StoredRecord | undefined,
  before: Entity | undefined,
  { id, planId }: Entity,
  time: ChangeTime,
): readonly RecordPut[] {
  if (before?.planId === planId) return [];
  const text = textOf(history);
  const stints = withStint(text === undefined ? undefined : stintsFrom(text), before?.planId, planId, time);
  return stints === undefined ? [] : [{ kind: "history", key: stintsKey(id), by: {}, body: stintsText(stints) }];
}
