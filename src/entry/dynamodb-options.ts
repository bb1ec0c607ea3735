import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import type { SdkClient } from "../adapters/dynamodb/sdk-client.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import type { Clock } from "../ports/system.ts";

/** Which table, and how to reach it. */
export interface DynamoTable {
  /** The name of the stack. Its table has the same name. */
  readonly stack: string;
  /** The AWS region. Default: as the AWS SDK finds it. */
  readonly region?: string;
  /** Another address, such as `http://localhost:8000` for DynamoDB Local. Default: the address of the region. */
  readonly endpoint?: string;
  /** The credentials, or a function that fetches them. Default: the provider chain of the AWS SDK. */
  readonly credentials?: Credentials | CredentialsProvider;
  /**
   * A `DynamoDBClient` to send requests with, at several times the CPU. Its retries are not used. Default: the
   * transport of this package.
   */
  readonly client?: SdkClient;
}

/** Which table, how to reach it, and how buckets are kept in it. */
export interface DynamoStoreOptions extends DynamoTable {
  /** Whether the Python original writes to this table too. Without it such a table is refused. Default: `false`. */
  readonly sharedTable?: boolean;
  /** Whether a full bucket is counted without tolerance, at the price of more writes. Default: `false`. */
  readonly exact?: boolean;
  /** Whether requests that are under way at the same time share one write. Default: `true`. */
  readonly coalesce?: boolean;
  /** How long a bucket that held too little is taken to hold too little, in ms; 0 = never. Default: 1,000. */
  readonly denyMemoryMs?: number;
  /** How long reading limits may take, in ms. Default: 1,000. */
  readonly timeoutMs?: number;
  /** How long reads and changes outside of requests may take, in ms. Default: 10,000. */
  readonly adminTimeoutMs?: number;
  /** A clock for tests and simulations, used as it is. Default: the system clock, corrected to the server's time. */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
}

/** Which table to make, and how. */
export interface CreateTableOptions extends DynamoTable {
  /** How much of an item the resource index has. A table for `sharedTable` needs `"ALL"`. Default: `"KEYS_ONLY"`. */
  readonly projection?: "KEYS_ONLY" | "ALL";
  /** Tags of the table. Default: none. */
  readonly tags?: Readonly<Record<string, string>>;
  /** Whether AWS refuses to delete the table. Default: `false`. */
  readonly deletionProtection?: boolean;
}

const TABLE = { stack: true, region: true, endpoint: true, credentials: true, client: true } as const;

export const DYNAMO_TABLE = new KnownNames<DynamoTable>(TABLE);

export const DYNAMO_STORE = new KnownNames<DynamoStoreOptions>({
  ...TABLE,
  ...{ sharedTable: true, exact: true, coalesce: true, denyMemoryMs: true, timeoutMs: true, adminTimeoutMs: true },
  clock: true,
});

export const CREATE_TABLE = new KnownNames<CreateTableOptions>({
  ...TABLE,
  ...{ projection: true, tags: true, deletionProtection: true },
});
