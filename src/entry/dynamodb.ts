import { inspectTable as inspectWith, type TableInspection, tableNames } from "../adapters/dynamodb/inspect-table.ts";
import { openDynamo as openWith } from "../adapters/dynamodb/store.ts";
import {
  createTable as createWith,
  deleteTable as deleteWith,
  setUpTable as setUpWith,
} from "../adapters/dynamodb/table-admin.ts";
import { settle, systemClock } from "../adapters/system/clock.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { administered, connectionOf } from "./dynamodb-admin.ts";
import {
  CREATE_TABLE,
  type CreateTableOptions,
  DYNAMO_STORE,
  DYNAMO_TABLE,
  type DynamoStoreOptions,
  type DynamoTable,
} from "./dynamodb-options.ts";
import { calendar } from "./limits.ts";

export type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
export type { TableInspection } from "../adapters/dynamodb/inspect-table.ts";
export type { CreateTableOptions, DynamoStoreOptions, DynamoTable } from "./dynamodb-options.ts";

/** A store on a DynamoDB table. */
export interface DynamoStore extends Store {
  /** The clock of its buckets. A limiter on this store uses it too. */
  readonly clock: Clock;
}

/**
 * Opens a store on a table that exists, for `RateLimiter.open({ store })`.
 *
 * ```ts
 * const store = await openDynamo({ stack: "limits", region: "eu-west-1" });
 * ```
 */
export async function openDynamo(options: DynamoStoreOptions): Promise<DynamoStore> {
  DYNAMO_STORE.check(options, "The options of openDynamo");
  const connection = await connectionOf(options, options.clock);
  const { exact = false, coalesce = true, sharedTable = false, denyMemoryMs = 1_000, timeoutMs = 1_000 } = options;
  const { adminTimeoutMs = ADMIN_TIMEOUT_MS } = options;
  try {
    const store = await openWith({
      ...{ ...connection, table: options.stack, calendar, random: jitter, ids: systemRandom },
      ...{ exact, coalesce, denyMemoryMs, timeoutMs, shared: sharedTable, adminTimeoutMs, settle },
    });
    return Object.assign(store, { clock: connection.clock });
  } catch (error) {
    await connection.client.close();
    throw error;
  }
}

/**
 * Makes the bare table, waits until it is active, and registers the namespace `default`. For DynamoDB Local and tests;
 * `zae-limiter deploy` makes a whole stack.
 */
export async function createTable(options: CreateTableOptions): Promise<void> {
  CREATE_TABLE.check(options, "The options of createTable");
  const { projection = "KEYS_ONLY", tags = {}, deletionProtection = false } = options;
  await administered(options, (admin) => createWith(admin, { projection, tags, deletionProtection, expiry: true }));
}

/**
 * Sets up a table that was made by other means, such as Terraform. It leaves alone what is set up already. A table
 * without the keys and indexes of a limiter is refused with a list of what it lacks.
 */
export async function prepareTable(options: DynamoTable): Promise<void> {
  DYNAMO_TABLE.check(options, "The options of prepareTable");
  await administered(options, (admin) => setUpWith(admin, { needsExpiry: false }));
}

/** Deletes the table with all its data. Answers false if there was none. */
export async function deleteTable(options: DynamoTable): Promise<boolean> {
  DYNAMO_TABLE.check(options, "The options of deleteTable");
  return administered(options, deleteWith);
}

/**
 * Reads the schema of a table, the rights that are missing, and how far the clock of this machine is off. Changes
 * nothing.
 */
export async function inspectTable(
  options: DynamoTable & { readonly namespaceId: string; readonly timeoutMs: number },
): Promise<TableInspection> {
  const { namespaceId, timeoutMs, ...table } = options;
  DYNAMO_TABLE.check(table, "The options of inspectTable");
  const { client, clock } = await connectionOf(table, undefined);
  try {
    return await inspectWith({ client, clock, local: systemClock, table: table.stack, namespaceId, timeoutMs });
  } finally {
    await client.close();
  }
}

/** Names of all tables in a region or at an endpoint; an empty list if the right to list them is missing. */
export async function listTables(
  options: Omit<DynamoTable, "stack"> & { readonly timeoutMs: number },
): Promise<readonly string[]> {
  const { client } = await connectionOf({ ...options, stack: "" }, undefined);
  try {
    return await tableNames(client, options.timeoutMs);
  } finally {
    await client.close();
  }
}

const ADMIN_TIMEOUT_MS = 10_000;
