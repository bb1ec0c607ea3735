import { limitWords } from "./limit-kinds.ts";
import type { AuditEvent, Limit, StoredLimits } from "./shapes.ts";

/** One field that an event changed. `before` undefined: what it was is older than what was read. */
export interface FieldChange {
  readonly field: string;
  readonly before: string | undefined;
  readonly after: string;
}

const NONE = "none";

/** What belongs together: an event's old values are the new ones of the event before it on the same thing. */
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
 * What the event at `index` changed. The trail tells what was set, newest first; what it was before is found further down, or
 * there was nothing where the trail was read to its end.
 */
export function changesOf(events: readonly AuditEvent[], index: number, isWholeTrail: boolean): FieldChange[] {
  const event = events[index];
  if (event === undefined) return [];
  const after = fieldsOf(event);
  const group = GROUPS[event.action];
  if (group === undefined) return Array.from(after, ([field, text]) => ({ field, before: NONE, after: text }));
  const older = events.slice(index + 1).filter((each) => isSame(each, event) && GROUPS[each.action] === group);
  const isWhole = isSet(group) || event.action === "entity_deleted" || event.action === "plan_deleted";
  const fields = new Set(after.keys());
  // Limits are set as a whole, and with an entity all of it goes: what was there before and is not named is gone.
  if (isWhole) for (const field of stateOf(older, group).keys()) fields.add(field);
  const before = stateOf(older, group);
  const begins = event.action === "entity_created" || event.action === "plan_created";
  const isKnown = begins || isWholeTrail || older.length > 0;
  const changes = Array.from(fields, (field) => ({
    field,
    before: begins ? NONE : (before.get(field) ?? (isKnown ? NONE : undefined)),
    after: after.get(field) ?? NONE,
  }));
  return changes.filter((change) => change.before !== change.after);
}

/** Limits and totals are set as a whole. */
function isSet(group: string): boolean {
  return group === "limits" || group === "totals";
}

function isSame(one: AuditEvent, other: AuditEvent): boolean {
  return one.entityId === other.entityId && one.resource === other.resource;
}

/** What events, newest first, leave behind. */
function stateOf(events: readonly AuditEvent[], group: string): Map<string, string> {
  if (isSet(group)) return events[0] === undefined ? new Map() : fieldsOf(events[0]);
  const state = new Map<string, string>();
  for (const event of events.toReversed()) {
    if (/^(entity|plan)_(created|deleted)$/.test(event.action)) state.clear();
    for (const [field, text] of fieldsOf(event)) state.set(field, text);
  }
  return state;
}

function fieldsOf({ details }: AuditEvent): Map<string, string> {
  const fields = new Map<string, string>();
  for (const [name, value] of Object.entries(details)) {
    if (name === "idempotencyKey") continue;
    if (name === "limits" && Array.isArray(value) && value.every((each) => typeof each === "object")) {
      for (const limit of value as Limit[]) fields.set(limit.name, limitText(limit));
    } else fields.set(name, textOf(value));
  }
  return fields;
}

/** What somebody else made of a level meanwhile, field by field. */
export function levelChanges(before: StoredLimits | undefined, after: StoredLimits | undefined): FieldChange[] {
  const [old, now] = [levelFields(before), levelFields(after)];
  return [...new Set([...old.keys(), ...now.keys()])]
    .map((field) => ({ field, before: old.get(field) ?? NONE, after: now.get(field) ?? NONE }))
    .filter((change) => change.before !== change.after);
}

function levelFields(stored: StoredLimits | undefined): Map<string, string> {
  const { limits = [], access, cascade, onUnavailable, inherit, appliesTo } = stored ?? {};
  const options = { access, cascade, onUnavailable, inherit, appliesTo };
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
