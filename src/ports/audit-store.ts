import type { AuditEvent } from "../domain/config/audit.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

/** The audit log of one namespace, newest first. Events are written by the stores that make the changes. */
export interface AuditStore {
  list(filter: { readonly entityId?: string }, page: PageRequest): MaybePromise<Page<AuditEvent>>;
}
