import { type Attributes, decodeJson, instantOf } from "../adapters/dynamodb/codec.ts";
import {
  ACTION,
  DETAILS,
  ENTITY_ID,
  EVENT_ID,
  namespaceOf,
  OWN_EVENT_ID,
  PRINCIPAL,
  RESOURCE,
  type TableKey,
  TIMESTAMP,
} from "../adapters/dynamodb/schema.ts";
import type { AuditAction, AuditEvent } from "../domain/config/audit.ts";
import { LimiterError } from "../domain/names/errors.ts";

/**
 * An audit event as a line of the archive: the keys of the Python original, and the namespace, which the original
 * leaves out.
 */
export interface ArchiveLine {
  /** Sorts by time. With the namespace it identifies the event. */
  readonly event_id: string;
  /** The entity that was changed, or `$SYSTEM`, `$RESOURCE:name`, `$NAMESPACE:name`. */
  readonly entity_id: string;
  /** What the change did, such as `limits_set`. */
  readonly action: string;
  /** When, in ISO 8601. */
  readonly timestamp: string;
  /** Who made the change; `null`: the change did not say. */
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

/** Whether a key is that of an audit event. */
export function isAuditKey({ pk, sk }: TableKey): boolean {
  const namespaceId = namespaceOf(pk);
  return namespaceId !== undefined && pk.startsWith(`${namespaceId}/AUDIT#`) && sk.startsWith(AUDIT_SK);
}

/** The line of an event that is no longer in the table. */
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
    ...(own === undefined || own === eventId ? {} : { own_event_id: own }),
  };
}

/** One text for each event, whichever objects it is in. */
export function identityOf({ namespace_id, event_id }: ArchiveLine): string {
  return `${namespace_id}/${event_id}`;
}

export function archivedEvent(line: ArchiveLine): ArchivedEvent {
  return {
    eventId: line.own_event_id ?? line.event_id,
    atMs: instantOf(line.timestamp),
    action: line.action as AuditAction,
    entityId: line.entity_id,
    ...(line.resource === null ? {} : { resource: line.resource }),
    ...(line.principal === null ? {} : { principal: line.principal }),
    details: (line.details ?? {}) as AuditEvent["details"],
    namespaceId: line.namespace_id,
  };
}

/** The lines of an object's text. Throws where one is not ours: `name` says which object it was. */
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

function parsedLine(text: string): ArchiveLine | undefined {
  try {
    const line = JSON.parse(text) as Partial<ArchiveLine> | null;
    if (typeof line?.event_id !== "string" || typeof line.namespace_id !== "string") return undefined;
    return {
      ...{ entity_id: "", action: "", timestamp: "", principal: null, resource: null, details: {} },
      ...(line as ArchiveLine),
    };
  } catch {
    return undefined;
  }
}

/** The day (UTC) that an event belongs to, as YYYY-MM-DD: by its own time, else by its id, else by the removal. */
export function dayOf(line: ArchiveLine, removedAtMs: number | undefined): string {
  const atMs = instantOf(line.timestamp) || ulidMs(line.event_id) || (removedAtMs ?? 0);
  return new Date(Math.min(Math.max(atMs, 0), LAST_MS)).toISOString().slice(0, 10);
}

/** The end of the year 9999: the last that has four digits. */
const LAST_MS = 253_402_300_799_000;
const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** The first ten characters of a ULID are its time; 0 where this is none. */
function ulidMs(id: string): number {
  if (!/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(id)) return 0;
  return [...id.slice(0, 10)].reduce((sum, digit) => sum * 32 + DIGITS.indexOf(digit), 0);
}
