export type AuditAction =
  | "entity_created"
  | "entity_updated"
  | "entity_deleted"
  | "limits_set"
  | "limits_deleted"
  | "access_set"
  | "cascade_set"
  | "bucket_topped_up"
  | "bucket_reset"
  | "namespace_registered"
  | "namespace_deleted"
  | "namespace_recovered"
  | "namespace_purged";

/** One change of configuration, written in the same transaction as the change. */
export interface AuditEvent {
  readonly eventId: string;
  readonly atMs: number;
  readonly action: AuditAction;
  /** An entity, or `$SYSTEM`, `$RESOURCE:name`, `$NAMESPACE:name`. */
  readonly entityId: string;
  readonly resource?: string;
  readonly principal?: string;
  readonly details: Readonly<Record<string, unknown>>;
}
