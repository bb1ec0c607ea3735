import { Connection, type PostgresClient } from "../../src/adapters/postgres/connection.ts";
import { migrate } from "../../src/adapters/postgres/migrations.ts";
import { PostgresRecords } from "../../src/adapters/postgres/records.ts";

/** A connection of the store on a client of the test's, without a timer: what hangs is ended by the test runner. */
export function connectionOn(client: PostgresClient, schema: string): Connection {
  const session = {
    run: async (text: string, values: readonly unknown[]) =>
      (await client.query(text, values as unknown[])).rows as Readonly<Record<string, unknown>>[],
    close: async () => {},
  };
  return new Connection({ name: "postgres://test", schema, takes: session, others: session, adminTimeoutMs: 30_000 });
}

export const WAIT_MS = 20_000;

/** Records in a new schema. */
export async function recordsOn(client: PostgresClient, schema: string): Promise<PostgresRecords> {
  const connection = connectionOn(client, schema);
  await migrate(connection);
  return new PostgresRecords(connection, WAIT_MS);
}

/** Empties every table but the one that says what the schema is: quicker than making them anew, or TRUNCATE, for every story. */
export async function emptied(client: PostgresClient, schema: string): Promise<void> {
  const { rows } = await client.query(
    "SELECT string_agg(format('DELETE FROM %I.%I;', schemaname, tablename), ' ') AS texts FROM pg_tables WHERE schemaname = $1 AND tablename <> 'meta'",
    [schema],
  );
  await client.query(`DO $$ BEGIN ${(rows as readonly { readonly texts: string }[])[0]?.texts} END $$`);
}
