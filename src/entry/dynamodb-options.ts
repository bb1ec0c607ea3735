import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import type { SdkClient } from "../adapters/dynamodb/sdk-client.ts";
import { KnownNames } from "../domain/known-names.ts";
import type { Clock } from "../ports/system.ts";

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
  /** Bound on reads and changes outside of requests, in ms. Default 10,000. */
  readonly adminTimeoutMs?: number;
  /** For tests and simulations; used as it is. Default: the system's, kept to the server's time. */
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
}

export interface CreateTableOptions extends DynamoTable {
  /** What the resource index has of an item. Default `KEYS_ONLY`; a table for `sharedTable` needs `ALL`. */
  readonly projection?: "KEYS_ONLY" | "ALL";
  readonly tags?: Readonly<Record<string, string>>;
  /** Default false. */
  readonly deletionProtection?: boolean;
}

const TABLE = { stack: true, region: true, endpoint: true, credentials: true, client: true } as const;

export const DYNAMO_TABLE = new KnownNames<DynamoTable>(TABLE);

export const DYNAMO_STORE = new KnownNames<DynamoStoreOptions>({
  ...TABLE,
  ...{
    sharedTable: true,
    exact: true,
    coalesce: true,
    denyMemoryMs: true,
    timeoutMs: true,
    adminTimeoutMs: true,
    clock: true,
  },
});

export const CREATE_TABLE = new KnownNames<CreateTableOptions>({
  ...TABLE,
  ...{ projection: true, tags: true, deletionProtection: true },
});
