import type { AuditEvent } from "../../domain/audit.ts";
import type { Entity } from "../../domain/entity.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { type Plan, type PlanChange, type PlanUpdate, planUpdate } from "../../domain/plan.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { CreatePlanReply, DeletePlanReply, PlanStore } from "../../ports/plan-store.ts";
import { InNamespace } from "./in-namespace.ts";
import { textList } from "./list-orders.ts";

export class MemoryPlans extends InNamespace implements PlanStore {
  create(plan: Plan, event: AuditEvent): CreatePlanReply {
    this.requireActive();
    if (this.data.plans.has(plan.id)) return { kind: "exists" };
    this.data.plans.set(plan.id, plan);
    this.changed(event);
    return { kind: "created" };
  }

  get(id: string): Plan | undefined {
    return this.data.plans.get(id);
  }

  update(id: string, change: PlanChange, event: AuditEvent): PlanUpdate {
    this.requireActive();
    const update = planUpdate(this.data.plans.get(id), change);
    if (update.kind !== "updated") return update;
    this.data.plans.set(id, update.plan);
    this.changed(event);
    return update;
  }

  delete(id: string, event: AuditEvent): DeletePlanReply {
    this.requireActive();
    if (!this.data.plans.has(id)) return { kind: "missing" };
    for (const entity of this.data.entities.values()) {
      if (entity.planId === id) return { kind: "inUse", entityId: entity.id };
    }
    this.data.plans.delete(id);
    for (const [key, { scope, config }] of this.data.configs) {
      if (!("planId" in scope) || scope.planId !== id) continue;
      // Entities that had it may still be brought up to now by what it said.
      this.data.versions.note(key, scope, { before: config, after: undefined, time: this.timeOf(event) });
      this.data.configs.delete(key);
    }
    this.changed(event);
    return { kind: "deleted" };
  }

  list(page: PageRequest): MaybePromise<Page<Plan>> {
    const { plans, orders } = this.data;
    const ids = () => plans.keys();
    return orders.pageByTurns(
      textList("plans", ids, (id) => plans.get(id)),
      page,
    );
  }

  listEntities(id: string, page: PageRequest): MaybePromise<Page<Entity>> {
    const { entities, orders } = this.data;
    const ids = function* () {
      for (const entity of entities.values()) if (entity.planId === id) yield entity.id;
    };
    const found = (entityId: string) => {
      const entity = entities.get(entityId);
      return entity?.planId === id ? entity : undefined;
    };
    return orders.pageByTurns(textList(`entities of the plan ${id}`, ids, found), page);
  }
}
