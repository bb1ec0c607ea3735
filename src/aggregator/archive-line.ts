import { type Attributes, decodeJson, instantOf } from "../adapters/dynamodb/codec.ts";
import {
  ACTION,
  DETAILS,
  ENTITY_ID,
  EVENT_ID,
  inCalendar,
  namespaceOf,
  OWN_EVENT_ID,
  PRINCIPAL,
  RESOURCE,
  type TableKey,
  TIMESTAMP,
} from "../adapters/dynamodb/schema.ts";
import type { AuditAction, AuditEvent } from "../domain/config/audit.ts";
import { LimiterError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";

/**
 * An audit event as a line of the archive: the keys of the Python original, and the namespace, which the original
 * leaves out.
 */
export interface ArchiveLine {
  /** Sorts by time. With the namespace it identifies the event. */
  readonly event_id: string;
  /** The entity that was changed, or `$SYSTEM`, `$RESOURCE:name`, `$NAMESPACE:name`. */
  readonly entity_id: string;
  /** The kind of change, such as `limits_set`. */
  readonly action: string;
  /** The time of the change, in ISO 8601. */
  readonly timestamp: string;
  /** The principal that made the change; `null`: not given. */
  readonly principal: string | null;
  /** The resource that was changed; `null`: none. */
  readonly resource: string | null;
  /** The new values. */
  readonly details: unknown;
  /** The id of its namespace. */
  readonly namespace_id: string;
  /** The id that `auditEvents` shows, if it is another. */
  readonly own_event_id?: string;
}

/** An audit event from the archive. */
export interface ArchivedEvent extends AuditEvent {
  /** The id of its namespace. */
  readonly namespaceId: string;
}

const AUDIT_SK = "#AUDIT#";

export function isAuditKey({ pk, sk }: TableKey): boolean {
  const namespaceId = namespaceOf(pk);
  return namespaceId !== undefined && pk.startsWith(`${namespaceId}/AUDIT#`) && sk.startsWith(AUDIT_SK);
}

/** The line of an event that was removed from the table. */
export function lineOf(key: TableKey, item: Attributes): ArchiveLine {
  const namespaceId = namespaceOf(key.pk) ?? "";
  const eventId = item[EVENT_ID]?.S ?? key.sk.slice(AUDIT_SK.length);
  const own = item[OWN_EVENT_ID]?.S;
  return {
    event_id: eventId,
    entity_id: item[ENTITY_ID]?.S ?? key.pk.slice(`${namespaceId}/AUDIT#`.length),
    action: item[ACTION]?.S ?? "",
    timestamp: item[TIMESTAMP]?.S ?? "",
    principal: item[PRINCIPAL]?.S ?? null,
    resource: item[RESOURCE]?.S ?? null,
    details: item[DETAILS] === undefined ? {} : decodeJson(item[DETAILS]),
    namespace_id: namespaceId,
    ...given({ own_event_id: own === eventId ? undefined : own }),
  };
}

/** The identity of an event, whichever objects it is in. */
export function identityOf({ namespace_id, event_id }: ArchiveLine): string {
  return `${namespace_id}/${event_id}`;
}

export function archivedEvent(line: ArchiveLine): ArchivedEvent {
  return {
    eventId: line.own_event_id ?? line.event_id,
    atMs: instantOf(line.timestamp),
    action: line.action as AuditAction,
    entityId: line.entity_id,
    ...given({ resource: line.resource ?? undefined, principal: line.principal ?? undefined }),
    details: (line.details ?? {}) as AuditEvent["details"],
    namespaceId: line.namespace_id,
  };
}

/** The lines of an object. Throws if one is not an audit event; `name`: the object, for the message. */
export function parseLines(text: string, name: string): readonly ArchiveLine[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line, i) => {
      const parsed = parsedLine(line);
      if (parsed !== undefined) return parsed;
      throw new LimiterError(
        "archive_unreadable",
        `Line ${i + 1} of ${name} is not an audit event; restore the object from a backup, or move it away.`,
      );
    });
}

const ABSENT = { entity_id: "", action: "", timestamp: "", principal: null, resource: null, details: {} };

function parsedLine(text: string): ArchiveLine | undefined {
  try {
    const line = JSON.parse(text) as Partial<ArchiveLine> | null;
    if (typeof line?.event_id !== "string" || typeof line.namespace_id !== "string") return undefined;
    return { ...ABSENT, ...(line as ArchiveLine) };
  } catch {
    return undefined;
  }
}

/** The day (UTC) of an event, as YYYY-MM-DD: by its own time, else by its id, else by its removal. */
export function dayOf(line: ArchiveLine, removedAtMs: number | undefined): string {
  const atMs = instantOf(line.timestamp) || ulidMs(line.event_id) || (removedAtMs ?? 0);
  return new Date(inCalendar(atMs)).toISOString().slice(0, 10);
}

const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** The time in the first ten characters of a ULID; 0 for another id. */
function ulidMs(id: string): number {
  if (!/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(id)) return 0;
  return [...id.slice(0, 10)].reduce((sum, digit) => sum * 32 + DIGITS.indexOf(digit), 0);
}
