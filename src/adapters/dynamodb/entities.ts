import { createHash } from "node:crypto";
import type { AuditEvent } from "../../domain/config/audit.ts";
import { type Entity, type EntityChange, patched } from "../../domain/config/entity.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { CreateReply, DeleteReply, EntityStore, UpdateReply } from "../../ports/config-store.ts";
import type { Attributes } from "./codec.ts";
import type { ConfigPropagation } from "./config-propagation.ts";
import { checkPlacement, childrenOf, type Placement } from "./entities-hierarchy.ts";
import {
  CHILD_KEYS,
  CHILD_SEQ,
  changeable,
  childLinkItem,
  childLinkKey,
  DELETING,
  entityItem,
  entityOf,
  hasPlan,
  isUnchanged,
  parentIn,
  planHistory,
  planMoved,
} from "./entities-record.ts";
import { finishRemoval } from "./entities-removal.ts";
import { NamedRecords } from "./named-records.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { idOf, pageAfter } from "./paging.ts";
import { childrenIndex } from "./records.ts";
import {
  all,
  deleteRecord,
  isStill,
  missing,
  putRecord,
  type RecordWrite,
  texts,
  updateRecord,
} from "./records-write.ts";
import { childKeys, deletingKeys, entityPk, GSI1PK, GSI1SK, PARENT_GENERATION, PLAN_ID } from "./schema.ts";
import { notShared } from "./version-gate.ts";

interface EntityParts extends NamespaceParts {
  readonly propagation: ConfigPropagation;
}

export class DynamoEntities implements EntityStore {
  readonly #namespaceId: string;
  readonly #parts: EntityParts;
  readonly #entities: NamedRecords<Entity>;

  constructor(parts: EntityParts) {
    this.#namespaceId = parts.namespaceId;
    this.#parts = parts;
    this.#entities = new NamedRecords(parts, {
      pkOf: entityPk,
      decode: entityOf,
      finish: (id) => finishRemoval(parts, id),
      what: (id) => `Entity ${id}`,
    });
  }

  create(entity: Entity, event: AuditEvent): Promise<CreateReply> {
    const { id, parentId, planId } = entity;
    return this.#entities.change<CreateReply>(id, event, async (known) => {
      if (known !== undefined) return { reply: { kind: "exists" } };
      const placement = await this.#placement(id, parentId, true);
      if (placement.kind === "refused") return { reply: placement.problem };
      if (planId !== undefined && !(await this.#hasPlan(planId))) return { reply: { kind: "planMissing", planId } };
      const item = entityItem(this.#namespaceId, entity, { incarnation: this.#incarnation(), atMs: event.atMs });
      return {
        reply: { kind: "created" },
        writes: [
          putRecord(this.#entities.key(id), item, missing),
          ...placement.writes,
          ...this.#linked(id, parentId),
          ...planMoved(this.#namespaceId, id, { from: undefined, to: planId }),
        ],
        onApplied: () => this.#parts.recent.note(),
      };
    });
  }

  get(id: string): Promise<Entity | undefined> {
    return this.#entities.get(id);
  }

  async update(id: string, change: EntityChange, event: AuditEvent): Promise<UpdateReply> {
    const { propagation, gate } = this.#parts;
    const { patch, version, nowMs } = change;
    if (patch.parentId !== undefined) await gate.demand("parentMove");
    return this.#entities.change<UpdateReply>(id, event, async (item) => {
      const entity = entityOf(item);
      if (item === undefined || entity === undefined) return { reply: { kind: "missing" } };
      if (version !== undefined && version !== entity.version) {
        return { reply: { kind: "conflict", version: entity.version } };
      }
      const updated = patched(entity, patch, nowMs);
      const isMoved = updated.parentId !== entity.parentId;
      const parentId = patch.parentId ?? undefined;
      const placement = await this.#placement(id, parentId, false);
      if (placement.kind === "refused") return { reply: placement.problem };
      const plans = { from: entity.planId, to: updated.planId };
      if (plans.to !== undefined && plans.to !== plans.from && !(await this.#hasPlan(plans.to))) {
        return { reply: { kind: "planMissing", planId: plans.to } };
      }
      const links = [...this.#unlinked(id, entity.parentId), ...this.#linked(id, parentId)];
      return {
        reply: { kind: "updated", entity: updated },
        writes: [
          this.#update(item, updated, { isMoved, atMs: event.atMs }),
          ...(isMoved ? [...placement.writes, ...links] : []),
          ...planMoved(this.#namespaceId, id, plans),
        ],
        onApplied: async () => {
          if (isMoved || updated.cascade !== entity.cascade) await propagation.ownerChanged(id);
          if (plans.from !== plans.to) await propagation.planChanged(id);
        },
      };
    });
  }

  delete(id: string, event: AuditEvent): Promise<DeleteReply> {
    return this.#entities.delete<DeleteReply>(id, event, async (item) => {
      const [childId] = (await childrenOf(this.#parts, id)).toSorted();
      if (childId !== undefined) return { reply: { kind: "children", childId } };
      const marks = { [DELETING]: { S: event.eventId }, ...texts(deletingKeys(id)) };
      const isChildless = all(isUnchanged(item), isStill(CHILD_SEQ, item[CHILD_SEQ]));
      return {
        reply: { kind: "deleted" },
        // From here on it is deleted for every process. Any process that finds the mark can finish the removal.
        writes: [
          updateRecord(this.#entities.key(id), { set: marks, remove: CHILD_KEYS }, isChildless),
          ...this.#unlinked(id, parentIn(item)),
          ...planMoved(this.#namespaceId, id, { from: item[PLAN_ID]?.S, to: undefined }),
        ],
        onApplied: () => {
          this.#parts.recent.note();
          return finishRemoval(this.#parts, id);
        },
      };
    });
  }

  children(id: string, page: PageRequest): Promise<Page<Entity>> {
    const children = (after: string | undefined, count: number) => {
      const first = childKeys(this.#namespaceId, id, after === undefined ? "" : `${after}!`);
      const range = { from: first[GSI1SK] ?? "", to: "CHILD$" };
      return entitiesIn(this.#parts.records.query({ ...childrenIndex(first[GSI1PK] ?? "", range), pageSize: count }));
    };
    return pageAfter(page, children, idOf);
  }

  list(page: PageRequest): Promise<Page<Entity>> {
    return this.#entities.list(page);
  }

  #update(
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
    return updateRecord(this.#entities.key(id), { set, remove }, isUnchanged(before));
  }

  async #hasPlan(planId: string): Promise<boolean> {
    if (this.#parts.shared) throw notShared("Plans");
    return hasPlan(this.#parts.records, this.#namespaceId, planId);
  }

  async #placement(id: string, parentId: string | undefined, isNew: boolean): Promise<Placement> {
    return parentId === undefined ? ROOT : checkPlacement(this.#parts, parentId, id, isNew);
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

const ROOT: Placement = { kind: "allowed", writes: [] };

async function* entitiesIn(items: AsyncIterable<Attributes>): AsyncGenerator<Entity> {
  for await (const item of items) {
    const entity = entityOf(item);
    if (entity !== undefined) yield entity;
  }
}
