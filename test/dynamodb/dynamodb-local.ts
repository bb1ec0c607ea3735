import { randomBytes } from "node:crypto";
import type { DynamoClient } from "../../src/adapters/dynamodb/client.ts";
import { createTable } from "../../src/adapters/dynamodb/table.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { describeOn } from "../engines/describe-on.ts";
import { fetchedDynamodbLocal } from "./dynamodb-local-download.ts";
import { startDynamodbLocal } from "./dynamodb-local-process.ts";
import { PlainClient } from "./plain-client.ts";

// The DynamoDB that suites run against: DynamoDB Local, fetched with Maven once and kept outside of the repository, started
// with the test file and gone with it. ZAEL_TEST_ENDPOINT=http://... names another one. Where none can be had, suites are
// skipped and say so; with ZAEL_REQUIRE_DYNAMODB=1 that is a failure.

/** A DynamoDB for tests. */
export interface DynamodbLocal {
  readonly endpoint: string;
  readonly client: DynamoClient;
  /** A new table of its own; its name. */
  newTable(options: LocalTable): Promise<string>;
}

export interface LocalTable {
  readonly gsi2Projection: "KEYS_ONLY" | "ALL";
  /** Whether items go when their `ttl` has passed. */
  readonly expiry: boolean;
  /** Whether it has a stream. Default false: DynamoDB Local gets slower with every record that it keeps for a day. */
  readonly stream?: boolean;
}

/** A suite on a real DynamoDB. To be awaited, at the top of a file. */
export async function describeDynamo(name: string, define: (dynamodb: DynamodbLocal) => void): Promise<void> {
  describeOn("dynamodb", name, await dynamodbLocalOrReason(), define);
}

let dynamodb: Promise<DynamodbLocal | string> | undefined;

/** The one of this process, or why there is none. */
export function dynamodbLocalOrReason(): Promise<DynamodbLocal | string> {
  dynamodb ??= startedOrReason();
  return dynamodb;
}

async function startedOrReason(): Promise<DynamodbLocal | string> {
  try {
    const { ZAEL_TEST_ENDPOINT: given } = process.env;
    return dynamodbLocalAt(given || (await startDynamodbLocal(await fetchedDynamodbLocal())));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function dynamodbLocalAt(endpoint: string): DynamodbLocal {
  const client = new PlainClient(endpoint);
  const newTable = async ({ gsi2Projection, expiry, stream = false }: LocalTable): Promise<string> => {
    const name = `test-${process.pid}-${randomBytes(6).toString("hex")}`;
    const options = { name, gsi2Projection, expiry, tags: {}, deletionProtection: false };
    await createTable(options, {
      client: stream ? client : withoutStreams(client),
      clock: systemClock,
      timeoutMs: 30_000,
    });
    return name;
  };
  return { endpoint, client, newTable };
}

function withoutStreams(client: DynamoClient): DynamoClient {
  return {
    send: (operation, body, call) => {
      const { StreamSpecification: _, ...input } = JSON.parse(body) as Record<string, unknown>;
      return client.send(operation, JSON.stringify(input), call);
    },
    close: () => client.close(),
  };
}
