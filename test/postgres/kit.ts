import pg from "pg";
import { PostgresBatches } from "../../src/adapters/postgres/batches.ts";
import { Connection } from "../../src/adapters/postgres/connection.ts";
import { migrate } from "../../src/adapters/postgres/migrations.ts";
import { OwnPool } from "../../src/adapters/postgres/sessions.ts";
import { realWaiting } from "../straight/same-as-memory.ts";

/** A new schema on a server, with the namespace `default` at generation 1. */
export async function openSchema(
  url: string,
  schema: string,
  { poolMax, timeoutMs }: { readonly poolMax: number; readonly timeoutMs: number },
): Promise<Connection> {
  const session = new OwnPool(new pg.Pool({ connectionString: url, max: poolMax }), poolMax).session("takes");
  const connection = new Connection({
    name: "test",
    schema,
    takes: session,
    others: session,
    adminTimeoutMs: timeoutMs,
  });
  await migrate(connection);
  await connection.query("INSERT INTO @.generation VALUES ('default', 1) ON CONFLICT DO NOTHING", []);
  return connection;
}

export function batchesOn(connection: Connection): PostgresBatches {
  return new PostgresBatches({ connection, durability: "full", clock: undefined, steadyMs: realWaiting.steadyMs });
}
