import type { AuditEvent } from "../../domain/audit.ts";
import {
  type Access,
  type ConfigScope,
  type LevelConfig,
  type LimitsChange,
  type OnUnavailable,
  type PolicyChange,
  type StoredConfig,
  scopesOf,
  withLimits,
  withoutLimits,
  withPolicy,
} from "../../domain/config.ts";
import { type LimitsVersion, resolveChanges } from "../../domain/config-versions.ts";
import type { Limit } from "../../domain/limit.ts";
import { namespaceNotActive } from "../../domain/namespace.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { refuseUsageKeptDays } from "../../domain/retention.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import type { Changes } from "./changes.ts";
import { ConfigHistories, knownVersions } from "./config-histories.ts";
import type { Connection, Row, Statement } from "./connection.ts";
import { keyCursor, pageOf, textAfter } from "./cursor.ts";
import { isLimit, readableJson, rowUnreadable } from "./row-damage.ts";
import type { Watch } from "./watch.ts";

// The namespace first, the only row that must be there; then the four levels in the order of `scopesOf`; then the entity.
const RESOLVE = `
  SELECT -1 AS place, NULL AS a, NULL AS b, NULL AS c, NULL AS d FROM namespace WHERE id = ? AND status = 'active'
  UNION ALL SELECT 0, limits, on_unavailable, access, cascade FROM config WHERE namespace = ? AND entity = ? AND resource = ?
  UNION ALL SELECT 1, limits, on_unavailable, access, cascade FROM config WHERE namespace = ? AND entity = ? AND resource = ''
  UNION ALL SELECT 2, limits, on_unavailable, access, cascade FROM config WHERE namespace = ? AND entity = '' AND resource = ?
  UNION ALL SELECT 3, limits, on_unavailable, access, cascade FROM config WHERE namespace = ? AND entity = '' AND resource = ''
  UNION ALL SELECT 4, parent_id, cascade, NULL, NULL FROM entity WHERE namespace = ? AND id = ?
  UNION ALL SELECT 5, versions, owner, resource, NULL FROM limit_history
    WHERE namespace = ? AND of = 'entity' AND owner IN (?, '') AND resource IN (?, '')`;

const ENTITY_PLACE = 4;
const HISTORY_PLACE = 5;

const COLUMNS = "limits, on_unavailable, access, cascade";

/** A scope may have a policy and no limits. */
const HAS_LIMITS = "limits <> '[]'";

/** Limits at the four levels: an empty entity or resource stands for "any". */
export class SqliteConfig implements ConfigStore {
  readonly #connection: Connection;
  readonly #watch: Watch;
  readonly #changes: Changes;
  readonly #namespaceId: string;
  readonly #resolve: Statement;
  readonly #histories: ConfigHistories;
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #delete: Statement;
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
    this.#histories = new ConfigHistories(connection, namespaceId);
    this.#get = connection.prepare(`SELECT ${COLUMNS} FROM config WHERE namespace = ? AND entity = ? AND resource = ?`);
    this.#put = connection.prepare(
      `INSERT OR REPLACE INTO config (namespace, entity, resource, ${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#delete = connection.prepare("DELETE FROM config WHERE namespace = ? AND entity = ? AND resource = ?");
    const listForEntity = (after: string) =>
      connection.prepare(
        `SELECT ${COLUMNS}, resource FROM config
         WHERE namespace = ? AND entity = ? AND resource ${after} ? AND ${HAS_LIMITS} ORDER BY resource LIMIT ?`,
      );
    this.#listForEntity = { first: listForEntity(">="), next: listForEntity(">") };
    this.#listEntities = connection.prepare(
      `SELECT entity FROM config
       WHERE namespace = ? AND resource = ? AND entity > ? AND ${HAS_LIMITS} ORDER BY entity LIMIT ?`,
    );
    this.#listEntityResources = connection.prepare(
      `SELECT DISTINCT resource FROM config
       WHERE namespace = ? AND entity > '' AND resource > ? AND ${HAS_LIMITS} ORDER BY resource LIMIT ?`,
    );
    this.#listResources = connection.prepare(
      `SELECT resource FROM config
       WHERE namespace = ? AND entity = '' AND resource > ? AND ${HAS_LIMITS} ORDER BY resource LIMIT ?`,
    );
  }

  generation(): number {
    return this.#watch.lookedUp();
  }

  resolve(entityId: string, resource: string): LevelConfig {
    return this.resolveSync(entityId, resource);
  }

  resolveSync(entityId: string, resource: string): LevelConfig {
    const [n, e, r] = [this.#namespaceId, entityId, resource];
    const rows = this.#connection.read(() => this.#resolve.all(n, n, e, r, n, e, n, r, n, n, e, n, e, r));
    if (rows[0]?.[0] !== -1) throw namespaceNotActive(this.#namespaceId);
    const scopes = scopesOf(entityId, resource);
    const found: (StoredConfig | undefined)[] = scopes.map(() => undefined);
    const histories: (readonly LimitsVersion[] | undefined)[] = scopes.map(() => undefined);
    let entity: EntityRow | undefined;
    for (const [place, ...columns] of rows.slice(1)) {
      if (place === ENTITY_PLACE) entity = entityRowOf(columns);
      else if (place === HISTORY_PLACE) {
        const [versions, owner, on] = columns;
        const of = scopes.findIndex((scope) => keyOf(scope)[0] === owner && keyOf(scope)[1] === on);
        histories[of] = knownVersions(versions as string);
      } else found[place as number] = configOf(columns);
    }
    return resolveChanges(found, histories, scopes, entity);
  }

  get(scope: ConfigScope): StoredConfig | undefined {
    return this.#connection.read(() => this.#stored(scope));
  }

  async set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): Promise<void> {
    refuseUsageKeptDays(change);
    return this.#change(scope, event, (before) => withLimits(before, change));
  }

  setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): Promise<void> {
    return this.#change(scope, event, (before) => withPolicy(before, change));
  }

  delete(scope: ConfigScope, event: AuditEvent): Promise<boolean> {
    return this.#changes.makeIn(this.#namespaceId, (record) => {
      const before = this.#stored(scope);
      if (before === undefined || (before.limits.length === 0 && before.onUnavailable === undefined)) return false;
      this.#store(scope, { before, after: withoutLimits(before) }, event.atMs);
      record(event);
      return true;
    });
  }

  listForEntity(
    entityId: string,
    { limit, cursor }: PageRequest,
  ): Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }> {
    // The default has the empty resource: it comes first, and "after the default" is not "from the beginning".
    const list = cursor === undefined ? this.#listForEntity.first : this.#listForEntity.next;
    const rows = this.#connection.read(() => list.all(this.#namespaceId, entityId, textAfter(cursor), limit + 1));
    const page = pageOf(rows, limit, (columns) => keyCursor(columns[4] as string));
    return {
      ...page,
      items: page.items.map((columns) => ({
        scope: scopeOf(entityId, columns[4] as string),
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

  #stored(scope: ConfigScope): StoredConfig | undefined {
    const row = this.#get.get(this.#namespaceId, ...keyOf(scope));
    return row === undefined ? undefined : configOf(row);
  }

  #store(
    scope: ConfigScope,
    change: { readonly before: StoredConfig | undefined; readonly after: StoredConfig | undefined },
    atMs: number,
  ): void {
    const key = [this.#namespaceId, ...keyOf(scope)] as const;
    const { after: config } = change;
    this.#histories.note(["entity", ...keyOf(scope)], change, atMs);
    if (config === undefined) {
      this.#delete.run(...key);
      return;
    }
    const { limits, onUnavailable, access, cascade } = config;
    const flag = cascade === undefined ? null : cascade ? 1 : 0;
    this.#put.run(...key, JSON.stringify(limits), onUnavailable ?? null, access ?? null, flag);
  }

  // The rest of the scope is read and written in the same transaction, so that no other change is lost.
  #change(
    scope: ConfigScope,
    event: AuditEvent,
    change: (before: StoredConfig | undefined) => StoredConfig | undefined,
  ): Promise<void> {
    return this.#changes.makeIn(this.#namespaceId, (record) => {
      const before = this.#stored(scope);
      this.#store(scope, { before, after: change(before) }, event.atMs);
      record(event);
    });
  }

  #texts(query: () => readonly Row[], limit: number): Page<string> {
    const texts = this.#connection.read(query).map(([text]) => text as string);
    return pageOf(texts, limit, (text) => keyCursor(text));
  }
}

function keyOf(scope: ConfigScope): [entity: string, resource: string] {
  switch (scope.level) {
    case "entity":
      return [scope.entityId, scope.resource];
    case "entityDefault":
      return [scope.entityId, ""];
    case "resource":
      return ["", scope.resource];
    case "system":
      return ["", ""];
  }
}

function scopeOf(entityId: string, resource: string): ConfigScope {
  return resource === "" ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
}

function limitsOf(text: unknown): readonly Limit[] {
  const found = readableJson(text, LIMITS);
  // Whether they are limits in all respects was checked when they were set.
  if (Array.isArray(found) && found.every((one) => isLimit(one, ANY_CRON))) return found;
  throw rowUnreadable(text, LIMITS);
}

const LIMITS = { table: "config", column: "limits", of: "" };
const ANY_CRON = { problemOf: () => undefined };

export function configOf([limits, onUnavailable, access, cascade]: Row): StoredConfig {
  return {
    limits: limitsOf(limits),
    ...(onUnavailable === null ? {} : { onUnavailable: onUnavailable as OnUnavailable }),
    ...(access === null ? {} : { access: access as Access }),
    ...(cascade === null ? {} : { cascade: cascade === 1 }),
  };
}

interface EntityRow {
  readonly parentId?: string;
  readonly cascade: boolean;
}

function entityRowOf([parentId, cascade]: Row): EntityRow {
  return { ...(parentId === null ? {} : { parentId: parentId as string }), cascade: cascade === 1 };
}
