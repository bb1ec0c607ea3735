/** What a change did: `noun_verb`, such as `limits_set`. */
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

/** One change of the configuration. It is written in the same transaction as the change. */
export interface AuditEvent {
  /** A unique id. The id of an event of a later millisecond sorts later. */
  readonly eventId: string;
  /** When, in ms since 1970. */
  readonly atMs: number;
  /** What the change did. */
  readonly action: AuditAction;
  /** The entity that was changed, or `$SYSTEM`, `$RESOURCE:name`, `$PLAN:id`, `$NAMESPACE:name`. */
  readonly entityId: string;
  /** The resource that was changed. Absent: the change concerns none. */
  readonly resource?: string;
  /** Who made the change. Absent: the change did not say. */
  readonly principal?: string;
  /** The new values; they depend on the action. */
  readonly details: Readonly<Record<string, unknown>>;
}
