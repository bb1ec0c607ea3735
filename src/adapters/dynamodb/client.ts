import type { Item } from "../../ports/item-store.ts";

/** Operations of DynamoDB that this package uses. */
export type DynamoOperation =
  | "GetItem"
  | "PutItem"
  | "UpdateItem"
  | "DeleteItem"
  | "BatchGetItem"
  | "BatchWriteItem"
  | "TransactWriteItems"
  | "Query"
  | "Scan"
  | "CreateTable"
  | "UpdateTable"
  | "CreateBackup"
  | "DescribeBackup"
  | "DescribeContinuousBackups"
  | "DescribeTable"
  | "ListTables"
  | "DeleteTable"
  | "UpdateTimeToLive"
  | "DescribeTimeToLive";

export interface DynamoCall {
  /** An answer that comes later counts as lost. */
  readonly timeoutMs: number;
  /** A quicker way than JSON to the item of an answer, for clients that have its text; undefined: this one takes JSON. */
  readonly readItem?: ((text: string) => Item | undefined) | undefined;
}

/**
 * What became of one request, as a value. No client repeats a request: only its caller knows whether it may be.
 * - `answered`: the service did what was asked. `item`: read by the caller's own way, in place of the body.
 * - `failed`: the service says that it did not, and why; `code` is its exception, without the namespace.
 * - `unsent`: it certainly did not reach the service (no connection, no credentials in time).
 * - `lost`: it may or may not have been applied; `later` resolves should an answer come after all.
 */
export type DynamoAnswer =
  | { readonly kind: "answered"; readonly body: Record<string, unknown>; readonly item?: Item }
  | {
      readonly kind: "failed";
      readonly status: number;
      readonly code: string;
      readonly message: string;
      readonly body: Record<string, unknown>;
    }
  | { readonly kind: "unsent"; readonly cause: unknown }
  | { readonly kind: "lost"; readonly cause: unknown; readonly later?: Promise<DynamoAnswer> };

/** The one way to DynamoDB. A request is JSON text, so that hot ones can be put together from templates. */
export interface DynamoClient {
  send(operation: DynamoOperation, body: string, call: DynamoCall): Promise<DynamoAnswer>;
  close(): Promise<void>;
}

/** Called by a client with every answer: what the `Date` header said, and the stamp taken before the request was sent. */
export type DateListener = (seen: { readonly dateMs: number; readonly sent: unknown }) => void;
