import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import type { StreamRecord } from "../../src/aggregator/stream-source.ts";

// Records of a stream as AWS and DynamoDB Local hand them out, for tests.

const S = (text: string) => ({ S: text });

/** Who removed an item, and how that is told. */
export type Remover = "lambda" | "sdk" | "local" | "somebody";

interface AuditItem {
  readonly namespaceId: string;
  readonly entityId: string;
  /** A ULID. */
  readonly eventId: string;
  readonly timestamp: string;
}

export function auditImage({ namespaceId, entityId, eventId, timestamp }: AuditItem): Attributes {
  return {
    ...{ PK: S(`${namespaceId}/AUDIT#${entityId}`), SK: S(`#AUDIT#${eventId}`) },
    ...{ GSI4PK: S(namespaceId), GSI4SK: S(`${namespaceId}/AUDIT#${entityId}`) },
    ...{ entity_id: S(entityId), event_id: S(eventId), own_event_id: S(`own-${eventId}`), action: S("limits_set") },
    ...{ timestamp: S(timestamp), principal: S("ops"), resource: { NULL: true }, ttl: { N: "1" } },
    details: { M: { limits: { L: [{ M: { name: S("rpm"), capacity: { N: "10" } } }] } } },
  };
}

/** The removal of an item. */
export function removal(image: Attributes, remover: Remover, sequence: string): StreamRecord {
  const identity = {
    lambda: { eventName: "REMOVE", userIdentity: { type: "Service", principalId: "dynamodb.amazonaws.com" } },
    sdk: { eventName: "REMOVE", userIdentity: { Type: "Service", PrincipalId: "dynamodb.amazonaws.com" } },
    local: { eventName: "UNKNOWN_TO_SDK_VERSION" },
    somebody: { eventName: "REMOVE" },
  }[remover];
  return {
    ...identity,
    eventID: `event-${sequence}`,
    dynamodb: {
      Keys: { PK: image.PK!, SK: image.SK! },
      OldImage: image,
      SequenceNumber: sequence,
      ApproximateCreationDateTime: 1_790_000_000,
    },
  };
}

/** Any other change. */
export function change(pk: string, sk: string, sequence: string): StreamRecord {
  const Keys = { PK: S(pk), SK: S(sk) };
  return { eventName: "MODIFY", eventID: `event-${sequence}`, dynamodb: { Keys, SequenceNumber: sequence } };
}
