import type { AuditEvent } from "../domain/config/audit.ts";
import type { Entity } from "../domain/config/entity.ts";
import type { Plan, PlanChange, PlanUpdate } from "../domain/config/plan.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

export type CreatePlanReply = { readonly kind: "created" } | { readonly kind: "exists" };

export type DeletePlanReply =
  | { readonly kind: "deleted" }
  | { readonly kind: "missing" }
  | { readonly kind: "inUse"; readonly entityId: string };

/**
 * Plans of one namespace. Their limits and totals are in the `ConfigStore`. A plan that is deleted and an entity that comes to it
 * exclude each other: no entity refers to a plan that is gone.
 */
export interface PlanStore {
  create(plan: Plan, event: AuditEvent): MaybePromise<CreatePlanReply>;
  get(id: string): MaybePromise<Plan | undefined>;
  update(id: string, change: PlanChange, event: AuditEvent): MaybePromise<PlanUpdate>;
  /** Removes the plan with its limits and totals. Refused while an entity refers to it. */
  delete(id: string, event: AuditEvent): MaybePromise<DeletePlanReply>;
  /** By id. */
  list(page: PageRequest): MaybePromise<Page<Plan>>;
  /** The entities that refer to a plan, by id. */
  listEntities(id: string, page: PageRequest): MaybePromise<Page<Entity>>;
}
