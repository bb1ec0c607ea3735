import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { LimiterError, NotFoundError, ValidationError, VersionError } from "../../domain/names/errors.ts";
import { Connection, OPEN_WAIT_MS } from "./connection.ts";
import { openingError } from "./faults.ts";
import { ensureDefault } from "./records.ts";

/** "zael": tells our files from those of other programs. */
const APPLICATION_ID = 0x7a61656c;

/**
 * Each entry brings a file from the version of its index to the next; entries are never changed once released.
 *
 * A bucket is one row. `limits` (names and terms, JSON) changes when configuration does; `level` (codec.ts) with every
 * take, in place because its size stays the same. `hour_ms` is the hour whose usage the row still carries.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE generation (one INTEGER PRIMARY KEY CHECK (one = 1), value INTEGER NOT NULL) STRICT;
  INSERT INTO generation VALUES (1, 1);

  CREATE TABLE namespace (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL, deleted_at_ms INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX namespace_name ON namespace (name) WHERE status = 'active';

  CREATE TABLE entity (
    namespace TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, parent_id TEXT, cascade INTEGER NOT NULL,
    metadata TEXT NOT NULL, version INTEGER NOT NULL, created_at_ms INTEGER NOT NULL, updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX entity_parent ON entity (namespace, parent_id, id) WHERE parent_id IS NOT NULL;

  CREATE TABLE config (
    namespace TEXT NOT NULL, entity TEXT NOT NULL, resource TEXT NOT NULL,
    limits TEXT NOT NULL, on_unavailable TEXT, access TEXT, cascade INTEGER,
    PRIMARY KEY (namespace, entity, resource)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX config_resource ON config (namespace, resource, entity);

  CREATE TABLE bucket (
    id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, entity TEXT NOT NULL, resource TEXT NOT NULL,
    hour_ms INTEGER NOT NULL, limits TEXT NOT NULL, level BLOB NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX bucket_key ON bucket (namespace, entity, resource);
  CREATE INDEX bucket_resource ON bucket (namespace, resource, entity);
  CREATE INDEX bucket_hour ON bucket (namespace, hour_ms, entity, resource);

  CREATE TABLE operation (
    namespace TEXT NOT NULL, entity TEXT NOT NULL, resource TEXT NOT NULL, key TEXT NOT NULL,
    at_ms INTEGER NOT NULL, amounts TEXT NOT NULL,
    PRIMARY KEY (namespace, entity, resource, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX operation_at ON operation (namespace, at_ms);

  CREATE TABLE usage (
    namespace TEXT NOT NULL, hour_ms INTEGER NOT NULL, entity TEXT NOT NULL, resource TEXT NOT NULL,
    requests INTEGER NOT NULL, counters TEXT NOT NULL,
    PRIMARY KEY (namespace, hour_ms, entity, resource)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX usage_entity ON usage (namespace, entity, resource, hour_ms);

  CREATE TABLE audit (
    id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, entity_id TEXT NOT NULL, event_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL, action TEXT NOT NULL, resource TEXT, principal TEXT, details TEXT NOT NULL
  ) STRICT;
  CREATE INDEX audit_namespace ON audit (namespace);
  CREATE INDEX audit_entity ON audit (namespace, entity_id);
  `,
  // Owners of what manifests declare; a piece has one owner. `applied` is JSON, null while it is being written.
  `
  CREATE TABLE owner (
    namespace TEXT NOT NULL, owner TEXT NOT NULL, run TEXT NOT NULL, applied_at_ms INTEGER NOT NULL,
    PRIMARY KEY (namespace, owner)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE owned (
    namespace TEXT NOT NULL, piece TEXT NOT NULL, owner TEXT NOT NULL, at_ms INTEGER NOT NULL, applied TEXT,
    PRIMARY KEY (namespace, piece)
  ) STRICT, WITHOUT ROWID;
  `,
  // Leases, and the idempotency keys they were asked with. An open lease is due, a closed one is forgotten some day. `record` is
  // its stored form (domain/lease/stored-lease.ts); what stands in columns is what it is found by.
  `
  CREATE TABLE lease (
    namespace TEXT NOT NULL, id TEXT NOT NULL, entity TEXT NOT NULL, resource TEXT NOT NULL, version INTEGER NOT NULL,
    writer TEXT NOT NULL, due_at_ms INTEGER, forget_at_ms INTEGER, record TEXT NOT NULL,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX lease_due ON lease (namespace, due_at_ms, id) WHERE due_at_ms IS NOT NULL;
  CREATE INDEX lease_forget ON lease (namespace, forget_at_ms) WHERE forget_at_ms IS NOT NULL;

  CREATE TABLE lease_key (
    namespace TEXT NOT NULL, key TEXT NOT NULL, mark TEXT NOT NULL, fingerprint TEXT NOT NULL, answer TEXT,
    until_ms INTEGER NOT NULL, forget_at_ms INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX lease_key_forget ON lease_key (namespace, forget_at_ms);
  `,
  // Plans, and how the limits of a level go with those of others: `inherit` is 1 or null, `applies_to` 'callers' or null. In
  // both tables of configuration the empty resource stands for "any other", and '*' for totals over all resources.
  `
  CREATE TABLE plan (
    namespace TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, metadata TEXT NOT NULL, version INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL, updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE plan_config (
    namespace TEXT NOT NULL, plan TEXT NOT NULL, resource TEXT NOT NULL,
    limits TEXT NOT NULL, inherit INTEGER, applies_to TEXT,
    PRIMARY KEY (namespace, plan, resource)
  ) STRICT, WITHOUT ROWID;

  ALTER TABLE entity ADD COLUMN plan_id TEXT;
  CREATE INDEX entity_plan ON entity (namespace, plan_id, id) WHERE plan_id IS NOT NULL;
  ALTER TABLE config ADD COLUMN inherit INTEGER;
  ALTER TABLE config ADD COLUMN applies_to TEXT;
  `,
  // Refused requests by hour: a row for each process (`writer`) and limit in the way. Sums are made when they are asked for.
  `
  CREATE TABLE refusal (
    namespace TEXT NOT NULL, hour_ms INTEGER NOT NULL, entity TEXT NOT NULL, resource TEXT NOT NULL,
    limit_name TEXT NOT NULL, level TEXT NOT NULL, total INTEGER NOT NULL, writer TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (namespace, hour_ms, entity, resource, limit_name, level, total, writer)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX refusal_entity ON refusal (namespace, entity, hour_ms, resource, limit_name, level, total);
  `,
  // Limits of the scopes of configuration over time (domain/config/config-versions.ts), also those that say nothing any more.
  // `of` is 'entity' (of entities and of defaults: an empty owner stands for "any") or 'plan'; or 'stints': the plans that an
  // entity had over time (domain/config/config-versions.ts).
  `
  CREATE TABLE limit_history (
    namespace TEXT NOT NULL, of TEXT NOT NULL, owner TEXT NOT NULL, resource TEXT NOT NULL, versions TEXT NOT NULL,
    PRIMARY KEY (namespace, of, owner, resource)
  ) STRICT, WITHOUT ROWID;
  `,
  // Nothing is stored in another way, but limits may say more than rates (domain/limits/beyond-rates.ts): releases that would take them for
  // plain ones refuse the file.
  "",
  // Single refusals: a row for each process (`writer`), entity and hour. `log` has their text (domain/charge/refusal-log.ts).
  `
  CREATE TABLE refusal_log (
    namespace TEXT NOT NULL, hour_ms INTEGER NOT NULL, entity TEXT NOT NULL, writer TEXT NOT NULL,
    version INTEGER NOT NULL, log TEXT NOT NULL,
    PRIMARY KEY (namespace, hour_ms, entity, writer)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX refusal_log_entity ON refusal_log (namespace, entity, hour_ms, writer);
  `,
  // Usage of callers that no bucket counts, by hour: a row for each process (`writer`), its counts as JSON.
  `
  CREATE TABLE caller_usage (
    namespace TEXT NOT NULL, hour_ms INTEGER NOT NULL, entity TEXT NOT NULL, resource TEXT NOT NULL, writer TEXT NOT NULL,
    version INTEGER NOT NULL, counts TEXT NOT NULL,
    PRIMARY KEY (namespace, hour_ms, entity, resource, writer)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX caller_usage_entity ON caller_usage (namespace, entity, hour_ms, resource);
  `,
  // What stands in place of limits, and of access, until an instant (domain/config/overrides.ts), as JSON; null: nothing.
  `
  ALTER TABLE config ADD COLUMN override TEXT;
  ALTER TABLE config ADD COLUMN access_override TEXT;
  ALTER TABLE plan_config ADD COLUMN override TEXT;
  `,
  // The reason for which a namespace is frozen, on its system level; empty: none was given, null: it is not frozen.
  "ALTER TABLE config ADD COLUMN frozen TEXT",
];

/** Throws unless the file is empty or ours; before anything is written to it. */
function requireOurs(connection: Connection): void {
  const tables = number(connection, "SELECT count(*) FROM sqlite_schema");
  if (tables === 0 || number(connection, "PRAGMA application_id") === APPLICATION_ID) return;
  throw new ValidationError(
    "store_invalid",
    `${connection.file} is a SQLite database of another program. Name another file; a missing file is created.`,
  );
}

/** Throws where the file would have to be migrated first. */
function requireNewest(connection: Connection): void {
  const version = versionOf(connection);
  if (version === MIGRATIONS.length) return;
  throw new VersionError(
    "schema_older",
    `${connection.file} has schema version ${version}, this version of zae-limiter writes ${MIGRATIONS.length}. ` +
      "Upgrade it with `zae-limiter init`, or open it without `create: false`.",
  );
}

/** Brings the file to the newest version, in one transaction; several processes may try at once. */
function migrate(connection: Connection): void {
  if (versionOf(connection) === MIGRATIONS.length) return;
  connection.exec("BEGIN IMMEDIATE");
  try {
    requireOurs(connection);
    // Read again: another process may have been faster.
    const version = versionOf(connection);
    for (const sql of MIGRATIONS.slice(version)) connection.exec(sql);
    connection.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${MIGRATIONS.length}`);
    connection.commit();
  } catch (error) {
    connection.rollback();
    throw error;
  }
}

function versionOf(connection: Connection): number {
  const version = number(connection, "PRAGMA user_version");
  if (version <= MIGRATIONS.length) return version;
  throw new VersionError(
    "schema_newer",
    `${connection.file} has schema version ${version}, this version of zae-limiter knows ${MIGRATIONS.length}. ` +
      "Upgrade zae-limiter, or name another file.",
  );
}

function number(connection: Connection, sql: string): number {
  return Number(connection.prepare(sql).get()?.[0]);
}

export type Durability = "normal" | "full";

interface ConnectionOptions {
  readonly file: string;
  /** False: a file that is missing or older is an error. Absent: it is made, or brought to the newest version. */
  readonly create?: boolean;
  readonly durability: Durability;
  readonly random: () => number;
  readonly steadyMs: () => number;
}

/** Opens the file. With `create` it is made if missing, and brought to the newest version. */
export function openConnection(options: ConnectionOptions): Connection {
  const { file, create = true, durability } = options;
  if (!create) requireFile(file);
  const database = openDatabase(file);
  try {
    const connection = new Connection(database, options);
    connection.retryWhileBusy(OPEN_WAIT_MS, () => setUp(connection, durability, create));
    if (!create) return connection;
    connection.retryWhileBusy(OPEN_WAIT_MS, () => migrate(connection));
    connection.retryWhileBusy(OPEN_WAIT_MS, () => ensureDefault(connection));
    return connection;
  } catch (error) {
    database.close();
    throw openingError(error, file);
  }
}

function openDatabase(file: string): DatabaseSync {
  const { DatabaseSync: Database } = loadSqlite();
  try {
    makeFolder(dirname(file));
    return new Database(file);
  } catch (error) {
    throw openingError(error, file);
  }
}

/**
 * Makes a folder and those above it, one by one. Node's own recursion never ends where a folder that exists takes none, such as
 * `/proc`: the system answers there that the parent is missing, and Node makes the parent again and again.
 */
function makeFolder(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false }) !== undefined) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process has made it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** Asked for when a file is opened: so the package can be loaded, and its other stores used, where there is no SQLite. */
function loadSqlite(): typeof import("node:sqlite") {
  const sqlite = process.getBuiltinModule?.("node:sqlite");
  if (sqlite !== undefined) return sqlite;
  throw new LimiterError(
    "node_too_old",
    `The SQLite store needs Node 22.13 or later, and this is ${process.version}. Upgrade Node, or use the store "memory", ` +
      '"postgres://..." or "dynamodb:STACK".',
  );
}

/** An empty file is no store either: SQLite would make it one. */
function requireFile(file: string): void {
  const size = statSync(file, { throwIfNoEntry: false })?.size;
  if (size !== undefined && size > 0) return;
  const what = size === undefined ? "There is no store at" : "There is only an empty file at";
  throw new NotFoundError(
    "store_not_found",
    `${what} ${file}; create a store with \`zae-limiter init\`, or open it without \`create: false\`.`,
  );
}

function setUp(connection: Connection, durability: Durability, create: boolean): void {
  connection.exec("PRAGMA busy_timeout = 0");
  // Before the journal mode is set: that writes to the file, and another program's must stay as it is.
  requireOurs(connection);
  if (!create) requireNewest(connection);
  const mode = connection.prepare(create ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode").get()?.[0];
  // A copy that another tool made may have no log. Who only looks leaves it so, and writes without one in the safe way.
  if (mode !== "wal" && !create) return;
  if (mode !== "wal") {
    throw new ValidationError(
      "store_invalid",
      `${connection.file} cannot keep a write-ahead log (journal mode ${String(mode)}). ` +
        'Name a file on a local disk, or use the store "memory".',
    );
  }
  connection.exec(`PRAGMA synchronous = ${durability === "full" ? "FULL" : "NORMAL"}`);
}
