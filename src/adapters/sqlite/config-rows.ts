import type { Access, ConfigScope, ConfiguredEntity, OnUnavailable, StoredConfig } from "../../domain/config.ts";
import { keyOf } from "../../stored/config-keys.ts";
import { knownLimits } from "../../stored/known-limits.ts";
import type { Connection, Row, Statement } from "./connection.ts";

export const CONFIG_COLUMNS = "limits, on_unavailable, access, cascade, inherit, applies_to";

/** A plan has neither access nor cascade of its own; the same columns, so that its rows are read in the same way. */
export const PLAN_CONFIG_COLUMNS =
  "limits, NULL AS on_unavailable, NULL AS access, NULL AS cascade, inherit, applies_to";

/** A scope may have a policy and no limits. */
export const HAS_LIMITS = "limits <> '[]'";

/** The rows of configuration: of entities and defaults in one table, of plans in another. */
export class ConfigRows {
  readonly #namespaceId: string;
  readonly #config: TableStatements;
  readonly #plan: TableStatements;
  readonly #hasPlan: Statement;

  constructor(connection: Connection, namespaceId: string) {
    this.#namespaceId = namespaceId;
    const keyed = "WHERE namespace = ? AND entity = ? AND resource = ?";
    this.#config = {
      get: connection.prepare(`SELECT ${CONFIG_COLUMNS} FROM config ${keyed}`),
      put: connection.prepare(
        `INSERT OR REPLACE INTO config (namespace, entity, resource, limits, inherit, applies_to, on_unavailable, access, cascade)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      delete: connection.prepare(`DELETE FROM config ${keyed}`),
    };
    const ofPlan = "WHERE namespace = ? AND plan = ? AND resource = ?";
    this.#plan = {
      get: connection.prepare(`SELECT ${PLAN_CONFIG_COLUMNS} FROM plan_config ${ofPlan}`),
      put: connection.prepare(
        `INSERT OR REPLACE INTO plan_config (namespace, plan, resource, limits, inherit, applies_to)
         VALUES (?, ?, ?, ?, ?, ?)`,
      ),
      delete: connection.prepare(`DELETE FROM plan_config ${ofPlan}`),
    };
    this.#hasPlan = connection.prepare("SELECT 1 FROM plan WHERE namespace = ? AND id = ?");
  }

  hasPlan(planId: string): boolean {
    return this.#hasPlan.get(this.#namespaceId, planId) !== undefined;
  }

  get(scope: ConfigScope): StoredConfig | undefined {
    const row = this.#table(scope).get.get(this.#namespaceId, ...keyOf(scope));
    return row === undefined ? undefined : configOf(row);
  }

  store(scope: ConfigScope, config: StoredConfig | undefined): void {
    const table = this.#table(scope);
    const key = [this.#namespaceId, ...keyOf(scope)] as const;
    if (config === undefined) {
      table.delete.run(...key);
      return;
    }
    const { limits, inherit, appliesTo, onUnavailable, access, cascade } = config;
    const said = [JSON.stringify(limits), inherit === true ? 1 : null, appliesTo ?? null] as const;
    if ("planId" in scope) table.put.run(...key, ...said);
    else {
      const flag = cascade === undefined ? null : cascade ? 1 : 0;
      table.put.run(...key, ...said, onUnavailable ?? null, access ?? null, flag);
    }
  }

  #table(scope: ConfigScope): TableStatements {
    return "planId" in scope ? this.#plan : this.#config;
  }
}

interface TableStatements {
  readonly get: Statement;
  readonly put: Statement;
  readonly delete: Statement;
}

export function configOf([limits, onUnavailable, access, cascade, inherit, appliesTo]: Row): StoredConfig {
  return {
    limits: knownLimits(limits),
    ...(inherit === 1 ? { inherit: true as const } : {}),
    ...(appliesTo === "callers" ? { appliesTo } : {}),
    ...(onUnavailable === null ? {} : { onUnavailable: onUnavailable as OnUnavailable }),
    ...(access === null ? {} : { access: access as Access }),
    ...(cascade === null ? {} : { cascade: cascade === 1 }),
  };
}

/** What configuration needs of an entity. */
export function configuredEntity([parentId, cascade, planId]: Row): ConfiguredEntity {
  return {
    ...(parentId === null ? {} : { parentId: parentId as string }),
    ...(planId === null ? {} : { planId: planId as string }),
    cascade: cascade === 1,
  };
}
