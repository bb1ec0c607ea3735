import type { AuditEvent } from "../domain/config/audit.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

export type RecoverReply =
  | { readonly kind: "recovered"; readonly namespace: Namespace }
  | { readonly kind: "missing" }
  | { readonly kind: "nameTaken"; readonly name: string }
  | { readonly kind: "notDeleted"; readonly status: Namespace["status"] };

export type PurgeReply =
  | { readonly kind: "purged"; readonly records: number }
  | { readonly kind: "missing" }
  | { readonly kind: "active"; readonly name: string };

/** An active namespace in which leases may be due. */
export interface DueNamespace {
  readonly namespace: Namespace;
  /** Since when they may be. */
  readonly sinceMs: number;
}

/** Namespaces of a store. Their audit events go to the namespace `auditIn`: that of the limiter that made the change. */
export interface NamespaceStore {
  /** Registers the name under the given new id, unless it is registered already; answers what then is. */
  register(namespace: Namespace, event: AuditEvent, auditIn: string): MaybePromise<Namespace>;
  /** The active namespace of a name. */
  get(name: string): MaybePromise<Namespace | undefined>;
  list(page: PageRequest): MaybePromise<Page<Namespace>>;
  /** Hides it: its data stays until purged. Undefined when there is no active one of that name. */
  delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): MaybePromise<Namespace | undefined>;
  recover(id: string, event: AuditEvent, auditIn: string): MaybePromise<RecoverReply>;
  listOrphans(page: PageRequest): MaybePromise<Page<Namespace>>;
  /** All in which a lease may be due until then, whoever opened it: one question, however many namespaces there are. */
  withDueLeases(untilMs: number): MaybePromise<readonly DueNamespace[]>;
  /** Whoever looked found nothing due there: a store that keeps notes of it may forget the oldest. */
  nothingDue(namespaceId: string, sinceMs: number, nowMs: number): MaybePromise<void>;
  /** Removes everything of a deleted namespace, in steps; may be run again after it was cut off. */
  purge(
    id: string,
    event: AuditEvent,
    auditIn: string,
    onProgress: (recordsDeleted: number) => void,
  ): MaybePromise<PurgeReply>;
}
