import { addressOf, nameOf } from "../adapters/postgres/address.ts";
import { Connection } from "../adapters/postgres/connection.ts";
import { inspectSchema, type SchemaInspection, schemasOfOurs, serverNow } from "../adapters/postgres/inspect.ts";
import { schemaVersion } from "../adapters/postgres/migrations.ts";
import { openPool } from "../adapters/postgres/sessions.ts";
import { aheadOf, isLocalHost } from "./server-store.ts";

export { grants, quoted } from "../adapters/postgres/migrations.ts";

/** Which server and schema, and how long a statement may take. */
export interface AskedSchema {
  readonly url: string;
  readonly timeoutMs: number;
}

/** A server as `doctor` sees it. */
export interface PostgresInspection extends SchemaInspection {
  /** How far the clock of this machine is ahead of the server's, in ms; to half a round trip. */
  readonly aheadMs: number;
  /** The server is on this machine, as far as its address tells. */
  readonly isLocal: boolean;
  /** The certificate of the server is looked at. */
  readonly isVerified: boolean;
}

/** The version of the tables; undefined: there are none. Makes and changes nothing. */
export function schemaVersionOf(asked: AskedSchema): Promise<number | undefined> {
  return asking(asked, schemaVersion);
}

/** The schemas of that database which have tables of ours. */
export function schemasBeside(asked: AskedSchema): Promise<readonly string[]> {
  return asking(asked, schemasOfOurs);
}

/** For so long no statement of a limiter takes, and most of a program's do not either. */
const OLD_TRANSACTION_MS = 60_000;

/** What a limiter depends on, as it is found there. Makes and changes nothing. */
export function inspectPostgres(asked: AskedSchema): Promise<PostgresInspection> {
  return asking(asked, async (connection) => {
    const found = await inspectSchema(connection, OLD_TRANSACTION_MS);
    // The connection is there by now, so that this is one trip.
    const aheadMs = await aheadOf(() => serverNow(connection));
    const { host, ssl } = addressOf(asked.url);
    return { ...found, aheadMs, isLocal: isLocalHost(host), isVerified: ssl.startsWith("verify-") };
  });
}

async function asking<Answer>(
  { url, timeoutMs }: AskedSchema,
  work: (connection: Connection) => Promise<Answer>,
): Promise<Answer> {
  const address = addressOf(url);
  const session = (await openPool(address, { poolMax: 1, poolIdleMs: timeoutMs, timeoutMs })).session("others");
  const about = { name: nameOf(address), schema: address.schema, adminTimeoutMs: timeoutMs };
  const connection = new Connection({ ...about, takes: session, others: session });
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}
