import { readFileSync } from "node:fs";
import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import type { SdkClient } from "../adapters/dynamodb/sdk-client.ts";
import { openDynamo as openWith } from "../adapters/dynamodb/store.ts";
import { type Connection, connect } from "../adapters/dynamodb/store-connect.ts";
import {
  createTable as createWith,
  deleteTable as deleteWith,
  prepareTable as prepareWith,
  type TableAdmin,
} from "../adapters/dynamodb/table-admin.ts";
import { clockFrom, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import type { Store } from "../ports/store.ts";
import type { Clock } from "../ports/system.ts";
import { calendar } from "./limits.ts";

export type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";

/** Which table, and the way there. */
export interface DynamoTable {
  /** The name of the stack, which is the name of its table. */
  readonly stack: string;
  /** Default: as the AWS SDK finds it. */
  readonly region?: string;
  /** An address to use instead of the region's, such as `http://localhost:8000` for DynamoDB Local. */
  readonly endpoint?: string;
  /** Default: the AWS SDK's chain. */
  readonly credentials?: Credentials | CredentialsProvider;
  /** A `DynamoDBClient` to use instead of our transport, at several times the CPU. Its retries are not used. */
  readonly client?: SdkClient;
}

/** Which table, the way there, and how buckets are kept in it. */
export interface DynamoStoreOptions extends DynamoTable {
  /** The original writes to this table too. Default false: such a table is refused. */
  readonly sharedTable?: boolean;
  /** No tolerance at a full bucket: more writes, and not a millitoken is held back. Default false. */
  readonly exact?: boolean;
  /** Join claims under way together into one write. Default true. */
  readonly coalesce?: boolean;
  /** How long a bucket seen to have too little is believed, in ms; 0 = never. Default 1,000. */
  readonly denyMemoryMs?: number;
  /** Bound on reading configuration, in ms. Default 1,000. */
  readonly timeoutMs?: number;
  /** For tests and simulations; used as it is. Default: the system's, kept to the server's time. */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
}

/** A store on a table. */
export interface DynamoStore extends Store {
  /** The clock of its buckets; a limiter on this store must use it too. */
  readonly clock: Clock;
}

/**
 * A store on a table that is there, for `RateLimiter.open({ store })`.
 *
 * ```ts
 * const store = await openDynamo({ stack: "limits", region: "eu-west-1" });
 * ```
 */
export async function openDynamo(options: DynamoStoreOptions): Promise<DynamoStore> {
  const connection = await connectionOf(options, options.clock);
  const { exact = false, coalesce = true, sharedTable = false, denyMemoryMs = 1_000, timeoutMs = 1_000 } = options;
  try {
    const store = await openWith({
      ...{ ...connection, table: options.stack, calendar, random: jitter, ids: systemRandom },
      ...{ exact, coalesce, denyMemoryMs, timeoutMs, shared: sharedTable, adminTimeoutMs: ADMIN_TIMEOUT_MS },
    });
    return Object.assign(store, { clock: connection.clock });
  } catch (error) {
    await connection.client.close();
    throw error;
  }
}

/** Which table, and what it is made with. */
export interface CreateTableOptions extends DynamoTable {
  /** What the resource index has of an item. Default `KEYS_ONLY`; a table for `sharedTable` needs `ALL`. */
  readonly projection?: "KEYS_ONLY" | "ALL";
  /** Default: none. */
  readonly tags?: Readonly<Record<string, string>>;
  /** Default false. */
  readonly deletionProtection?: boolean;
}

/** Makes the bare table, waits until it can be used, and registers the namespace `default`: for DynamoDB Local and tests. */
export async function createTable(options: CreateTableOptions): Promise<void> {
  const { projection = "KEYS_ONLY", tags = {}, deletionProtection = false } = options;
  await administered(options, (admin) => createWith(admin, { projection, tags, deletionProtection, expiry: true }));
}

/** Sets up a table that was made by other means; what is set up already stays as it is. */
export async function prepareTable(options: DynamoTable): Promise<void> {
  await administered(options, prepareWith);
}

/** Deletes the table with all that is in it; false where there was none. */
export function deleteTable(options: DynamoTable): Promise<boolean> {
  return administered(options, deleteWith);
}

const ADMIN_TIMEOUT_MS = 10_000;
const TABLE_TIMEOUT_MS = 120_000;

async function administered<Answer>(
  options: DynamoTable,
  work: (admin: TableAdmin) => Promise<Answer>,
): Promise<Answer> {
  const { client, clock } = await connectionOf(options, undefined);
  try {
    return await work({
      ...{ client, clock, table: options.stack, random: jitter, ids: systemRandom, version: packageVersion() },
      timeoutMs: TABLE_TIMEOUT_MS,
    });
  } finally {
    await client.close();
  }
}

function connectionOf(
  { region, endpoint, credentials, client }: DynamoTable,
  clock: DynamoStoreOptions["clock"],
): Promise<Connection> {
  const given = clock === undefined ? undefined : clockFrom(clock);
  return connect({ region, endpoint, credentials, client, given, local: systemClock, steadyMs });
}

/** The same two folders up, built or not. */
function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
