import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import type { Entity } from "../domain/config/entity.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import type { Plan } from "../domain/config/plan.ts";
import type { RecordKey, RecordPut } from "../ports/record-store.ts";
import { historyKey } from "../stored/config-keys.ts";
import { knownLimits } from "../stored/known-limits.ts";
import { rowUnreadable } from "../stored/row-damage.ts";

/** What is read of a record. */
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
  return { kind: "config", key: historyKey(scope), by: { hasLimits: config.limits.length > 0 }, body: config };
}

export function configOf(record: Body): StoredConfig {
  const config = objectIn<StoredConfig>(record);
  return { ...config, limits: knownLimits(JSON.stringify(config.limits)) };
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
