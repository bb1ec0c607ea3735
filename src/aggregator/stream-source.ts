import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { PK, SK, type TableKey } from "../adapters/dynamodb/schema.ts";

/** A record of the table's stream. Lambda and the SDK spell identities differently. */
export interface StreamRecord {
  /** The id of the record. */
  readonly eventID?: string | undefined;
  /** `INSERT`, `MODIFY` or `REMOVE`. */
  readonly eventName?: string | undefined;
  /** The remover of the item, if it was DynamoDB itself. */
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
        /** Seconds in Lambda, a `Date` from the SDK. */
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

/** The approximate time of the change; undefined if the record has none. */
export function createdAtMs({ dynamodb }: StreamRecord): number | undefined {
  const at = dynamodb?.ApproximateCreationDateTime;
  return typeof at === "number" ? at * 1000 : at?.getTime();
}

/**
 * True if the item expired. The service deletes under its own name. DynamoDB Local gives no name, and calls the event
 * by a name that its own SDK does not know.
 */
export function isExpiry({ eventName, userIdentity }: StreamRecord): boolean {
  if (eventName === "UNKNOWN_TO_SDK_VERSION") return true;
  const principal = userIdentity?.principalId ?? userIdentity?.PrincipalId;
  return eventName === "REMOVE" && principal === "dynamodb.amazonaws.com";
}

/** A part of a stream. Records of one item are in one shard at a time, and move on to its children. */
export interface StreamShard {
  readonly id: string;
  /** The shard whose records precede its own; it may be gone already. */
  readonly parentId: string | undefined;
  /** It gets no more records. */
  readonly isClosed: boolean;
}

/** A position to begin at in a shard. */
export type StreamPosition =
  | { readonly kind: "oldest" }
  | { readonly kind: "latest" }
  | { readonly kind: "after"; readonly sequence: string };

export type StreamOpened =
  | { readonly kind: "opened"; readonly iterator: string }
  /** The records at this position are no longer kept. */
  | { readonly kind: "trimmed" }
  /** Throttled or unreachable. */
  | { readonly kind: "busy"; readonly cause: unknown };

export type StreamRead =
  /** `next` is undefined at the end of the shard. An empty list does not mean that there are no later records. */
  | { readonly kind: "records"; readonly records: readonly StreamRecord[]; readonly next: string | undefined }
  /** Iterators expire after some minutes. */
  | { readonly kind: "expired" }
  | { readonly kind: "trimmed" }
  | { readonly kind: "busy"; readonly cause: unknown };

/** The stream of a table. Faults that a repetition cannot help are thrown. */
export interface StreamSource {
  /** Identifies this stream: a table with a new stream begins anew. */
  readonly label: string;
  /** All known shards. `isOver`: the stream was turned off and gets no more records. */
  shards(): Promise<{ readonly shards: readonly StreamShard[]; readonly isOver: boolean }>;
  open(shardId: string, position: StreamPosition): Promise<StreamOpened>;
  read(iterator: string): Promise<StreamRead>;
}
