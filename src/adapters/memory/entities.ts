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
import { withStint } from "../../domain/plan-stints.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { CreateReply, DeleteReply, EntityStore, UpdateReply } from "../../ports/entity-store.ts";
import { InNamespace } from "./in-namespace.ts";
import { sameText, textList } from "./list-orders.ts";
import { forgetRefusalsOf } from "./refusals.ts";

export class MemoryEntities extends InNamespace implements EntityStore {
  create(entity: Entity, event: AuditEvent): CreateReply {
    this.requireActive();
    if (this.data.entities.has(entity.id)) return { kind: "exists" };
    const problem =
      (entity.parentId === undefined ? undefined : parentProblem(entity.id, entity.parentId, this.#hierarchy)) ??
      planProblem(entity.planId, this.#hierarchy);
    if (problem !== undefined) return problem;
    this.#changed(undefined, entity, event);
    return { kind: "created" };
  }

  get(id: string): Entity | undefined {
    return this.data.entities.get(id);
  }

  update(id: string, change: EntityChange, event: AuditEvent): UpdateReply {
    this.requireActive();
    const before = this.data.entities.get(id);
    const update = updateOf(before, change, this.#hierarchy);
    if (update.kind === "updated") this.#changed(before, update.entity, event);
    return update;
  }

  delete(id: string, event: AuditEvent): DeleteReply {
    this.requireActive();
    if (!this.data.entities.has(id)) return { kind: "missing" };
    const [childId] = this.#hierarchy.childrenOf(id);
    if (childId !== undefined) return { kind: "children", childId };
    this.data.entities.delete(id);
    for (const [key, { scope }] of this.data.configs) {
      if ("entityId" in scope && scope.entityId === id) this.data.configs.delete(key);
    }
    this.data.versions.forgetEntity(id);
    this.data.stints.delete(id);
    for (const [key, { entityId }] of this.data.operations) if (entityId === id) this.data.operations.delete(key);
    for (const { key } of this.data.buckets.values()) if (key.entityId === id) this.data.buckets.delete(key.id);
    forgetRefusalsOf(this.data, id);
    this.changed(event);
    return { kind: "deleted" };
  }

  children(id: string, page: PageRequest): MaybePromise<Page<Entity>> {
    const childOf = (childId: string) => {
      const entity = this.data.entities.get(childId);
      return entity?.parentId === id ? entity : undefined;
    };
    return this.data.orders.pageByTurns(
      textList(`children ${id}`, () => [...this.#hierarchy.childrenOf(id)], childOf),
      page,
    );
  }

  list(page: PageRequest): MaybePromise<Page<Entity>> {
    const { entities, orders } = this.data;
    const keysAfter = (id: string, max: number) => entities.keysAfter(id, max);
    const itemOf = (id: string) => entities.get(id);
    return orders.pageInOrder({ keysAfter, from: "", itemOf, textOf: sameText, keyOf: sameText }, page);
  }

  readonly #hierarchy: Hierarchy & PlansKnown = {
    hasPlan: (id) => this.data.plans.has(id),
    parentOf: (id) => this.data.entities.get(id),
    childrenOf: (id) =>
      [...this.data.entities.values()].filter(({ parentId }) => parentId === id).map((entity) => entity.id),
  };

  #changed(before: Entity | undefined, entity: Entity, event: AuditEvent): void {
    const { entities, stints } = this.data;
    entities.set(entity.id, entity);
    const plans = withStint(stints.get(entity.id), before?.planId, entity.planId, this.timeOf(event));
    if (plans !== undefined) stints.set(entity.id, plans);
    this.changed(event);
  }
}
