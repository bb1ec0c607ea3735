import type { AuditEvent } from "../domain/config/audit.ts";
import type { Entity, EntityChange, EntityUpdate, ParentProblem, PlanProblem } from "../domain/config/entity.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

export type CreateReply = { readonly kind: "created" } | { readonly kind: "exists" } | PlanProblem | ParentProblem;

export type UpdateReply = EntityUpdate;

export type DeleteReply =
  | { readonly kind: "deleted" }
  | { readonly kind: "missing" }
  | { readonly kind: "children"; readonly childId: string };

/** Entities of one namespace. The hierarchy is checked inside the transaction that writes. */
export interface EntityStore {
  create(entity: Entity, event: AuditEvent): MaybePromise<CreateReply>;
  get(id: string): MaybePromise<Entity | undefined>;
  update(id: string, change: EntityChange, event: AuditEvent): MaybePromise<UpdateReply>;
  /** Removes the entity with its limits, buckets and usage; its audit trail stays. Refused while it has children. */
  delete(id: string, event: AuditEvent): MaybePromise<DeleteReply>;
  children(id: string, page: PageRequest): MaybePromise<Page<Entity>>;
  list(page: PageRequest): MaybePromise<Page<Entity>>;
}
