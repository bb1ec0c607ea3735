import type { LevelConfig, StoredConfig } from "../../domain/config/config.ts";
import {
  type LimitsVersion,
  type PlanStint,
  resolveLevel,
  type StoredLevel,
  stintsFrom,
} from "../../domain/config/config-versions.ts";
import type { Entity } from "../../domain/config/entity.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import type { RecordKind } from "../../ports/record-store.ts";
import { storedConfigOn } from "../../records/config.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { historyKey, knownVersions, stintsKey } from "../../stored/config-keys.ts";
import { type MemoryData, requireActive } from "./data.ts";
import { type MemoryRecord, textOf } from "./record-rows.ts";

/** Limits at all levels. What applies to a request is looked up without the steps and the keys of a question: it is asked for each new id. */
export function memoryConfigOn(all: MemoryData, records: ScopedRecords): ConfigStore {
  const resolve = (entityId: string, resource: string): LevelConfig => {
    requireActive(all, records.scope);
    return levelIn(all, records.scope, entityId, resource);
  };
  const history = (entityId: string): StoredLevel => {
    requireActive(all, records.scope);
    return storedIn(all, records.scope, entityId);
  };
  return { ...storedConfigOn(records), resolve, resolveSync: resolve, history };
}

/** What applies to an entity on a resource, whatever became of the namespace. */
export function levelIn(all: MemoryData, namespaceId: string, entityId: string, resource: string): LevelConfig {
  const stored = storedIn(all, namespaceId, entityId);
  return resolveLevel({ entityId, resource }, stored.entity, stored.stints, stored);
}

function storedIn(all: MemoryData, namespaceId: string, entityId: string): StoredLevel {
  const rows = all.records.in(namespaceId);
  const find = (kind: RecordKind, text: string) => rows.of(kind).get(text);
  const entity = find("entity", entityId)?.body as Entity | undefined;
  const stints = stintsIn(find("history", textOf(stintsKey(entityId))));
  return {
    ...{ entity, stints },
    configOf: (scope) => find("config", textOf(historyKey(scope)))?.body as StoredConfig | undefined,
    historyOf: (scope) => versionsIn(find("history", textOf(historyKey(scope)))),
  };
}

function stintsIn(record: MemoryRecord | undefined): readonly PlanStint[] | undefined {
  return record && stintsFrom(record.body);
}

/** Versions that were read from the texts of histories, while they are stored. */
const versionsOf = new WeakMap<MemoryRecord, readonly LimitsVersion[] | undefined>();

function versionsIn(record: MemoryRecord | undefined): readonly LimitsVersion[] | undefined {
  if (record === undefined) return undefined;
  if (!versionsOf.has(record)) versionsOf.set(record, knownVersions(record.body as string));
  return versionsOf.get(record);
}
