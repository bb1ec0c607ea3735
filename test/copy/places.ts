import { prepareTable } from "../../src/entry/dynamodb.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import type { DynamodbLocal } from "../dynamodb/dynamodb-local.ts";
import { newSchema, type TestPostgres } from "../postgres/postgres.ts";
import { closedAfter, type OpenPlace } from "./kit.ts";

/** A schema of its own. */
export function postgresPlace({ url }: TestPostgres): OpenPlace {
  return (t) => {
    const schema = newSchema();
    const address = new URL(url);
    address.searchParams.set("schema", schema);
    return closedAfter(t, (clock, options) =>
      RateLimiter.open({
        ...options,
        store: address.href,
        clock,
        poolMax: 2,
        adminTimeoutMs: 60_000,
        timeoutMs: 10_000,
      }),
    );
  };
}

/** A table of its own. */
export function dynamoPlace({ endpoint, newTable, client }: DynamodbLocal): OpenPlace {
  return async (t) => {
    // The stories are told in the past: a table that removes what has expired would remove what they are about.
    const stack = await newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    t.after(() => client.send("DeleteTable", JSON.stringify({ TableName: stack }), { timeoutMs: 10_000 }));
    const credentials = { accessKeyId: "test", secretAccessKey: "test" };
    const way = { endpoint, region: "eu-west-1", credentials };
    await prepareTable({ stack, ...way });
    return closedAfter(t, (clock, options) =>
      RateLimiter.open({
        ...{ exact: true, configTtlMs: 0, denyMemoryMs: 0, timeoutMs: 10_000, adminTimeoutMs: 30_000 },
        ...{ ...options, ...way, store: `dynamodb:${stack}`, clock },
      }),
    );
  };
}
