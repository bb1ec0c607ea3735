import { randomBytes } from "node:crypto";
import pg from "pg";
import { describeOn } from "../engines/describe-on.ts";
import { hasBinaries, startPostgres } from "./postgres-process.ts";

// The PostgreSQL that suites run against: Debian's, started by `npm test` for all files, of which each has a database of its own; or, for
// a file that runs by itself, with that file in a folder of its own, and gone with it. ZAEL_TEST_POSTGRES_URL=postgres://... names
// another one, in which suites make schemas of their own. Where none can be had, suites are skipped and say so; with
// ZAEL_REQUIRE_POSTGRES=1 that is a failure.

/** A server for tests. */
export interface TestPostgres {
  readonly url: string;
  /** The name of a schema that nobody has used. */
  newSchema(): string;
}

/** A suite on a real PostgreSQL. To be awaited, at the top of a file. */
export async function describePostgres(name: string, define: (postgres: TestPostgres) => void): Promise<void> {
  describeOn("postgres", name, await postgresOrReason(), define);
}

/** A suite on servers that it starts itself, with settings of its own: one that is killed, or made as it is in production. */
export async function describeServers(name: string, define: (start: typeof startPostgres) => void): Promise<void> {
  const found = hasBinaries() ? { start: startPostgres } : "PostgreSQL is not installed.";
  describeOn("postgres", name, found, ({ start }) => define(start));
}

let postgres: Promise<TestPostgres | string> | undefined;

/** The one of this process, or why there is none. */
export function postgresOrReason(): Promise<TestPostgres | string> {
  postgres ??= startedOrReason();
  return postgres;
}

async function startedOrReason(): Promise<TestPostgres | string> {
  try {
    const { ZAEL_TEST_POSTGRES_URL: given, ZAEL_TEST_POSTGRES_SERVER: server } = process.env;
    const url = given || (server ? await newDatabase(server) : await startTestServer());
    return { url, newSchema };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/**
 * Starts a server for test files, which ends with this process; its address. Its housekeeping is off: statistics that it gathers on a busy
 * machine hold a snapshot for long, and old rows stay on their page meanwhile. Suites about housekeeping start servers of their own.
 */
export async function startTestServer(): Promise<string> {
  return (await startPostgres(["fsync=off", "autovacuum=off", "max_connections=200"])).url;
}

/** Of its own for each file: a transaction that one keeps open would keep the others' old rows from being cleared away. */
async function newDatabase(server: string): Promise<string> {
  const name = newSchema();
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  return Object.assign(new URL(server), { pathname: name }).href;
}

export function newSchema(): string {
  return `test_${process.pid}_${randomBytes(6).toString("hex")}`;
}
