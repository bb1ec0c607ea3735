import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { PK, SK, type TableKey } from "../adapters/dynamodb/schema.ts";

/** A record of the table's stream, as Lambda or the SDK has it. They spell identities differently. */
export interface StreamRecord {
  /** The id of the record. */
  readonly eventID?: string | undefined;
  /** `INSERT`, `MODIFY` or `REMOVE`. */
  readonly eventName?: string | undefined;
  /** Who removed the item, if DynamoDB itself did. */
  readonly userIdentity?:
    | {
        readonly principalId?: string | undefined;
        readonly PrincipalId?: string | undefined;
        readonly type?: string | undefined;
        readonly Type?: string | undefined;
      }
    | null
    | undefined;
  /** The key, the content before, and the place in the stream. */
  readonly dynamodb?:
    | {
        readonly Keys?: Attributes | undefined;
        readonly OldImage?: Attributes | undefined;
        readonly SequenceNumber?: string | undefined;
        /** Seconds in Lambda, an instant from the SDK. */
        readonly ApproximateCreationDateTime?: number | Date | undefined;
      }
    | undefined;
}

export function keyOfRecord({ dynamodb }: StreamRecord): TableKey {
  return { pk: dynamodb?.Keys?.[PK]?.S ?? "", sk: dynamodb?.Keys?.[SK]?.S ?? "" };
}

export function sequenceOf({ dynamodb }: StreamRecord): string {
  return dynamodb?.SequenceNumber ?? "";
}

/** When the change was made, roughly; undefined where the record does not say. */
export function createdAtMs({ dynamodb }: StreamRecord): number | undefined {
  const at = dynamodb?.ApproximateCreationDateTime;
  return typeof at === "number" ? at * 1000 : at?.getTime();
}

/**
 * Whether the item went because its time was over. The service removes under a name of its own. DynamoDB Local names nobody,
 * and calls the event by a name that its own SDK does not know.
 */
export function isExpiry({ eventName, userIdentity }: StreamRecord): boolean {
  if (eventName === "UNKNOWN_TO_SDK_VERSION") return true;
  const principal = userIdentity?.principalId ?? userIdentity?.PrincipalId;
  return eventName === "REMOVE" && principal === "dynamodb.amazonaws.com";
}
