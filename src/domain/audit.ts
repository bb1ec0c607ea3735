/** What was done: `noun_verb`, such as `limits_set`. */
export type AuditAction =
  | "entity_created"
  | "entity_updated"
  | "entity_deleted"
  | "plan_created"
  | "plan_updated"
  | "plan_deleted"
  | "limits_set"
  | "limits_deleted"
  | "totals_set"
  | "totals_deleted"
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
  /** Unique; of a later millisecond, it sorts later. */
  readonly eventId: string;
  /** When, in ms since 1970. */
  readonly atMs: number;
  /** What was done. */
  readonly action: AuditAction;
  /** An entity, or `$SYSTEM`, `$RESOURCE:name`, `$PLAN:id`, `$NAMESPACE:name`. */
  readonly entityId: string;
  /** Absent where it concerns no resource. */
  readonly resource?: string;
  /** Who did it, as the change said. */
  readonly principal?: string;
  /** What it was changed to; depends on the action. */
  readonly details: Readonly<Record<string, unknown>>;
}
