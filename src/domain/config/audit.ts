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
  | "namespace_purged"
  | "namespace_frozen"
  | "namespace_unfrozen"
  | "namespace_copied";

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

/**
 * The ends that events tell of, in words. An end that comes by itself is no event: it follows from the event that set it, unless a later
 * change of the same level came first. So events are asked about from the newest on.
 */
export class AuditEnds {
  readonly #nowMs: number;
  readonly #instantText: (atMs: number) => string;
  /** The oldest change of each level so far. */
  readonly #changedMs = new Map<string, number>();

  constructor(nowMs: number, instantText: (atMs: number) => string) {
    this.#nowMs = nowMs;
    this.#instantText = instantText;
  }

  /** `until 15:00`, `ended 15:00`, `until 15:00, replaced 14:20`, `under an override until 15:00`, `override ended`; undefined: none. */
  of({ action, atMs, entityId, resource, details }: AuditEvent): string | undefined {
    const { untilMs, underUntilMs, override } = details;
    if (isInstant(underUntilMs)) return `under an override until ${this.#instantText(underUntilMs)}`;
    const level = `${action.slice(0, action.indexOf("_"))}\n${entityId}\n${resource ?? ""}`;
    const changedMs = this.#changedMs.get(level);
    this.#changedMs.set(level, atMs);
    if (override === true) return "override ended";
    if (!isInstant(untilMs)) return undefined;
    const end = this.#instantText(untilMs);
    if (changedMs !== undefined && changedMs < untilMs) return `until ${end}, replaced ${this.#instantText(changedMs)}`;
    return this.#nowMs < untilMs ? `until ${end}` : `ended ${end}`;
  }
}

function isInstant(value: unknown): value is number {
  return typeof value === "number";
}
