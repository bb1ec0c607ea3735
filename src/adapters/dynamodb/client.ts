import type { Channel, ConsumedCapacityEvent } from "../../ports/events.ts";
import type { Item } from "../../ports/item-store.ts";
import type { Clock } from "../../ports/system.ts";

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
  /** A faster parser for the item of an answer, for clients that have its text; undefined: JSON is used. */
  readonly readItem?: ((text: string) => Item | undefined) | undefined;
}

/**
 * The outcome of one request. No client repeats a request: only its caller knows whether it may be repeated.
 * - `answered`: the service did what was asked. `item`: from `readItem`, in place of the body.
 * - `failed`: the service says that it did not, and why; `code` is its exception, without the namespace.
 * - `unsent`: it certainly did not reach the service (no connection, no credentials in time).
 * - `lost`: it may or may not have been applied; `later` resolves if an answer comes after all.
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

/** A client of DynamoDB. A request is JSON text, so that frequent ones can be built from templates. */
export interface DynamoClient {
  send(operation: DynamoOperation, body: string, call: DynamoCall): Promise<DynamoAnswer>;
  close(): Promise<void>;
}

/** A table, and what calls to it are made with. */
export interface TableAccess {
  readonly client: DynamoClient;
  readonly tableName: string;
  readonly clock: Clock;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
}

/** Called with every answer: the `Date` header, and the stamp taken before the request was sent. */
export type DateListener = (seen: { readonly dateMs: number; readonly sent: unknown }) => void;

/** Operations that can return their cost. */
const TELLING: ReadonlySet<DynamoOperation> = new Set([
  ...(["GetItem", "PutItem", "UpdateItem", "DeleteItem", "BatchGetItem", "BatchWriteItem"] as const),
  ...(["TransactWriteItems", "Query", "Scan"] as const),
]);

/** A client that requests the cost of calls and publishes it while the channel has subscribers. */
export class CapacityClient implements DynamoClient {
  readonly #client: DynamoClient;
  readonly #channel: Channel<ConsumedCapacityEvent>;

  constructor(client: DynamoClient, channel: Channel<ConsumedCapacityEvent>) {
    this.#client = client;
    this.#channel = channel;
  }

  send(operation: DynamoOperation, body: string, call: DynamoCall): Promise<DynamoAnswer> {
    if (!this.#channel.active || !TELLING.has(operation)) return this.#client.send(operation, body, call);
    return this.#asking(operation, body, call);
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #asking(operation: DynamoOperation, body: string, { timeoutMs }: DynamoCall): Promise<DynamoAnswer> {
    // Prepended, because requests are text. `readItem` would skip the cost in the answer.
    const asked = `{"ReturnConsumedCapacity":"TOTAL",${body.slice(1)}`;
    const answer = await this.#client.send(operation, asked, { timeoutMs });
    if (answer.kind === "answered") this.#publish(operation, answer.body.ConsumedCapacity);
    return answer;
  }

  #publish(operation: DynamoOperation, told: unknown): void {
    for (const one of [told ?? []].flat() as readonly ConsumedCapacity[]) {
      if (one.TableName === undefined || one.CapacityUnits === undefined) continue;
      this.#channel.publish({ operation, table: one.TableName, units: one.CapacityUnits });
    }
  }
}

interface ConsumedCapacity {
  readonly TableName?: string;
  readonly CapacityUnits?: number;
}
