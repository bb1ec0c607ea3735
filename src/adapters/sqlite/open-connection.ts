import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { LimiterError, NotFoundError, ValidationError } from "../../domain/names/errors.ts";
import { Connection } from "./connection.ts";
import { openingError } from "./faults.ts";
import { OPEN_WAIT_MS } from "./lock-backoff.ts";
import { migrate, requireNewest, requireOurs } from "./migrations.ts";
import { ensureDefault } from "./records.ts";

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
