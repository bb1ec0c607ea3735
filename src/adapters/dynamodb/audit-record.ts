import type { AuditAction, AuditEvent } from "../../domain/config/audit.ts";
import { type Attributes, decodeJson, encodeJson, instantOf } from "./codec.ts";
import { texts } from "./records-write.ts";
import {
  ACTION,
  auditIndexKeys,
  DETAILS,
  ENTITY_ID,
  EVENT_ID,
  OWN_EVENT_ID,
  PRINCIPAL,
  RESOURCE,
  SK,
  TIMESTAMP,
  TTL,
} from "./schema.ts";

/** An event in the original's format, without its key. `untilS`: when it expires. */
export function eventItem(namespaceId: string, event: AuditEvent, auditId: string, untilS: number): Attributes {
  const { eventId, atMs, action, entityId, resource, principal } = event;
  return {
    // The original uses this attribute as the cursor of its list, so it must equal the sort key.
    ...texts({ [ENTITY_ID]: entityId, [EVENT_ID]: auditId, [OWN_EVENT_ID]: eventId, [ACTION]: action }),
    ...texts(auditIndexKeys(namespaceId, entityId)),
    [TIMESTAMP]: { S: new Date(atMs).toISOString() },
    [PRINCIPAL]: principal === undefined ? { NULL: true } : { S: principal },
    [RESOURCE]: resource === undefined ? { NULL: true } : { S: resource },
    [DETAILS]: encodeJson(event.details) ?? { M: {} },
    [TTL]: { N: String(untilS) },
  };
}

export function eventOf(item: Attributes): AuditEvent {
  const resource = item[RESOURCE]?.S;
  const principal = item[PRINCIPAL]?.S;
  const details = item[DETAILS];
  return {
    eventId: item[OWN_EVENT_ID]?.S ?? item[EVENT_ID]?.S ?? (item[SK]?.S ?? "").slice("#AUDIT#".length),
    atMs: instantOf(item[TIMESTAMP]?.S),
    action: (item[ACTION]?.S ?? "") as AuditAction,
    entityId: item[ENTITY_ID]?.S ?? "",
    ...(resource === undefined ? {} : { resource }),
    ...(principal === undefined ? {} : { principal }),
    details: (details === undefined ? {} : decodeJson(details)) as AuditEvent["details"],
  };
}
