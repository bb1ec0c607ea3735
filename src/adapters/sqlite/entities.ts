import type { AuditEvent } from "../../domain/audit.ts";
import {
  type Entity,
  type EntityChange,
  type Hierarchy,
  type PlansKnown,
  parentProblem,
  planProblem,
  updateOf,
} from "../../domain/entity.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import type { CreateReply, DeleteReply, EntityStore, UpdateReply } from "../../ports/entity-store.ts";
import { keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { readableJson } from "../../stored/row-damage.ts";
import type { Changes } from "./changes.ts";
import { Histories } from "./config-histories.ts";
import type { Connection, Row, Statement } from "./connection.ts";

export const ENTITY_COLUMNS = "id, name, parent_id, cascade, metadata, version, created_at_ms, updated_at_ms, plan_id";

export class SqliteEntities implements EntityStore {
  readonly #connection: Connection;
  readonly #changes: Changes;
  readonly #namespaceId: string;
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #children: Statement;
  readonly #childIds: Statement;
  readonly #plan: Statement;
  readonly #histories: Histories;
  readonly #list: Statement;
  readonly #deletes: readonly Statement[];

  constructor(parts: { readonly connection: Connection; readonly changes: Changes }, namespaceId: string) {
    const { connection } = parts;
    this.#connection = connection;
    this.#changes = parts.changes;
    this.#namespaceId = namespaceId;
    this.#get = connection.prepare(`SELECT ${ENTITY_COLUMNS} FROM entity WHERE namespace = ? AND id = ?`);
    this.#put = connection.prepare(
      `INSERT OR REPLACE INTO entity (namespace, ${ENTITY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#children = connection.prepare(
      `SELECT ${ENTITY_COLUMNS} FROM entity WHERE namespace = ? AND parent_id = ? AND id > ? ORDER BY id LIMIT ?`,
    );
    this.#childIds = connection.prepare("SELECT id FROM entity WHERE namespace = ? AND parent_id = ? ORDER BY id");
    this.#plan = connection.prepare("SELECT 1 FROM plan WHERE namespace = ? AND id = ?");
    this.#histories = new Histories(connection, namespaceId);
    this.#list = connection.prepare(
      `SELECT ${ENTITY_COLUMNS} FROM entity WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?`,
    );
    this.#deletes = [
      "DELETE FROM entity WHERE namespace = ? AND id = ?",
      "DELETE FROM config WHERE namespace = ? AND entity = ?",
      "DELETE FROM limit_history WHERE namespace = ? AND of IN ('entity', 'stints') AND owner = ?",
      "DELETE FROM bucket WHERE namespace = ? AND entity = ?",
      "DELETE FROM operation WHERE namespace = ? AND entity = ?",
      "DELETE FROM usage INDEXED BY usage_entity WHERE namespace = ? AND entity = ?",
      "DELETE FROM refusal INDEXED BY refusal_entity WHERE namespace = ? AND entity = ?",
    ].map((sql) => connection.prepare(sql));
  }

  create(entity: Entity, event: AuditEvent): Promise<CreateReply> {
    return this.#changes.makeIn(this.#namespaceId, (record): CreateReply => {
      if (this.#find(entity.id) !== undefined) return { kind: "exists" };
      const problem =
        (entity.parentId === undefined ? undefined : parentProblem(entity.id, entity.parentId, this.#hierarchy)) ??
        planProblem(entity.planId, this.#hierarchy);
      if (problem !== undefined) return problem;
      this.#store(entity);
      this.#histories.notePlan(undefined, entity, event.atMs);
      record(event);
      return { kind: "created" };
    });
  }

  get(id: string): Entity | undefined {
    return this.#connection.read(() => this.#find(id));
  }

  update(id: string, change: EntityChange, event: AuditEvent): Promise<UpdateReply> {
    return this.#changes.makeIn(this.#namespaceId, (record): UpdateReply => {
      const before = this.#find(id);
      const update = updateOf(before, change, this.#hierarchy);
      if (update.kind !== "updated") return update;
      this.#store(update.entity);
      this.#histories.notePlan(before, update.entity, event.atMs);
      record(event);
      return update;
    });
  }

  delete(id: string, event: AuditEvent): Promise<DeleteReply> {
    return this.#changes.makeIn(this.#namespaceId, (record): DeleteReply => {
      if (this.#find(id) === undefined) return { kind: "missing" };
      const [childId] = this.#hierarchy.childrenOf(id);
      if (childId !== undefined) return { kind: "children", childId };
      for (const statement of this.#deletes) statement.run(this.#namespaceId, id);
      record(event);
      return { kind: "deleted" };
    });
  }

  children(id: string, { limit, cursor }: PageRequest): Page<Entity> {
    return this.#page(limit, () => this.#children.all(this.#namespaceId, id, textAfter(cursor), limit + 1));
  }

  list({ limit, cursor }: PageRequest): Page<Entity> {
    return this.#page(limit, () => this.#list.all(this.#namespaceId, textAfter(cursor), limit + 1));
  }

  readonly #hierarchy: Hierarchy & PlansKnown = {
    hasPlan: (id) => this.#plan.get(this.#namespaceId, id) !== undefined,
    parentOf: (id) => this.#find(id),
    childrenOf: (id) => this.#childIds.all(this.#namespaceId, id).map(([childId]) => childId as string),
  };

  #find(id: string): Entity | undefined {
    const row = this.#get.get(this.#namespaceId, id);
    return row === undefined ? undefined : entityOf(row);
  }

  #store(entity: Entity): void {
    const { id, name, parentId, cascade, metadata, version, createdAtMs, updatedAtMs, planId } = entity;
    const text = JSON.stringify(metadata);
    const owned = [parentId ?? null, cascade ? 1 : 0, text] as const;
    this.#put.run(this.#namespaceId, id, name, ...owned, version, createdAtMs, updatedAtMs, planId ?? null);
  }

  #page(limit: number, query: () => readonly Row[]): Page<Entity> {
    return pageOf(this.#connection.read(query).map(entityOf), limit, ({ id }) => keyCursor(id));
  }
}

export function entityOf(row: Row): Entity {
  const [id, name, parentId, cascade, metadata, version, createdAtMs, updatedAtMs, planId] = row;
  return {
    id: id as string,
    name: name as string,
    ...(parentId === null ? {} : { parentId: parentId as string }),
    ...(planId === null ? {} : { planId: planId as string }),
    cascade: cascade === 1,
    metadata: readableJson<Entity["metadata"]>(metadata, { table: "entity", column: "metadata", of: id as string }),
    version: version as number,
    createdAtMs: createdAtMs as number,
    updatedAtMs: updatedAtMs as number,
  };
}
