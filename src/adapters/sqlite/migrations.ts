import { ValidationError, VersionError } from "../../domain/names/errors.ts";
import type { Connection } from "./connection.ts";

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
  // Who owns what by declaring it in a manifest; a piece has one owner. `applied` is JSON, null while it is being written.
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
  // What the scopes of configuration said of limits over time (domain/config/config-versions.ts), also those that say nothing any more.
  // `of` is 'entity' (of entities and of defaults: an empty owner stands for "any") or 'plan'; or 'stints': the plans that an
  // entity had over time (domain/config/plan-stints.ts).
  `
  CREATE TABLE limit_history (
    namespace TEXT NOT NULL, of TEXT NOT NULL, owner TEXT NOT NULL, resource TEXT NOT NULL, versions TEXT NOT NULL,
    PRIMARY KEY (namespace, of, owner, resource)
  ) STRICT, WITHOUT ROWID;
  `,
  // Nothing is stored in another way, but limits may say more than rates (domain/limits/beyond-rates.ts): releases that would take them for
  // plain ones refuse the file.
  "",
];

/** Throws unless the file is empty or ours; before anything is written to it. */
export function requireOurs(connection: Connection): void {
  const tables = number(connection, "SELECT count(*) FROM sqlite_schema");
  if (tables === 0 || number(connection, "PRAGMA application_id") === APPLICATION_ID) return;
  throw new ValidationError(
    "store_invalid",
    `${connection.file} is a SQLite database of another program. Name another file; a missing file is created.`,
  );
}

/** Throws where the file would have to be migrated first. */
export function requireNewest(connection: Connection): void {
  const version = versionOf(connection);
  if (version === MIGRATIONS.length) return;
  throw new VersionError(
    "schema_older",
    `${connection.file} has schema version ${version}, this version of zae-limiter writes ${MIGRATIONS.length}. ` +
      "Upgrade it with `zae-limiter init`, or open it without `create: false`.",
  );
}

/** Brings the file to the newest version, in one transaction; several processes may try at once. */
export function migrate(connection: Connection): void {
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
