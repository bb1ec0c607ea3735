import {
  type ConfigScope,
  type ConfiguredEntity,
  type LevelConfig,
  type StoredConfig,
  scopesOf,
} from "../../domain/config/config.ts";
import {
  formerPlans,
  type LimitsVersion,
  type PlanStint,
  resolveLevel,
  type StoredLevel,
  stintsFrom,
} from "../../domain/config/config-versions.ts";
import { namespaceNotActive } from "../../domain/config/namespace.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import { configKey, historyOf, versionsIn } from "../../records/bodies.ts";
import { storedConfigOn } from "../../records/config.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { historyKey, knownVersions } from "../../stored/config-keys.ts";
import type { Connection } from "./connection.ts";
import { CONFIG_COLUMNS, configOf, configuredEntity } from "./record-tables.ts";
import type { SqliteRecords } from "./records.ts";

const COLUMNS = CONFIG_COLUMNS.join();
/** A plan has neither access nor cascade of its own; the same columns, so that its rows are read in the same way. */
const PLAN_COLUMNS =
  "limits, NULL AS on_unavailable, NULL AS access, NULL AS cascade, inherit, applies_to, override, NULL AS access_override, " +
  "NULL AS frozen";

const PLACE = "CASE resource WHEN '' THEN 'any' WHEN '*' THEN 'total' ELSE 'one' END";

// The namespace first, the only row that must be there; then the entity; then configuration in any order.
const RESOLVE = `
  SELECT 'namespace' AS place, NULL AS a, NULL AS b, NULL AS c, NULL AS d, NULL AS e, NULL AS f, NULL AS g, NULL AS h, NULL AS i
    FROM namespace WHERE id = ? AND status = 'active'
  UNION ALL SELECT 'who', parent_id, cascade, plan_id, NULL, NULL, NULL, NULL, NULL, NULL FROM entity WHERE namespace = ? AND id = ?
  UNION ALL SELECT 'entity ' || ${PLACE}, ${COLUMNS} FROM config
    WHERE namespace = ? AND entity = ? AND resource IN (?, '', '*')
  UNION ALL SELECT 'system ' || ${PLACE}, ${COLUMNS} FROM config
    WHERE namespace = ? AND entity = '' AND resource IN (?, '', '*')
  UNION ALL SELECT 'plan ' || ${PLACE}, ${PLAN_COLUMNS} FROM plan_config
    WHERE namespace = ? AND plan = (SELECT plan_id FROM entity WHERE namespace = ? AND id = ?) AND resource IN (?, '', '*')
  UNION ALL SELECT 'history ' || of, versions, owner, resource, NULL, NULL, NULL, NULL, NULL, NULL FROM limit_history
    WHERE namespace = ? AND of = 'entity' AND owner IN (?, '') AND resource IN (?, '', '*')
  UNION ALL SELECT 'history ' || of, versions, owner, resource, NULL, NULL, NULL, NULL, NULL, NULL FROM limit_history
    WHERE namespace = ? AND of = 'plan' AND resource IN (?, '', '*')
      AND owner = (SELECT plan_id FROM entity WHERE namespace = ? AND id = ?)
  UNION ALL SELECT 'history ' || of, versions, owner, resource, NULL, NULL, NULL, NULL, NULL, NULL FROM limit_history
    WHERE namespace = ? AND of = 'stints' AND owner = ? AND resource = ''`;

const PLACES: Readonly<Record<ConfigScope["level"], string>> = {
  ...{ entity: "entity one", entityDefault: "entity any", entityTotal: "entity total" },
  ...{ plan: "plan one", planDefault: "plan any", planTotal: "plan total" },
  ...{ resource: "system one", system: "system any", systemTotal: "system total" },
};

/** Limits at all levels: an empty entity or resource stands for "any", the resource `*` for totals. */
export function sqliteConfigOn(records: ScopedRecords, storedOf: StoredOf): ConfigStore {
  const history = (entityId: string, resource: string): StoredLevel => {
    const stored = storedOf(entityId, resource);
    if (stored === undefined) throw namespaceNotActive(records.scope);
    return stored;
  };
  const resolve = (entityId: string, resource: string): LevelConfig => {
    const stored = history(entityId, resource);
    return resolveLevel({ entityId, resource }, stored.entity, stored.stints, stored);
  };
  return { ...storedConfigOn(records), resolve, resolveSync: resolve, history };
}

/** What applies to an entity on a resource, also inside a transaction; undefined where the namespace is not active. */
type LevelOf = (entityId: string, resource: string) => LevelConfig | undefined;

export function levelsIn(storedOf: StoredOf): LevelOf {
  return (entityId, resource) => {
    const stored = storedOf(entityId, resource);
    return stored && resolveLevel({ entityId, resource }, stored.entity, stored.stints, stored);
  };
}

/** What is stored of an entity on a resource; undefined where the namespace is not active. */
type StoredOf = (entityId: string, resource: string) => StoredLevel | undefined;

export function storedLevelsIn(
  { connection, records }: { readonly connection: Connection; readonly records: SqliteRecords },
  namespaceId: string,
): StoredOf {
  const statement = connection.prepare(RESOLVE);
  return (entityId, resource) => {
    const [n, e, r] = [namespaceId, entityId, resource];
    const rows = connection.read(() => statement.all(n, n, e, n, e, r, n, r, n, n, e, r, n, e, r, n, r, n, e, n, e));
    if (rows[0]?.[0] !== "namespace") return undefined;
    const found = new Map<string, StoredConfig>();
    const versions = new Map<string, readonly LimitsVersion[] | undefined>();
    let entity: ConfiguredEntity | undefined;
    let stints: readonly PlanStint[] | undefined;
    for (const [place, ...columns] of rows.slice(1)) {
      if (place === "who") entity = configuredEntity(columns);
      else if (place === "history stints") stints = stintsFrom(columns[0]);
      else if (place === "history entity" || place === "history plan") {
        const [text, owner, on] = columns;
        versions.set(JSON.stringify([place.slice("history ".length), owner, on]), knownVersions(text as string));
      } else found.set(place as string, configOf(columns));
    }
    const former = new Map<string, StoredConfig | undefined>();
    for (const planId of formerPlans(stints)) {
      if (planId === entity?.planId) continue;
      for (const scope of scopesOf(entityId, resource, planId).filter((one) => "planId" in one)) {
        const [config, history] = records.get(n, [configKey(scope), historyOf(scope)]).records;
        former.set(textOf(scope), config?.body as StoredConfig | undefined);
        versions.set(textOf(scope), versionsIn(history));
      }
    }
    return {
      ...{ entity, stints },
      configOf: (scope) => (former.has(textOf(scope)) ? former.get(textOf(scope)) : found.get(PLACES[scope.level])),
      historyOf: (scope) => versions.get(textOf(scope)),
    };
  };
}

function textOf(scope: ConfigScope): string {
  return JSON.stringify(historyKey(scope));
}
