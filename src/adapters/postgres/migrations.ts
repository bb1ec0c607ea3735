import { LimiterError, NotFoundError, ValidationError, VersionError } from "../../domain/names/errors.ts";
import { type Connection, inSchema, type Row } from "./connection.ts";
import { executedBy, type GrantedRoles, LEAST_CLIENT, readByAcquire, SCHEMA_PARTS, SCHEMA_VERSION } from "./schema.ts";
import type { CallingRole } from "./schema-part.ts";

/** A schema as it describes itself; version 0: it has no tables of ours. */
interface Found {
  readonly version: number;
  readonly leastClient: number;
  /** Tables in it that are not ours. */
  readonly strangers: number;
}

/** Brings the schema to the version of this package, in one transaction under one lock; any number of processes may try at once. */
export async function migrate(connection: Connection): Promise<void> {
  const found = await foundIn(connection);
  if (isUsable(found, connection)) return;
  if (found.version === 0 && found.strangers > 0) throw foreign(connection);
  try {
    await connection.query(migrationText(), []);
  } catch (error) {
    throw withoutRight(error, connection);
  }
  isUsable(await foundIn(connection), connection);
}

/** The version that the schema has; undefined: there is none, or it is empty. Makes and changes nothing. */
export async function schemaVersion(connection: Connection): Promise<number | undefined> {
  const found = await foundIn(connection);
  if (found.version === 0 && found.strangers > 0) throw foreign(connection);
  return found.version === 0 ? undefined : found.version;
}

/** Throws where something would have to be made first. */
export async function requireMade(connection: Connection): Promise<void> {
  const found = await foundIn(connection);
  if (isUsable(found, connection)) return;
  if (found.version === 0 && found.strangers > 0) throw foreign(connection);
  if (found.version === 0) {
    throw new NotFoundError(
      "store_not_found",
      `${connection.name} has no tables of zae-limiter. Make them with \`zae-limiter init\`, or open the store without \`create: false\`.`,
    );
  }
  throw new VersionError(
    "schema_older",
    `${connection.name} has schema version ${found.version}, this version of zae-limiter works with ${SCHEMA_VERSION}. ` +
      "Upgrade it with `zae-limiter init`, or open it without `create: false`.",
  );
}

/** Throws where the schema is so new that this package would misread it. */
function isUsable({ version, leastClient }: Found, { name }: Connection): boolean {
  if (leastClient > SCHEMA_VERSION) {
    throw new VersionError(
      "schema_newer",
      `${name} has schema version ${version}, which this version of zae-limiter cannot read. Upgrade zae-limiter, or name another schema.`,
    );
  }
  return version >= SCHEMA_VERSION;
}

async function foundIn(connection: Connection): Promise<Found> {
  const [counted] = await connection.queryAgain(
    `SELECT count(*) FILTER (WHERE relname = 'meta')::int AS ours, count(*)::int AS tables
     FROM pg_catalog.pg_class WHERE relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AND relkind = 'r'`,
    [connection.schema],
    "always",
  );
  const { ours, tables } = counted as Row & { readonly ours: number; readonly tables: number };
  if (ours === 0) return { version: 0, leastClient: 0, strangers: tables };
  const [meta] = await connection.queryAgain("SELECT to_jsonb(meta) AS found FROM @.meta", [], "always");
  const { product, version, least_client: leastClient } = (meta?.found ?? {}) as Readonly<Record<string, unknown>>;
  if (product !== "zae-limiter" || typeof version !== "number" || typeof leastClient !== "number") {
    throw foreign(connection);
  }
  return { version, leastClient, strangers: 0 };
}

/** Grants of roles do not help here: who makes tables owns them. */
function withoutRight(error: unknown, { name, schema }: Connection): unknown {
  if (!(error instanceof LimiterError) || error.code !== "access_denied") return error;
  const why = error.cause instanceof Error ? error.cause.message : error.message;
  return new LimiterError(
    "access_denied",
    `This user may not make or upgrade the tables of ${name} (${why}). Run \`zae-limiter init\` as the owner of the schema ${schema}, ` +
      "or, for a new schema, as a user with GRANT CREATE ON DATABASE.",
    { cause: error.cause },
  );
}

function foreign({ name, schema }: Connection): ValidationError {
  return new ValidationError(
    "store_invalid",
    `The schema ${schema} of ${name} has tables of another program. Name another one with ?schema=NAME; a missing schema is created.`,
  );
}

/**
 * One statement, so that it is one transaction wherever it runs: on a pool and through a pooler, too. What it does depends on the
 * version that it finds once it has the lock.
 */
function migrationText(): string {
  const steps = Array.from({ length: SCHEMA_VERSION }, (_, i) => {
    const tables = SCHEMA_PARTS.map((part) => part.tables[i] ?? "").join("\n");
    return `IF found < ${i + 1} THEN\n${META[i] ?? ""}\n${tables}\nEND IF;`;
  });
  const functions = SCHEMA_PARTS.flatMap((part) => part.functions);
  const made = functions.map(({ name, text }) => `${text}\nREVOKE ALL ON FUNCTION @.${name} FROM PUBLIC;`);
  return `DO $migration$
DECLARE found bigint := 0;
BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('zae-limiter/@schema', 0));
CREATE SCHEMA IF NOT EXISTS "@schema";
IF to_regclass('"@schema".meta') IS NOT NULL THEN
  EXECUTE 'SELECT version FROM "@schema".meta' INTO found;
ELSIF EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace = '"@schema"'::regnamespace AND relkind = 'r') THEN
  RAISE EXCEPTION 'The schema @schema has tables of another program.';
END IF;
IF found >= ${SCHEMA_VERSION} THEN RETURN; END IF;
${steps.join("\n")}
${made.join("\n")}
UPDATE @.meta SET version = ${SCHEMA_VERSION}, least_client = ${LEAST_CLIENT};
END
$migration$`;
}

const META = [
  `CREATE TABLE @.meta (
    one integer PRIMARY KEY CHECK (one = 1), product text NOT NULL, version integer NOT NULL, least_client integer NOT NULL
  );
  INSERT INTO @.meta VALUES (1, 'zae-limiter', 0, 0);`,
];

/** The statements that give roles their rights, for the owner of the schema. */
export function grants(schema: string, { acquire, admin, read }: GrantedRoles): readonly string[] {
  const named = (role: CallingRole) => executedBy(role).map((name) => `@.${name}`);
  const takersRead = readByAcquire().map((table) => `@.${table}`);
  const all = `ALL TABLES IN SCHEMA "${schema}"`;
  const given = [
    ...to(acquire, takersRead.join(", "), named("acquire")),
    ...to(admin, all, named("admin")),
    ...to(read, all, named("read")),
  ];
  return given.map((text) => inSchema(text, schema));

  function to(role: string | undefined, tables: string, called: readonly string[]): readonly string[] {
    if (role === undefined) return [];
    const name = quoted(role);
    return [
      `GRANT USAGE ON SCHEMA "${schema}" TO ${name};`,
      `GRANT SELECT ON ${tables} TO ${name};`,
      ...called.map((each) => `GRANT EXECUTE ON FUNCTION ${each} TO ${name};`),
    ];
  }
}

/** The name of a role as SQL has it. */
export function quoted(role: string): string {
  return `"${role.replaceAll('"', '""')}"`;
}
