import type { AuditEvent } from "../domain/audit.ts";
import type { Namespace } from "../domain/namespace.ts";
import type { Page, PageRequest } from "../domain/paging.ts";
import type { Now } from "./bucket-store.ts";

export type RecoverReply =
  | { readonly kind: "recovered"; readonly namespace: Namespace }
  | { readonly kind: "missing" }
  | { readonly kind: "nameTaken"; readonly name: string }
  | { readonly kind: "notDeleted"; readonly status: Namespace["status"] };

export type PurgeReply =
  | { readonly kind: "purged"; readonly records: number }
  | { readonly kind: "missing" }
  | { readonly kind: "active"; readonly name: string };

/** Namespaces of a store. Their audit events go to the namespace `auditIn`: that of the limiter that made the change. */
export interface NamespaceStore {
  /** Registers the name under the given new id, unless it is registered already; answers what then is. */
  register(namespace: Namespace, event: AuditEvent, auditIn: string): Now<Namespace>;
  /** The active namespace of a name. */
  get(name: string): Now<Namespace | undefined>;
  list(page: PageRequest): Now<Page<Namespace>>;
  /** Hides it: its data stays until purged. Undefined when there is no active one of that name. */
  delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): Now<Namespace | undefined>;
  recover(id: string, event: AuditEvent, auditIn: string): Now<RecoverReply>;
  listOrphans(page: PageRequest): Now<Page<Namespace>>;
  /** Removes everything of a deleted namespace, in steps; may be run again after it was cut off. */
  purge(id: string, event: AuditEvent, auditIn: string, onProgress: (recordsDeleted: number) => void): Now<PurgeReply>;
}
