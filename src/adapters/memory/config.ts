import { type ConfigScope, type LevelConfig, type StoredConfig, scopesOf } from "../../domain/config/config.ts";
import { type LimitsVersion, resolveChanges, saidOver } from "../../domain/config/config-versions.ts";
import type { Entity } from "../../domain/config/entity.ts";
import { type PlanStint, stintsFrom } from "../../domain/config/plan-stints.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import type { RecordKind } from "../../ports/record-store.ts";
import { ConfigRecords } from "../../records/config.ts";
import type { RecordParts } from "../../records/parts.ts";
import { historyKey, stintsKey } from "../../stored/config-keys.ts";
import { knownVersions } from "../../stored/known-versions.ts";
import { type MemoryData, requireActive } from "./data.ts";
import { type MemoryRecord, textOf } from "./record-rows.ts";

/** Limits at all levels. What applies to a request is looked up without the steps and the keys of a question: it is asked for each new id. */
export class MemoryConfig extends ConfigRecords implements ConfigStore {
  readonly #all: MemoryData;
  readonly #namespaceId: string;

  constructor(all: MemoryData, parts: RecordParts, namespaceId: string) {
    super(parts, namespaceId);
    this.#all = all;
    this.#namespaceId = namespaceId;
  }

  resolve(entityId: string, resource: string): LevelConfig {
    return this.resolveSync(entityId, resource);
  }

  resolveSync(entityId: string, resource: string): LevelConfig {
    requireActive(this.#all, this.#namespaceId);
    return levelIn(this.#all, this.#namespaceId, entityId, resource);
  }
}

/** What applies to an entity on a resource, whatever became of the namespace. */
export function levelIn(all: MemoryData, namespaceId: string, entityId: string, resource: string): LevelConfig {
  const rows = all.records.in(namespaceId);
  const find = (kind: RecordKind, text: string) => rows.of(kind).get(text);
  const entity = find("entity", entityId)?.body as Entity | undefined;
  const scopes = scopesOf(entityId, resource, entity?.planId);
  const configOf = (scope: ConfigScope) => find("config", textOf(historyKey(scope)))?.body as StoredConfig | undefined;
  const historyOf = (scope: ConfigScope) => versionsIn(find("history", textOf(historyKey(scope))));
  const stints = stintsIn(find("history", textOf(stintsKey(entityId))));
  const scopesWith = (planId: string | undefined) => scopesOf(entityId, resource, planId);
  const saidBy = (scope: ConfigScope) => saidOver(historyOf(scope), configOf(scope));
  const past = stints === undefined ? undefined : { stints, scopesWith, historyOf: saidBy };
  return resolveChanges(scopes.map(configOf), scopes.map(historyOf), scopes, entity, past);
}

function stintsIn(record: MemoryRecord | undefined): readonly PlanStint[] | undefined {
  return record && stintsFrom(record.body);
}

/** What was read of the texts of histories, while they are stored. */
const versionsOf = new WeakMap<MemoryRecord, readonly LimitsVersion[] | undefined>();

function versionsIn(record: MemoryRecord | undefined): readonly LimitsVersion[] | undefined {
  if (record === undefined) return undefined;
  if (!versionsOf.has(record)) versionsOf.set(record, knownVersions(record.body as string));
  return versionsOf.get(record);
}
