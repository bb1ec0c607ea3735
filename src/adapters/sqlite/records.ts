import type { SQLInputValue } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Entity } from "../../domain/config/entity.ts";
import { DEFAULT_NAMESPACE } from "../../domain/config/namespace.ts";
import { runSync, type Steps } from "../../domain/steps.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type {
  CommitReply,
  FoundRecords,
  ListedRecord,
  ListedRecords,
  RecordCommit,
  RecordDeletion,
  RecordKey,
  RecordKind,
  RecordList,
  RecordStore,
} from "../../ports/record-store.ts";
import { lineAbove, longestBelow } from "../../stored/config-keys.ts";
import type { AuditLog } from "./audit.ts";
import type { Changes } from "./changes.ts";
import type { Connection } from "./connection.ts";
import { type RecordTable, tableOf } from "./record-tables.ts";

/** These rows go with an entity. */
const OF_ENTITY = [
  "DELETE FROM entity WHERE namespace = ? AND id = ?",
  "DELETE FROM config WHERE namespace = ? AND entity = ?",
  "DELETE FROM limit_history WHERE namespace = ? AND of IN ('entity', 'stints') AND owner = ?",
  "DELETE FROM bucket WHERE namespace = ? AND entity = ?",
  "DELETE FROM operation WHERE namespace = ? AND entity = ?",
  "DELETE FROM usage INDEXED BY usage_entity WHERE namespace = ? AND entity = ?",
  "DELETE FROM refusal INDEXED BY refusal_entity WHERE namespace = ? AND entity = ?",
  "DELETE FROM refusal_log INDEXED BY refusal_log_entity WHERE namespace = ? AND entity = ?",
  "DELETE FROM caller_usage INDEXED BY caller_usage_entity WHERE namespace = ? AND entity = ?",
];

/** These tables go with a namespace, by the columns that a row is known by. */
const OF_NAMESPACE = [
  ["bucket", "id"],
  ["operation", "namespace, entity, resource, key"],
  ["usage", "namespace, hour_ms, entity, resource"],
  ["refusal", "namespace, hour_ms, entity, resource, limit_name, level, total, writer"],
  ["refusal_log", "namespace, hour_ms, entity, writer"],
  ["caller_usage", "namespace, hour_ms, entity, resource, writer"],
  ["config", "namespace, entity, resource"],
  ["limit_history", "namespace, of, owner, resource"],
  ["entity", "namespace, id"],
  ["plan_config", "namespace, plan, resource"],
  ["plan", "namespace, id"],
  ["owned", "namespace, piece"],
  ["owner", "namespace, owner"],
  ["lease", "namespace, id"],
  ["lease_key", "namespace, key"],
  ["audit", "id"],
] as const;

/** A scope may have a policy and no limits. */
/** The scope limits something at a reading of the clock; what is damaged is told to who reads it. */
const HAS_LIMITS =
  "(limits <> '[]' OR CASE WHEN json_valid(override) THEN override ->> '$.untilMs' > ? ELSE override IS NOT NULL END)";

/** Rows of a table in the order of some columns of their keys, and what else they must be. */
interface Rows {
  readonly kind: RecordKind;
  readonly key?: readonly string[];
  readonly where?: string;
  readonly values?: readonly SQLInputValue[];
  readonly order: readonly string[];
  readonly isBackwards?: true;
}

/**
 * Records in the tables of the file, each call at once. A change is one transaction, in which it reads, decides and commits: whatever it
 * was decided by still holds, so that its guard is not looked at.
 */
export class SqliteRecords implements RecordStore {
  /** A transaction of a few milliseconds. */
  readonly purgedAtOnce = 500;
  readonly #connection: Connection;
  readonly #changes: Changes;
  readonly #audit: AuditLog;
  /** The transaction under way: its generation, and where its event goes. */
  #inside: { readonly generation: number; readonly record: Parameters<Parameters<Changes["make"]>[0]>[0] } | undefined;

  constructor(parts: { readonly connection: Connection; readonly changes: Changes; readonly audit: AuditLog }) {
    this.#connection = parts.connection;
    this.#changes = parts.changes;
    this.#audit = parts.audit;
  }

  transact<Reply>(change: () => Steps<Reply>): Promise<Reply> {
    return this.#changes.make((record) => {
      const generation = this.#connection.prepare("SELECT value FROM generation").get()?.[0] as number;
      this.#inside = { generation, record };
      try {
        return runSync(change());
      } finally {
        this.#inside = undefined;
      }
    });
  }

  get(scope: string, keys: readonly RecordKey[]): FoundRecords {
    const records = this.#connection.read(() =>
      keys.map(({ kind, key: whole }) => {
        const { of, key } = tableOf(kind, whole);
        const row = this.#connection
          .prepare(`SELECT ${of.columns.join()} FROM ${of.table} ${keyed(of)}`)
          .get(...within(of, scope), ...key);
        return row && { kind, key: whole, body: of.bodyOf(row, key.at(-1) as string), version: 0 };
      }),
    );
    return { generation: this.#generation, records };
  }

  list(scope: string, list: RecordList, after: readonly string[] | undefined, limitMax: number): ListedRecords {
    const records = this.#connection.read(() => this.#listed(scope, list, after, limitMax));
    return { generation: this.#generation, records };
  }

  commit(commit: RecordCommit): MaybePromise<CommitReply> {
    return this.#inside === undefined ? this.#alone(commit) : this.#applied(commit);
  }

  /** Others have their turn between several commits that follow each other. */
  async #alone(commit: RecordCommit): Promise<CommitReply> {
    const reply = await this.#changes.make(() => this.#applied(commit));
    await nextTurn();
    return reply;
  }

  #applied({ scope, puts, deletes, event }: RecordCommit): CommitReply {
    let deleted = 0;
    for (const each of deletes) deleted += this.#delete(scope, each);
    for (const { kind, key: whole, body } of puts) {
      const { of, key } = tableOf(kind, whole);
      const values = [...within(of, scope), ...key, ...of.columnsOf(body)];
      const columns = [...(of.isInNamespace ? ["namespace"] : []), ...of.key, ...of.columns];
      const places = values.map(() => "?").join();
      this.#connection
        .prepare(`INSERT OR REPLACE INTO ${of.table} (${columns.join()}) VALUES (${places})`)
        .run(...values);
    }
    if (event !== undefined) this.#inside?.record(event.event, event.auditIn);
    return { kind: "done", generations: new Map(), deleted, ...(deleted === 0 ? {} : { mayBeMore: true }) };
  }

  #delete(scope: string, what: RecordDeletion): number {
    if (what.kind === "someIn") return this.#deleteSome(what.namespaceId, what.limitMax);
    if (what.kind === "everythingOf") {
      for (const sql of OF_ENTITY) this.#connection.prepare(sql).run(scope, what.entityId);
      return 0;
    }
    const { of, key } = tableOf(what.kind, what.key);
    this.#connection.prepare(`DELETE FROM ${of.table} ${keyed(of)}`).run(...within(of, scope), ...key);
    return 0;
  }

  /** Deletes rows of one table at a time. */
  #deleteSome(namespaceId: string, limitMax: number): number {
    for (const [table, key] of OF_NAMESPACE) {
      const rows = `SELECT ${key} FROM ${table} WHERE namespace = ? LIMIT ?`;
      const statement = this.#connection.prepare(`DELETE FROM ${table} WHERE (${key}) IN (${rows})`);
      const deleted = Number(statement.run(namespaceId, limitMax).changes);
      if (deleted > 0) return deleted;
    }
    return 0;
  }

  #listed(scope: string, list: RecordList, after: readonly string[] | undefined, max: number): readonly ListedRecord[] {
    switch (list.kind) {
      case "audit":
        return list.of === "oldest"
          ? this.#audit.listOldest(scope, after, max)
          : this.#audit.list(scope, list.entityId, after, max);
      case "namespace":
        return this.#rows(scope, namespacesOf(list), after, max);
      case "plan":
        return this.#rows(scope, { kind: "plan", order: ["id"] }, after, max);
      case "history":
        return this.#rows(scope, { kind: "history", order: ["of", "owner", "resource"] }, after, max);
      case "owner":
        return this.#rows(scope, { kind: "owner", order: ["owner"] }, after, max);
      case "owned":
        return this.#rows(scope, { kind: "owned", order: ["piece"] }, after, max);
      case "refusalLog":
        return this.#rows(scope, logRows(list), after, max);
      case "entity":
        return this.#entities(scope, list, after, max);
      case "config":
        return this.#configs(scope, list, after, max);
      case "lease":
        throw new TypeError("Leases are listed with their own statements.");
    }
  }

  #entities(
    scope: string,
    list: Extract<RecordList, { readonly kind: "entity" }>,
    after: readonly string[] | undefined,
    max: number,
  ): readonly ListedRecord[] {
    const below = (where: string, id: string, limitMax: number) =>
      this.#rows(scope, { kind: "entity", where, values: [id], order: ["id"] }, after, limitMax);
    if (list.of === "parent") return below("parent_id = ?", list.parentId, max);
    if (list.of === "plan") return below("plan_id = ?", list.planId, max);
    if (list.of === "all") return this.#rows(scope, { kind: "entity", order: ["id"] }, after, max);
    if (list.of === "below") {
      return longestBelow(
        list.id,
        (id) => below("parent_id = ?", id, Number.MAX_SAFE_INTEGER),
        ({ key }) => key[0] as string,
      );
    }
    const find = (id: string) => {
      const [record] = this.get(scope, [{ kind: "entity", key: [id] }]).records;
      return record && { key: record.key, body: record.body, place: record.key };
    };
    return lineAbove(list.id, find, ({ body }) => (body as Entity).parentId);
  }

  #configs(
    scope: string,
    list: Extract<RecordList, { readonly kind: "config" }>,
    after: readonly string[] | undefined,
    max: number,
  ): readonly ListedRecord[] {
    const of = "entity";
    switch (list.of) {
      case "owner": {
        const [kind, owner] = list.owner;
        const rows = {
          kind: "config",
          key: [kind],
          where: `${kind} = ?`,
          values: [owner],
          order: ["resource"],
        } as const;
        return this.#rows(scope, rows, after, max);
      }
      case "entity": {
        const where = `entity = ? AND resource <> '*' AND ${HAS_LIMITS}`;
        const values = [list.entityId, list.nowMs];
        return this.#rows(scope, { kind: "config", key: [of], where, values, order: ["resource"] }, after, max);
      }
      case "resource": {
        const where = `resource = ? AND entity > '' AND ${HAS_LIMITS}`;
        const values = [list.resource, list.nowMs];
        return this.#rows(scope, { kind: "config", key: [of], where, values, order: ["entity"] }, after, max);
      }
      case "defaults": {
        const where = `entity = '' AND resource NOT IN ('', '*') AND ${HAS_LIMITS}`;
        const values = [list.nowMs];
        return this.#rows(scope, { kind: "config", key: [of], where, values, order: ["resource"] }, after, max);
      }
      case "entityResources": {
        const statement = this.#connection.prepare(
          `SELECT DISTINCT resource FROM config
           WHERE namespace = ? AND entity > '' AND resource > ? AND resource <> '*' AND ${HAS_LIMITS} ORDER BY resource LIMIT ?`,
        );
        const found = statement.all(scope, after?.[0] ?? "", list.nowMs, max).map(([resource]) => resource as string);
        return found.map((resource) => ({ key: [of, "", resource], body: undefined, place: [resource] }));
      }
      case "all": {
        const from = (kind: "entity" | "plan", left: number): readonly ListedRecord[] => {
          if (after !== undefined && after[0] === "plan" && kind === "entity") return [];
          const at = after?.[0] === kind ? after.slice(1) : undefined;
          const rows = this.#rows(scope, { kind: "config", key: [kind], order: [kind, "resource"] }, at, left);
          return rows.map((row) => ({ ...row, place: row.key }));
        };
        const entities = from("entity", max);
        return [...entities, ...from("plan", max - entities.length)];
      }
    }
  }

  #rows(
    scope: string,
    { kind, key = [], where = "", values = [], order, isBackwards }: Rows,
    after: readonly string[] | undefined,
    max: number,
  ): readonly ListedRecord[] {
    const { of } = tableOf(kind, key);
    const conditions = [
      ...(of.isInNamespace ? ["namespace = ?"] : []),
      ...(where === "" ? [] : [where]),
      ...(after === undefined ? [] : [`(${order.join()}) ${isBackwards ? "<" : ">"} (${order.map(() => "?").join()})`]),
    ];
    const columns = [...of.key, ...of.columns, ...order.map((column, i) => `${column} AS place_${i}`)];
    const directed = order.map((column) => (isBackwards ? `${column} DESC` : column));
    const statement = this.#connection.prepare(
      `SELECT ${columns.join()} FROM ${of.table} WHERE ${conditions.join(" AND ")} ORDER BY ${directed.join()} LIMIT ?`,
    );
    const rows = statement.all(...within(of, scope), ...values, ...(after ?? []), max);
    const [keys, all] = [of.key.length, of.key.length + of.columns.length];
    return rows.map((row) => {
      const own = row.slice(0, keys).map(String);
      const body = of.bodyOf(row.slice(keys, all), own.at(-1) as string);
      return { key: [...key, ...own], body, place: row.slice(all).map(String) };
    });
  }

  /** Outside of a transaction nobody goes by it: what is read is one row, or a list. */
  get #generation(): number {
    return this.#inside?.generation ?? 0;
  }
}

function namespacesOf(list: Extract<RecordList, { readonly kind: "namespace" }>): Rows {
  switch (list.of) {
    case "active":
      return { kind: "namespace", where: "status = 'active'", order: ["name"] };
    case "name":
      return { kind: "namespace", where: "status = 'active' AND name = ?", values: [list.name], order: ["name"] };
    case "orphans":
      return { kind: "namespace", where: "status <> 'active'", order: ["id"] };
    case "due": {
      // The index of due leases begins with the namespace: a look into it for each.
      const where = `status = 'active' AND EXISTS (SELECT 1 FROM lease WHERE lease.namespace = namespace.id AND due_at_ms <= ?)`;
      return { kind: "namespace", where, values: [list.untilMs], order: ["name"] };
    }
  }
}

function logRows({ fromMs, toMs, entityId }: Extract<RecordList, { readonly kind: "refusalLog" }>): Rows {
  const ofEntity = entityId === undefined ? "" : " AND entity = ?";
  return {
    ...{ kind: "refusalLog", order: ["hour_ms", "entity", "writer"], isBackwards: true },
    where: `hour_ms >= ? AND hour_ms < ?${ofEntity}`,
    values: [fromMs, toMs, ...(entityId === undefined ? [] : [entityId])],
  };
}

function keyed({ isInNamespace, key }: RecordTable): string {
  return `WHERE ${[...(isInNamespace ? ["namespace"] : []), ...key].map((column) => `${column} = ?`).join(" AND ")}`;
}

function within({ isInNamespace }: RecordTable, scope: string): readonly string[] {
  return isInNamespace ? [scope] : [];
}

/** Makes the namespace `default` where there is none. Its id is fixed, so that two processes may do it at once. */
export function ensureDefault(connection: Connection): void {
  const known = connection.prepare("SELECT 1 FROM namespace WHERE name = ? AND status = 'active'");
  const make = connection.prepare(
    "INSERT OR IGNORE INTO namespace (id, name, status, created_at_ms) VALUES (?, ?, 'active', 0)",
  );
  if (known.get(DEFAULT_NAMESPACE) === undefined) make.run(DEFAULT_NAMESPACE, DEFAULT_NAMESPACE);
}
