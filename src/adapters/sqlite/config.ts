import {
  type ConfigScope,
  type ConfiguredEntity,
  type LevelConfig,
  type StoredConfig,
  scopesOf,
} from "../../domain/config/config.ts";
import { type LimitsVersion, resolveChanges, saidOver } from "../../domain/config/config-versions.ts";
import { namespaceNotActive } from "../../domain/config/namespace.ts";
import { formerPlans, type PlanStint, stintsFrom } from "../../domain/config/plan-stints.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import { ConfigRecords } from "../../records/config.ts";
import { versionsIn } from "../../records/histories.ts";
import { configKey, historyOf } from "../../records/keys.ts";
import type { RecordParts } from "../../records/parts.ts";
import { historyKey } from "../../stored/config-keys.ts";
import { knownVersions } from "../../stored/known-versions.ts";
import type { Connection, Statement } from "./connection.ts";
import { CONFIG_COLUMNS, configOf, configuredEntity } from "./record-tables.ts";
import type { SqliteRecords } from "./records.ts";

const COLUMNS = CONFIG_COLUMNS.join();
/** A plan has neither access nor cascade of its own; the same columns, so that its rows are read in the same way. */
const PLAN_COLUMNS = "limits, NULL AS on_unavailable, NULL AS access, NULL AS cascade, inherit, applies_to";

const PLACE = "CASE resource WHEN '' THEN 'any' WHEN '*' THEN 'total' ELSE 'one' END";

// The namespace first, the only row that must be there; then the entity; then configuration in any order.
const RESOLVE = `
  SELECT 'namespace' AS place, NULL AS a, NULL AS b, NULL AS c, NULL AS d, NULL AS e, NULL AS f
    FROM namespace WHERE id = ? AND status = 'active'
  UNION ALL SELECT 'who', parent_id, cascade, plan_id, NULL, NULL, NULL FROM entity WHERE namespace = ? AND id = ?
  UNION ALL SELECT 'entity ' || ${PLACE}, ${COLUMNS} FROM config
    WHERE namespace = ? AND entity = ? AND resource IN (?, '', '*')
  UNION ALL SELECT 'system ' || ${PLACE}, ${COLUMNS} FROM config
    WHERE namespace = ? AND entity = '' AND resource IN (?, '', '*')
  UNION ALL SELECT 'plan ' || ${PLACE}, ${PLAN_COLUMNS} FROM plan_config
    WHERE namespace = ? AND plan = (SELECT plan_id FROM entity WHERE namespace = ? AND id = ?) AND resource IN (?, '', '*')
  UNION ALL SELECT 'history ' || of, versions, owner, resource, NULL, NULL, NULL FROM limit_history
    WHERE namespace = ? AND of = 'entity' AND owner IN (?, '') AND resource IN (?, '', '*')
  UNION ALL SELECT 'history ' || of, versions, owner, resource, NULL, NULL, NULL FROM limit_history
    WHERE namespace = ? AND of = 'plan' AND resource IN (?, '', '*')
      AND owner = (SELECT plan_id FROM entity WHERE namespace = ? AND id = ?)
  UNION ALL SELECT 'history ' || of, versions, owner, resource, NULL, NULL, NULL FROM limit_history
    WHERE namespace = ? AND of = 'stints' AND owner = ? AND resource = ''`;

const PLACES: Readonly<Record<ConfigScope["level"], string>> = {
  ...{ entity: "entity one", entityDefault: "entity any", entityTotal: "entity total" },
  ...{ plan: "plan one", planDefault: "plan any", planTotal: "plan total" },
  ...{ resource: "system one", system: "system any", systemTotal: "system total" },
};

/** Limits at all levels: an empty entity or resource stands for "any", the resource `*` for totals. */
export class SqliteConfig extends ConfigRecords implements ConfigStore {
  readonly #connection: Connection;
  readonly #records: SqliteRecords;
  readonly #namespaceId: string;
  readonly #resolve: Statement;

  constructor(
    parts: { readonly connection: Connection; readonly records: SqliteRecords; readonly recorded: RecordParts },
    namespaceId: string,
  ) {
    super(parts.recorded, namespaceId);
    this.#connection = parts.connection;
    this.#records = parts.records;
    this.#namespaceId = namespaceId;
    this.#resolve = parts.connection.prepare(RESOLVE);
  }

  resolve(entityId: string, resource: string): LevelConfig {
    return this.resolveSync(entityId, resource);
  }

  resolveSync(entityId: string, resource: string): LevelConfig {
    const level = this.levelOf(entityId, resource);
    if (level === undefined) throw namespaceNotActive(this.#namespaceId);
    return level;
  }

  /** The same, also inside a transaction; undefined where the namespace is not active. */
  levelOf(entityId: string, resource: string): LevelConfig | undefined {
    const [n, e, r] = [this.#namespaceId, entityId, resource];
    const rows = this.#connection.read(() =>
      this.#resolve.all(n, n, e, n, e, r, n, r, n, n, e, r, n, e, r, n, r, n, e, n, e),
    );
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
    const scopes = scopesOf(entityId, resource, entity?.planId);
    const configs = scopes.map(({ level }) => found.get(PLACES[level]));
    const overTime = (scope: ConfigScope) => versions.get(JSON.stringify(historyKey(scope)));
    const scopesWith = (planId: string | undefined) => scopesOf(entityId, resource, planId);
    for (const planId of formerPlans(stints)) {
      if (planId === entity?.planId) continue;
      for (const scope of scopesWith(planId).filter((one) => "planId" in one)) {
        const key = historyKey(scope);
        const [config, history] = this.#records.get(n, [configKey(scope), historyOf(scope)]).records;
        versions.set(JSON.stringify(key), saidOver(versionsIn(history), config?.body as StoredConfig | undefined));
      }
    }
    const past = stints === undefined ? undefined : { stints, scopesWith, historyOf: overTime };
    return resolveChanges(configs, scopes.map(overTime), scopes, entity, past);
  }
}
