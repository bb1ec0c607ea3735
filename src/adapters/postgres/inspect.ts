import type { Connection, Row } from "./connection.ts";
import { executedBy, readByAcquire } from "./schema.ts";
import type { CallingRole } from "./schema-part.ts";

/** A server and a schema as they are found, for `doctor`. */
export interface SchemaInspection {
  /** Such as `15.18`. */
  readonly serverVersion: string;
  /** It replays another server's log, and takes no writes. */
  readonly isStandby: boolean;
  /** Transactions begin with this level; takes need `read committed`. */
  readonly isolation: string;
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  /** A commit waits for this unless it says otherwise; takes wait for `local` at least. */
  readonly synchronousCommit: string;
  /** A take of `durability: "normal"` may be lost within this time. */
  readonly lossMaxMs: number;
  readonly synchronousStandbyNames: string;
  readonly standbys: readonly { readonly name: string; readonly state: string }[];
  /** The oldest transaction, if it is old. */
  readonly oldest: OldTransaction | undefined;
  /** Sessions of other users, of which this one may not see since when they have a transaction open. */
  readonly hiddenSessions: number;
  /** The rows of the table of buckets; undefined: there is none, or nothing was counted yet. */
  readonly rows: { readonly live: number; readonly dead: number } | undefined;
  /** This user may open so many more. */
  readonly connectionsLeft: number;
  readonly connectionsMax: number;
  readonly isEncrypted: boolean;
  readonly user: string;
  /** The schema is there, and has tables of ours. */
  readonly hasTables: boolean;
  readonly rights: UserRights;
}

interface OldTransaction {
  readonly pid: number;
  readonly user: string;
  readonly application: string;
  readonly state: string;
  readonly ageMs: number;
}

/** The rights of the user in the schema. */
interface UserRights {
  /** The widest role of which it has something that narrower ones have not. `owner` also makes and upgrades tables. */
  readonly role: "owner" | "admin" | "acquire" | "read";
  /** The rights of that role that the user lacks, each as `EXECUTE take_2(json)` or `SELECT meta`. */
  readonly lacks: readonly string[];
}

/**
 * Looks at what a limiter depends on. Reads only, and needs no right besides that to connect. A transaction is told of once it is open
 * for longer than `oldAfterMs`.
 */
export async function inspectSchema(connection: Connection, oldAfterMs: number): Promise<SchemaInspection> {
  const [server] = await connection.queryAgain(SERVER, [], "always");
  const [oldest] = await connection.queryAgain(OLDEST, [oldAfterMs], "always");
  const standbys = await connection.queryAgain(STANDBYS, [], "always");
  const [rows] = await connection.queryAgain(ROWS, [connection.schema], "always");
  const found = server as Row;
  return {
    serverVersion: String(found.version),
    isStandby: found.standby === true,
    isolation: String(found.isolation),
    fsync: found.fsync === "on",
    fullPageWrites: found.full_page_writes === "on",
    synchronousCommit: String(found.synchronous_commit),
    lossMaxMs: 3 * Number(found.wal_writer_delay_ms),
    synchronousStandbyNames: String(found.standby_names),
    standbys: standbys.map(({ name, state }) => ({ name: String(name), state: String(state) })),
    oldest: oldest === undefined ? undefined : transactionOf(oldest),
    hiddenSessions: Number(found.hidden_sessions),
    rows: rows === undefined ? undefined : { live: Number(rows.live), dead: Number(rows.dead) },
    connectionsLeft: Math.max(0, Number(found.connections_left)),
    connectionsMax: Number(found.connections_max),
    isEncrypted: found.encrypted === true,
    user: String(found.user_name),
    ...(await rightsIn(connection)),
  };
}

/** The clock of the server, in ms. */
export async function serverNow(connection: Connection): Promise<number> {
  const text = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::text AS ms";
  const [row] = await connection.queryAgain(text, [], "always");
  return Number(row?.ms);
}

/** The schemas of the same database that have tables of ours. */
export async function schemasOfOurs(connection: Connection): Promise<readonly string[]> {
  const text = `SELECT n.nspname AS name FROM pg_catalog.pg_namespace n
    WHERE (SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname IN ('meta', 'lane', 'bucket', 'lease_key')) = 4
    ORDER BY 1 LIMIT 100`;
  return (await connection.queryAgain(text, [], "always")).map(({ name }) => String(name));
}

function transactionOf(row: Row): OldTransaction {
  const { pid, user_name: user, application, state, age_ms: ageMs } = row;
  return {
    ...{ pid: Number(pid), user: String(user), application: String(application), state: String(state) },
    ageMs: Number(ageMs),
  };
}

async function rightsIn(connection: Connection): Promise<Pick<SchemaInspection, "hasTables" | "rights">> {
  const [row] = await connection.queryAgain(RIGHTS, [connection.schema], "always");
  const { tables, readable, callable, usage, owner } = row as Row & {
    readonly [Name in "tables" | "readable" | "callable"]: readonly string[];
  } & { readonly [Name in "usage" | "owner"]: boolean };
  const hasTables = tables.includes("meta");
  if (owner) return { hasTables, rights: { role: "owner", lacks: [] } };
  const callsAny = (role: CallingRole) => executedBy(role, "own").some((name) => callable.includes(name));
  const role = callsAny("admin") ? "admin" : callsAny("acquire") ? "acquire" : "read";
  const read = role === "acquire" ? readByAcquire() : tables;
  const lacks = [
    ...(usage ? [] : [`USAGE ON SCHEMA ${connection.schema}`]),
    ...read.filter((table) => !readable.includes(table)).map((table) => `SELECT ${table}`),
    ...executedBy(role)
      .filter((name) => !callable.includes(name))
      .map((name) => `EXECUTE ${name}`),
  ];
  return { hasTables, rights: { role, lacks } };
}

const SERVER = `SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS standby,
  current_setting('transaction_isolation') AS isolation, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes, current_setting('synchronous_commit') AS synchronous_commit,
  (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_writer_delay') AS wal_writer_delay_ms,
  current_setting('synchronous_standby_names') AS standby_names, current_user AS user_name,
  (SELECT count(*)::int FROM pg_catalog.pg_stat_activity
    WHERE datname = current_database() AND query = '<insufficient privilege>') AS hidden_sessions,
  least(of_server.most - of_server.used, of_database.most - of_database.used, of_user.most - of_user.used) AS connections_left,
  of_server.most AS connections_max,
  coalesce((SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted
  FROM
    (SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true)::int, 0) AS most,
       (SELECT count(*)::int FROM pg_catalog.pg_stat_activity WHERE datname IS NOT NULL) AS used) of_server,
    (SELECT nullif(datconnlimit, -1) AS most,
       (SELECT count(*)::int FROM pg_catalog.pg_stat_activity WHERE datname = current_database()) AS used
     FROM pg_catalog.pg_database WHERE datname = current_database()) of_database,
    (SELECT nullif(rolconnlimit, -1) AS most,
       (SELECT count(*)::int FROM pg_catalog.pg_stat_activity WHERE usename = session_user) AS used
     FROM pg_catalog.pg_roles WHERE rolname = session_user) of_user`;

/** The state of another user's session is not shown to everybody: then there is no time in it either. */
const OLDEST = `SELECT pid, coalesce(usename, '') AS user_name, coalesce(application_name, '') AS application,
  coalesce(state, '') AS state, floor(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::text AS age_ms
  FROM pg_catalog.pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < clock_timestamp() - $1::bigint * interval '1 ms'
  ORDER BY xact_start LIMIT 1`;

const STANDBYS = `SELECT application_name AS name, coalesce(sync_state, '') AS state FROM pg_catalog.pg_stat_replication ORDER BY 1`;

const ROWS = `SELECT n_live_tup::text AS live, n_dead_tup::text AS dead FROM pg_catalog.pg_stat_all_tables
  WHERE schemaname = $1 AND relname = 'bucket'`;

/** From the catalogs, which everybody may read: to name a table of a schema without USAGE on it is an error by itself. */
const RIGHTS = `SELECT coalesce(has_schema_privilege(n.oid, 'USAGE'), false) AS usage,
  coalesce(pg_has_role(n.nspowner, 'USAGE'), false) AS owner,
  ARRAY(SELECT c.relname::text FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'v')
    ORDER BY 1) AS tables,
  ARRAY(SELECT c.relname::text FROM pg_catalog.pg_class c
    WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'v') AND has_table_privilege(c.oid, 'SELECT')) AS readable,
  ARRAY(SELECT p.proname || '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')' FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = n.oid AND has_function_privilege(p.oid, 'EXECUTE')) AS callable
  FROM (SELECT $1::text AS name) asked LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = asked.name`;
