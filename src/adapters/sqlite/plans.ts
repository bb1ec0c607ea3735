import type { AuditEvent } from "../../domain/audit.ts";
import type { Entity } from "../../domain/entity.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { type Plan, type PlanChange, type PlanUpdate, planUpdate } from "../../domain/plan.ts";
import type { CreatePlanReply, DeletePlanReply, PlanStore } from "../../ports/plan-store.ts";
import { scopeOfPlanRow } from "../../stored/config-keys.ts";
import { keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { readableJson } from "../../stored/row-damage.ts";
import type { Changes } from "./changes.ts";
import { Histories } from "./config-histories.ts";
import { configOf, PLAN_CONFIG_COLUMNS } from "./config-rows.ts";
import type { Connection, Row, Statement } from "./connection.ts";
import { ENTITY_COLUMNS, entityOf } from "./entities.ts";

const COLUMNS = "id, name, metadata, version, created_at_ms, updated_at_ms";

/** A change of a plan and a change of the entities that refer to it are transactions on one file: one comes after the other. */
export class SqlitePlans implements PlanStore {
  readonly #connection: Connection;
  readonly #changes: Changes;
  readonly #namespaceId: string;
  #made: Statements | undefined;

  constructor(parts: { readonly connection: Connection; readonly changes: Changes }, namespaceId: string) {
    this.#connection = parts.connection;
    this.#changes = parts.changes;
    this.#namespaceId = namespaceId;
  }

  create(plan: Plan, event: AuditEvent): Promise<CreatePlanReply> {
    return this.#changes.makeIn(this.#namespaceId, (record): CreatePlanReply => {
      if (this.#find(plan.id) !== undefined) return { kind: "exists" };
      this.#store(plan);
      record(event);
      return { kind: "created" };
    });
  }

  get(id: string): Plan | undefined {
    return this.#connection.read(() => this.#find(id));
  }

  update(id: string, change: PlanChange, event: AuditEvent): Promise<PlanUpdate> {
    return this.#changes.makeIn(this.#namespaceId, (record): PlanUpdate => {
      const update = planUpdate(this.#find(id), change);
      if (update.kind !== "updated") return update;
      this.#store(update.plan);
      record(event);
      return update;
    });
  }

  delete(id: string, event: AuditEvent): Promise<DeletePlanReply> {
    return this.#changes.makeIn(this.#namespaceId, (record): DeletePlanReply => {
      if (this.#find(id) === undefined) return { kind: "missing" };
      const [first] = this.#sql.entities.all(this.#namespaceId, id, "", 1);
      if (first !== undefined) return { kind: "inUse", entityId: first[0] as string };
      // Entities that had it may still be brought up to now by what it said.
      for (const [resource, ...columns] of this.#sql.configs.all(this.#namespaceId, id)) {
        const scope = scopeOfPlanRow(id, resource as string);
        this.#sql.histories.note(scope, { before: configOf(columns), after: undefined }, event.atMs);
      }
      for (const statement of this.#sql.deletes) statement.run(this.#namespaceId, id);
      record(event);
      return { kind: "deleted" };
    });
  }

  list({ limit, cursor }: PageRequest): Page<Plan> {
    const rows = this.#connection.read(() => this.#sql.list.all(this.#namespaceId, textAfter(cursor), limit + 1));
    return pageOf(rows.map(planOf), limit, ({ id }) => keyCursor(id));
  }

  listEntities(id: string, { limit, cursor }: PageRequest): Page<Entity> {
    const after = textAfter(cursor);
    const rows = this.#connection.read(() => this.#sql.entities.all(this.#namespaceId, id, after, limit + 1));
    return pageOf(rows.map(entityOf), limit, (entity) => keyCursor(entity.id));
  }

  // Most processes never ask: they need not wait for statements that nobody uses.
  get #sql(): Statements {
    this.#made ??= statementsOn(this.#connection, this.#namespaceId);
    return this.#made;
  }

  #find(id: string): Plan | undefined {
    const row = this.#sql.get.get(this.#namespaceId, id);
    return row === undefined ? undefined : planOf(row);
  }

  #store({ id, name, metadata, version, createdAtMs, updatedAtMs }: Plan): void {
    this.#sql.put.run(this.#namespaceId, id, name, JSON.stringify(metadata), version, createdAtMs, updatedAtMs);
  }
}

type Statements = ReturnType<typeof statementsOn>;

function statementsOn(connection: Connection, namespaceId: string) {
  const deletes: readonly Statement[] = [
    connection.prepare("DELETE FROM plan WHERE namespace = ? AND id = ?"),
    connection.prepare("DELETE FROM plan_config WHERE namespace = ? AND plan = ?"),
  ];
  return {
    get: connection.prepare(`SELECT ${COLUMNS} FROM plan WHERE namespace = ? AND id = ?`),
    put: connection.prepare(`INSERT OR REPLACE INTO plan (namespace, ${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`),
    list: connection.prepare(`SELECT ${COLUMNS} FROM plan WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?`),
    entities: connection.prepare(
      `SELECT ${ENTITY_COLUMNS} FROM entity WHERE namespace = ? AND plan_id = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    configs: connection.prepare(
      `SELECT resource, ${PLAN_CONFIG_COLUMNS} FROM plan_config WHERE namespace = ? AND plan = ?`,
    ),
    deletes,
    histories: new Histories(connection, namespaceId),
  };
}

function planOf([id, name, metadata, version, createdAtMs, updatedAtMs]: Row): Plan {
  return {
    id: id as string,
    name: name as string,
    metadata: readableJson<Plan["metadata"]>(metadata, { table: "plan", column: "metadata", of: id as string }),
    version: version as number,
    createdAtMs: createdAtMs as number,
    updatedAtMs: updatedAtMs as number,
  };
}
