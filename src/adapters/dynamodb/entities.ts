import { createHash } from "node:crypto";
import type { AuditEvent } from "../../domain/config/audit.ts";
import { type Entity, type EntityChange, patched } from "../../domain/config/entity.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { CreateReply, DeleteReply, EntityStore, UpdateReply } from "../../ports/entity-store.ts";
import type { Random } from "../../ports/system.ts";
import type { DynamoAudit } from "./audit.ts";
import type { Attributes } from "./codec.ts";
import type { ConfigPropagation } from "./config-propagation.ts";
import type { RecentChange } from "./config-reader.ts";
import { DynamoHierarchy } from "./entities-hierarchy.ts";
import {
  CHILD_KEYS,
  CHILD_SEQ,
  changeable,
  childLinkItem,
  childLinkKey,
  DELETING,
  entityItem,
  entityOf,
  isUnchanged,
  parentIn,
  planHistory,
} from "./entities-record.ts";
import type { EntityRemoval } from "./entities-removal.ts";
import { activeCheck, type NamespaceWatch } from "./namespaces-record.ts";
import { cursorOf, inChunks, pageOf, placeAfter, where } from "./paging.ts";
import { hasPlan, planMoved } from "./plans-record.ts";
import { failAfterMaxConflicts, type Records } from "./records.ts";
import {
  all,
  deleteRecord,
  isStill,
  keyIn,
  missing,
  putRecord,
  type RecordWrite,
  texts,
  updateRecord,
} from "./records-write.ts";
import {
  CHILDREN_INDEX,
  childKeys,
  deletingKeys,
  entityKey,
  entityPk,
  GSI1PK,
  GSI1SK,
  GSI4PK,
  GSI4SK,
  META_SK,
  NAMESPACE_INDEX,
  namespaceIdKey,
  PARENT_GENERATION,
  PLAN_ID,
} from "./schema.ts";
import { notShared } from "./shared-table.ts";
import type { VersionGate } from "./version-gate.ts";

interface EntityParts {
  readonly records: Records;
  readonly watch: NamespaceWatch;
  readonly audit: DynamoAudit;
  readonly removal: EntityRemoval;
  readonly recent: RecentChange;
  readonly propagation: ConfigPropagation;
  readonly gate: VersionGate;
  readonly ids: Random;
  /** The original writes to this table too; it knows no plans. */
  readonly shared: boolean;
}

/** Entities of one namespace. A change is conditional on what it read, and tried again when another change came first. */
export class DynamoEntities implements EntityStore {
  readonly #namespaceId: string;
  readonly #parts: EntityParts;
  readonly #records: Records;
  readonly #hierarchy: DynamoHierarchy;

  constructor(namespaceId: string, parts: EntityParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
    this.#records = parts.records;
    this.#hierarchy = new DynamoHierarchy(parts.records, namespaceId);
  }

  async create(entity: Entity, event: AuditEvent): Promise<CreateReply> {
    const { id, parentId, planId } = entity;
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `Entity ${id}`);
      if (entityOf(await this.#readToChange(id)) !== undefined) return { kind: "exists" };
      const placement = parentId === undefined ? ROOT : await this.#hierarchy.checkPlacement(parentId, id, true);
      if (placement.kind === "refused") return placement.problem;
      if (planId !== undefined && !(await this.#hasPlan(planId))) return { kind: "planMissing", planId };
      const reply = await this.#records.transact([
        putRecord(
          entityKey(this.#namespaceId, id),
          entityItem(this.#namespaceId, entity, { incarnation: this.#incarnation(), atMs: event.atMs }),
          missing,
        ),
        ...placement.writes,
        ...this.#linked(id, parentId),
        ...planMoved(this.#namespaceId, id, { from: undefined, to: planId }),
        activeCheck(this.#namespaceId),
        await this.#parts.audit.entry(event),
      ]);
      if (reply.kind === "failed") continue;
      this.#parts.recent.note();
      return { kind: "created" };
    }
  }

  async get(id: string): Promise<Entity | undefined> {
    return entityOf(await this.#records.get(entityKey(this.#namespaceId, id)));
  }

  async update(id: string, change: EntityChange, event: AuditEvent): Promise<UpdateReply> {
    const { patch, version, nowMs } = change;
    if (patch.parentId !== undefined) await this.#parts.gate.demand("parentMove");
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `Entity ${id}`);
      const item = await this.#readToChange(id);
      const entity = entityOf(item);
      if (item === undefined || entity === undefined) return { kind: "missing" };
      if (version !== undefined && version !== entity.version) return { kind: "conflict", version: entity.version };
      const updated = patched(entity, patch, nowMs);
      const isMoved = updated.parentId !== entity.parentId;
      const parentId = typeof patch.parentId === "string" ? patch.parentId : undefined;
      const placement = parentId === undefined ? ROOT : await this.#hierarchy.checkPlacement(parentId, id, false);
      if (placement.kind === "refused") return placement.problem;
      const plans = { from: entity.planId, to: updated.planId };
      if (plans.to !== undefined && plans.to !== plans.from && !(await this.#hasPlan(plans.to))) {
        return { kind: "planMissing", planId: plans.to };
      }
      const reply = await this.#records.transact([
        this.#changed(item, updated, { isMoved, atMs: event.atMs }),
        ...(isMoved
          ? [...placement.writes, ...this.#unlinked(id, entity.parentId), ...this.#linked(id, parentId)]
          : []),
        ...planMoved(this.#namespaceId, id, plans),
        activeCheck(this.#namespaceId),
        await this.#parts.audit.entry(event),
      ]);
      if (reply.kind === "failed") continue;
      if (isMoved || updated.cascade !== entity.cascade) await this.#parts.propagation.ownerChanged(id);
      if (plans.from !== plans.to) await this.#parts.propagation.planChanged(id);
      return { kind: "updated", entity: updated };
    }
  }

  async delete(id: string, event: AuditEvent): Promise<DeleteReply> {
    const { removal, audit } = this.#parts;
    const key = entityKey(this.#namespaceId, id);
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `Entity ${id}`);
      const [item, namespace] = await this.#records.getAll([key, namespaceIdKey(this.#namespaceId)], CONSISTENT);
      this.#parts.watch.requireActive(this.#namespaceId, namespace);
      if (item === undefined) return { kind: "missing" };
      if (item[DELETING] === undefined) {
        const childId = await this.#hierarchy.firstChild(id);
        if (childId !== undefined) return { kind: "children", childId };
        // From here on it is deleted for every process. The rest is clearing up; any process that finds the mark can finish it.
        const reply = await this.#records.transact([
          updateRecord(
            key,
            { set: { [DELETING]: { S: event.eventId }, ...texts(deletingKeys(id)) }, remove: CHILD_KEYS },
            all(isUnchanged(item), isStill(CHILD_SEQ, item[CHILD_SEQ])),
          ),
          ...this.#unlinked(id, parentIn(item)),
          ...planMoved(this.#namespaceId, id, { from: item[PLAN_ID]?.S, to: undefined }),
          activeCheck(this.#namespaceId),
          await audit.entry(event),
        ]);
        if (reply.kind === "failed") continue;
        this.#parts.recent.note();
      }
      await removal.finish(id);
      return { kind: "deleted" };
    }
  }

  async children(id: string, { limit, cursor }: PageRequest): Promise<Page<Entity>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    const first = childKeys(this.#namespaceId, id, after === undefined ? "" : `${after}!`);
    const items = this.#records.query({
      index: CHILDREN_INDEX,
      partition: [GSI1PK, first[GSI1PK] ?? ""],
      range: { name: GSI1SK, from: first[GSI1SK] ?? "", to: "CHILD$" },
      pageSize: limit + 1,
    });
    return pageOf(entitiesIn(items), limit, (entity) => cursorOf(entity.id));
  }

  async list({ limit, cursor }: PageRequest): Promise<Page<Entity>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    return pageOf(this.#all(after, limit + 1), limit, (entity) => cursorOf(entity.id));
  }

  async *#all(after: string | undefined, count: number): AsyncGenerator<Entity> {
    const first = entityPk(this.#namespaceId, "");
    const items = this.#records.query({
      index: NAMESPACE_INDEX,
      partition: [GSI4PK, this.#namespaceId],
      // `!` sorts before every character of an id, `$` right after the `#` before it.
      range: {
        name: GSI4SK,
        from: after === undefined ? first : `${entityPk(this.#namespaceId, after)}!`,
        to: `${first.slice(0, -1)}$`,
      },
      keysOnly: true,
    });
    // Configuration and usage of an entity stand under the same key.
    const metas = where(items, (item) => keyIn(item).sk === META_SK);
    for await (const chunk of inChunks(metas, count)) {
      const found = await this.#records.getAll(chunk.map(keyIn), CONSISTENT);
      for (const item of found) {
        const entity = entityOf(item);
        if (entity !== undefined) yield entity;
      }
    }
  }

  /** The entity as it is now. Throws when the namespace is not active; first removes what a deleted entity of that id left. */
  async #readToChange(id: string): Promise<Attributes | undefined> {
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `Entity ${id}`);
      const keys = [entityKey(this.#namespaceId, id), namespaceIdKey(this.#namespaceId)];
      const [item, namespace] = await this.#records.getAll(keys, CONSISTENT);
      this.#parts.watch.requireActive(this.#namespaceId, namespace);
      if (item?.[DELETING] === undefined) return item;
      await this.#parts.removal.finish(id);
    }
  }

  #changed(
    before: Attributes,
    updated: Entity,
    { isMoved, atMs }: { readonly isMoved: boolean; readonly atMs: number },
  ): RecordWrite {
    const { id, parentId } = updated;
    const generation = Number(before[PARENT_GENERATION]?.N ?? 0) + 1;
    const set: Attributes = {
      ...changeable(updated),
      ...planHistory(before, updated, atMs),
      ...(isMoved ? { [PARENT_GENERATION]: { N: String(generation) } } : {}),
      ...(isMoved && parentId !== undefined ? texts(childKeys(this.#namespaceId, parentId, id)) : {}),
    };
    const remove = [
      ...(isMoved && parentId === undefined ? CHILD_KEYS : []),
      ...(updated.planId === undefined && before[PLAN_ID] !== undefined ? [PLAN_ID] : []),
    ];
    return updateRecord(entityKey(this.#namespaceId, id), { set, remove }, isUnchanged(before));
  }

  async #hasPlan(planId: string): Promise<boolean> {
    if (this.#parts.shared) throw notShared("Plans");
    return hasPlan(this.#records, this.#namespaceId, planId);
  }

  #linked(id: string, parentId: string | undefined): readonly RecordWrite[] {
    if (parentId === undefined) return [];
    const key = childLinkKey(this.#namespaceId, parentId, id);
    return [putRecord(key, childLinkItem(this.#namespaceId, parentId), undefined)];
  }

  #unlinked(id: string, parentId: string | undefined): readonly RecordWrite[] {
    return parentId === undefined ? [] : [deleteRecord(childLinkKey(this.#namespaceId, parentId, id), undefined)];
  }

  #incarnation(): string {
    return createHash("sha256").update(this.#parts.ids.id()).digest("hex").slice(0, 16);
  }
}

const CONSISTENT = { consistent: true } as const;
const ROOT = { kind: "allowed", writes: [] } as const;

async function* entitiesIn(items: AsyncIterable<Attributes>): AsyncGenerator<Entity> {
  for await (const item of items) {
    const entity = entityOf(item);
    if (entity !== undefined) yield entity;
  }
}
