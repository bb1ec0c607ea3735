import { limitWords } from "./limit-kinds.ts";
import type { AuditEvent, Limit, StoredLimits } from "./shapes.ts";
import { untilWords } from "./words.ts";

/** One field that an event changed. `before` is undefined if the old value is older than the events that were read. */
export interface FieldChange {
  readonly field: string;
  readonly before: string | undefined;
  readonly after: string;
}

const NONE = "none";

/** Actions of one group change the same fields: an event's old values are the new ones of the last event of its group. */
const GROUPS: Readonly<Partial<Record<AuditEvent["action"], string>>> = {
  limits_set: "limits",
  limits_deleted: "limits",
  totals_set: "totals",
  totals_deleted: "totals",
  plan_created: "plan",
  plan_updated: "plan",
  plan_deleted: "plan",
  entity_created: "entity",
  entity_updated: "entity",
  entity_deleted: "entity",
  access_set: "access",
  cascade_set: "cascade",
};

/**
 * Lists the changes of the event at `index`. Events are newest first and have only new values; the old ones are those of older events,
 * or none if the trail was read to its end.
 */
export function changesOf(events: readonly AuditEvent[], index: number, isWholeTrail: boolean): FieldChange[] {
  const event = events[index];
  if (event === undefined) return [];
  const after = fieldsOf(event);
  const group = GROUPS[event.action];
  if (group !== undefined && isSet(group)) return setChanges(events, index, isWholeTrail);
  if (group === undefined) return Array.from(after, ([field, text]) => ({ field, before: NONE, after: text }));
  const older = olderOf(events, index);
  const isWhole = event.action === "entity_deleted" || event.action === "plan_deleted";
  const fields = new Set(after.keys());
  // Fields that such an event does not name are deleted.
  if (isWhole) for (const field of stateOf(older).keys()) fields.add(field);
  const before = stateOf(older);
  const begins = event.action === "entity_created" || event.action === "plan_created";
  const isKnown = begins || isWholeTrail || older.length > 0;
  const changes = Array.from(fields, (field) => ({
    field,
    before: begins ? NONE : (before.get(field) ?? (isKnown ? NONE : undefined)),
    after: after.get(field) ?? NONE,
  }));
  return changes.filter((change) => change.before !== change.after);
}

/** The events before one that changed the same fields of the same level. */
function olderOf(events: readonly AuditEvent[], index: number): readonly AuditEvent[] {
  const event = events[index] as AuditEvent;
  return events.slice(index + 1).filter((each) => isSame(each, event) && GROUPS[each.action] === GROUPS[event.action]);
}

/** Limits, totals and access are set as a whole, and may have an end. */
function isSet(group: string): boolean {
  return group === "limits" || group === "totals" || group === "access";
}

/** The fields of a level; `base` undefined: it is older than the events that were read. */
interface LevelFields {
  readonly base: Fields | undefined;
  readonly override?: { readonly untilMs: number; readonly fields: Fields };
}

type Fields = ReadonlyMap<string, string>;

/** The values in force right before the event, and those since; of a base that is set under an override, the base. */
function setChanges(events: readonly AuditEvent[], index: number, isWholeTrail: boolean): FieldChange[] {
  const event = events[index] as AuditEvent;
  const begun: LevelFields = { base: isWholeTrail ? new Map() : undefined };
  const before = olderOf(events, index).toReversed().reduce(afterEvent, begun);
  const after = afterEvent(before, event);
  const isUnder = event.details.underUntilMs !== undefined;
  const [was, is] = [before, after].map((level) => (isUnder ? level.base : inForce(level, event.atMs)));
  if (is === undefined) return [];
  return [...new Set([...is.keys(), ...(was?.keys() ?? [])])]
    .map((field) => ({ field, before: was && (was.get(field) ?? NONE), after: is.get(field) ?? NONE }))
    .filter((change) => change.before !== change.after);
}

function afterEvent({ base, override }: LevelFields, event: AuditEvent): LevelFields {
  const { untilMs, underUntilMs, override: isOverride } = event.details;
  const fields = fieldsOf(event);
  if (isOverride === true) return { base };
  if (typeof untilMs === "number") return { base, override: { untilMs, fields } };
  return underUntilMs === undefined || override === undefined ? { base: fields } : { base: fields, override };
}

function inForce({ base, override }: LevelFields, atMs: number): Fields | undefined {
  return override !== undefined && atMs < override.untilMs ? override.fields : base;
}

function isSame(one: AuditEvent, other: AuditEvent): boolean {
  return one.entityId === other.entityId && one.resource === other.resource;
}

/** The fields of an entity, a plan or cascade after events, which are newest first. */
function stateOf(events: readonly AuditEvent[]): Map<string, string> {
  const state = new Map<string, string>();
  for (const event of events.toReversed()) {
    if (/^(entity|plan)_(created|deleted)$/.test(event.action)) state.clear();
    for (const [field, text] of fieldsOf(event)) state.set(field, text);
  }
  return state;
}

/** They are told in words beside the action. */
const ENDS: ReadonlySet<string> = new Set(["untilMs", "underUntilMs", "override"]);

function fieldsOf({ details }: AuditEvent): Map<string, string> {
  const fields = new Map<string, string>();
  for (const [name, value] of Object.entries(details)) {
    if (name === "idempotencyKey" || ENDS.has(name)) continue;
    if (name === "limits" && Array.isArray(value) && value.every((each) => typeof each === "object")) {
      for (const limit of value as Limit[]) fields.set(limit.name, limitText(limit));
    } else fields.set(name, textOf(value));
  }
  return fields;
}

/** The fields in which two versions of a level differ. */
export function levelChanges(before: StoredLimits | undefined, after: StoredLimits | undefined): FieldChange[] {
  const [old, now] = [levelFields(before), levelFields(after)];
  return [...new Set([...old.keys(), ...now.keys()])]
    .map((field) => ({ field, before: old.get(field) ?? NONE, after: now.get(field) ?? NONE }))
    .filter((change) => change.before !== change.after);
}

function levelFields(stored: StoredLimits | undefined): Map<string, string> {
  const { limits = [], access, cascade, onUnavailable, inherit, appliesTo, untilMs } = stored ?? {};
  const until = untilMs === undefined ? undefined : untilWords(untilMs, Date.now());
  const options = { access, cascade, onUnavailable, inherit, appliesTo, until };
  return new Map([
    ...limits.map((limit): [string, string] => [limit.name, limitText(limit)]),
    ...Object.entries(options).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, String(value)]],
    ),
  ]);
}

function limitText(limit: Limit): string {
  return limitWords(limit, ["schedule", "soft", "shadow", "counts", "notifyAt"]);
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return NONE;
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.map(textOf).join(", ") || NONE;
  return (
    Object.entries(value)
      .map(([key, each]) => `${key} ${textOf(each)}`)
      .join(", ") || NONE
  );
}
