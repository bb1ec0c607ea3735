import type { AuditEvent } from "../../domain/audit.ts";
import {
  type ConfigScope,
  type ConfiguredEntity,
  type LevelConfig,
  type LimitsChange,
  type PolicyChange,
  type StoredConfig,
  scopesOf,
} from "../../domain/config.ts";
import { type ConfigChange, limitsChangedIf, limitsDeleted, policyChanged } from "../../domain/config-change.ts";
import { type LimitsVersion, resolveChanges, saidOver } from "../../domain/config-versions.ts";
import { namespaceNotActive } from "../../domain/namespace.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { formerPlans, type PlanStint, stintsFrom } from "../../domain/plan-stints.ts";
import { refuseUsageKeptDays } from "../../domain/retention.ts";
import type { ConfigStore, SetReply } from "../../ports/config-store.ts";
import { historyKey, scopeOfRow } from "../../stored/config-keys.ts";
import { keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { knownVersions } from "../../stored/known-versions.ts";
import type { Changes } from "./changes.ts";
import { Histories } from "./config-histories.ts";
import {
  CONFIG_COLUMNS,
  ConfigRows,
  configOf,
  configuredEntity,
  HAS_LIMITS,
  PLAN_CONFIG_COLUMNS,
} from "./config-rows.ts";
import type { Connection, Row, Statement } from "./connection.ts";
import type { Watch } from "./watch.ts";

const PLACE = "CASE resource WHEN '' THEN 'any' WHEN '*' THEN 'total' ELSE 'one' END";

// The namespace first, the only row that must be there; then the entity; then configuration in any order.
const RESOLVE = `
  SELECT 'namespace' AS place, NULL AS a, NULL AS b, NULL AS c, NULL AS d, NULL AS e, NULL AS f
    FROM namespace WHERE id = ? AND status = 'active'
  UNION ALL SELECT 'who', parent_id, cascade, plan_id, NULL, NULL, NULL FROM entity WHERE namespace = ? AND id = ?
  UNION ALL SELECT 'entity ' || ${PLACE}, ${CONFIG_COLUMNS} FROM config
    WHERE namespace = ? AND entity = ? AND resource IN (?, '', '*')
  UNION ALL SELECT 'system ' || ${PLACE}, ${CONFIG_COLUMNS} FROM config
    WHERE namespace = ? AND entity = '' AND resource IN (?, '', '*')
  UNION ALL SELECT 'plan ' || ${PLACE}, ${PLAN_CONFIG_COLUMNS} FROM plan_config
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
export class SqliteConfig implements ConfigStore {
  readonly #connection: Connection;
  readonly #watch: Watch;
  readonly #changes: Changes;
  readonly #namespaceId: string;
  readonly #resolve: Statement;
  readonly #rows: ConfigRows;
  readonly #histories: Histories;
  readonly #listForEntity: { readonly first: Statement; readonly next: Statement };
  readonly #listEntities: Statement;
  readonly #listResources: Statement;
  readonly #listEntityResources: Statement;

  constructor(
    parts: { readonly connection: Connection; readonly watch: Watch; readonly changes: Changes },
    namespaceId: string,
  ) {
    const { connection } = parts;
    this.#connection = connection;
    this.#watch = parts.watch;
    this.#changes = parts.changes;
    this.#namespaceId = namespaceId;
    this.#resolve = connection.prepare(RESOLVE);
    this.#rows = new ConfigRows(connection, namespaceId);
    this.#histories = new Histories(connection, namespaceId);
    const listForEntity = (after: string) =>
      connection.prepare(
        `SELECT ${CONFIG_COLUMNS}, resource FROM config
         WHERE namespace = ? AND entity = ? AND resource ${after} ? AND resource <> '*' AND ${HAS_LIMITS} ORDER BY resource LIMIT ?`,
      );
    this.#listForEntity = { first: listForEntity(">="), next: listForEntity(">") };
    this.#listEntities = connection.prepare(
      `SELECT entity FROM config
       WHERE namespace = ? AND resource = ? AND entity > ? AND ${HAS_LIMITS} ORDER BY entity LIMIT ?`,
    );
    this.#listEntityResources = connection.prepare(
      `SELECT DISTINCT resource FROM config
       WHERE namespace = ? AND entity > '' AND resource > ? AND resource <> '*' AND ${HAS_LIMITS} ORDER BY resource LIMIT ?`,
    );
    this.#listResources = connection.prepare(
      `SELECT resource FROM config
       WHERE namespace = ? AND entity = '' AND resource > ? AND resource <> '*' AND ${HAS_LIMITS} ORDER BY resource LIMIT ?`,
    );
  }

  generation(): number {
    return this.#watch.lookedUp();
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
    const historyOf = (scope: ConfigScope) => versions.get(JSON.stringify(historyKey(scope)));
    const scopesWith = (planId: string | undefined) => scopesOf(entityId, resource, planId);
    for (const planId of formerPlans(stints)) {
      if (planId === entity?.planId) continue;
      for (const scope of scopesWith(planId).filter((one) => "planId" in one)) {
        const key = historyKey(scope);
        versions.set(
          JSON.stringify(key),
          this.#connection.read(() => saidOver(this.#histories.of(key), this.#rows.get(scope))),
        );
      }
    }
    const past = stints === undefined ? undefined : { stints, scopesWith, historyOf };
    return resolveChanges(configs, scopes.map(historyOf), scopes, entity, past);
  }

  get(scope: ConfigScope): StoredConfig | undefined {
    return this.#connection.read(() => this.#rows.get(scope));
  }

  async set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): Promise<SetReply> {
    refuseUsageKeptDays(change);
    return this.#changes.makeIn(this.#namespaceId, (record): SetReply => {
      if ("planId" in scope && !this.#rows.hasPlan(scope.planId)) return "planMissing";
      const changed = limitsChangedIf(this.#rows.get(scope), change);
      if (changed.kind === "conflict") return "conflict";
      return this.#make(scope, changed, event, record) ? "written" : "unchanged";
    });
  }

  setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): Promise<boolean> {
    return this.#changes.makeIn(this.#namespaceId, (record) =>
      this.#make(scope, policyChanged(this.#rows.get(scope), change), event, record),
    );
  }

  delete(scope: ConfigScope, event: AuditEvent): Promise<boolean> {
    return this.#changes.makeIn(this.#namespaceId, (record) =>
      this.#make(scope, limitsDeleted(this.#rows.get(scope)), event, record),
    );
  }

  listForEntity(
    entityId: string,
    { limit, cursor }: PageRequest,
  ): Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }> {
    // The default has the empty resource: it comes first, and "after the default" is not "from the beginning".
    const list = cursor === undefined ? this.#listForEntity.first : this.#listForEntity.next;
    const rows = this.#connection.read(() => list.all(this.#namespaceId, entityId, textAfter(cursor), limit + 1));
    const page = pageOf(rows, limit, (columns) => keyCursor(columns[6] as string));
    return {
      ...page,
      items: page.items.map((columns) => ({
        scope: scopeOfRow(entityId, columns[6] as string),
        config: configOf(columns),
      })),
    };
  }

  listEntities(resource: string, { limit, cursor }: PageRequest): Page<string> {
    return this.#texts(() => this.#listEntities.all(this.#namespaceId, resource, textAfter(cursor), limit + 1), limit);
  }

  listEntityResources({ limit, cursor }: PageRequest): Page<string> {
    return this.#texts(() => this.#listEntityResources.all(this.#namespaceId, textAfter(cursor), limit + 1), limit);
  }

  listResources({ limit, cursor }: PageRequest): Page<string> {
    return this.#texts(() => this.#listResources.all(this.#namespaceId, textAfter(cursor), limit + 1), limit);
  }

  // What the scope said was read in the same transaction, so that no other change is lost.
  #make(scope: ConfigScope, change: ConfigChange, event: AuditEvent, record: (event: AuditEvent) => void): boolean {
    if (change.kind === "unchanged") return false;
    this.#histories.note(scope, { before: this.#rows.get(scope), after: change.config }, event.atMs);
    this.#rows.store(scope, change.config);
    record(event);
    return true;
  }

  #texts(query: () => readonly Row[], limit: number): Page<string> {
    const texts = this.#connection.read(query).map(([text]) => text as string);
    return pageOf(texts, limit, (text) => keyCursor(text));
  }
}
