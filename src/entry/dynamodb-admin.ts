import { CapacityClient } from "../adapters/dynamodb/client.ts";
import { failingFast } from "../adapters/dynamodb/retry-policy.ts";
import { type Connection, connect } from "../adapters/dynamodb/store-connect.ts";
import { setUpTable, type TableAdmin } from "../adapters/dynamodb/table-admin.ts";
import { clockFrom, steadyMs, systemClock } from "../adapters/system/clock.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { systemChannel } from "../adapters/system/events.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import type { DynamoStoreOptions, DynamoTable } from "./dynamodb-options.ts";
import { packageVersion } from "./package-version.ts";

const TABLE_TIMEOUT_MS = 120_000;

/** Does something with a table as a whole. */
export async function administered<Answer>(
  options: DynamoTable,
  work: (admin: TableAdmin) => Promise<Answer>,
): Promise<Answer> {
  const { client, clock } = await connectionOf(options, undefined);
  try {
    return await work({
      ...{
        client: failingFast(client),
        clock,
        table: options.stack,
        random: jitter,
        ids: systemRandom,
        version: packageVersion(),
      },
      timeoutMs: TABLE_TIMEOUT_MS,
    });
  } finally {
    await client.close();
  }
}

export async function connectionOf(
  { region, endpoint, credentials, client }: DynamoTable,
  clock: DynamoStoreOptions["clock"],
): Promise<Connection> {
  const given = clock === undefined ? undefined : clockFrom(clock);
  const profile = fromEnvironment("AWS_PROFILE");
  const way = { region, endpoint, credentials, client, given, profile, local: systemClock, steadyMs };
  const connection = await connect(way);
  return { ...connection, client: new CapacityClient(connection.client, systemChannel("consumedCapacity")) };
}

/** Makes a table that others made one of ours, for the provisioner and for `init`. Throws with what it lacks. False: it was one already. */
export function setUpMadeTable(options: DynamoTable): Promise<boolean> {
  return administered(options, (admin) => setUpTable(admin, { needsExpiry: true }));
}
