import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { LimiterError, ValidationError } from "../../domain/errors.ts";
import { Connection } from "./connection.ts";
import { openingError } from "./faults.ts";
import { OPEN_WAIT_MS } from "./lock-backoff.ts";
import { migrate, requireOurs } from "./migrations.ts";
import { ensureDefault } from "./namespaces.ts";

export type Durability = "normal" | "full";

interface ConnectionOptions {
  readonly file: string;
  readonly durability: Durability;
  readonly random: () => number;
  readonly steadyMs: () => number;
}

/** Opens the file, made if missing, and brings it to the newest version. */
export function openConnection(options: ConnectionOptions): Connection {
  const { file, durability } = options;
  const database = openDatabase(file);
  try {
    const connection = new Connection(database, options);
    connection.retryWhileBusy(OPEN_WAIT_MS, () => setUp(connection, durability));
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
    mkdirSync(dirname(file), { recursive: true });
    return new Database(file);
  } catch (error) {
    throw openingError(error, file);
  }
}

/** Asked for when a file is opened: so the package can be loaded, and its other stores used, where there is no SQLite. */
function loadSqlite(): typeof import("node:sqlite") {
  const sqlite = process.getBuiltinModule?.("node:sqlite");
  if (sqlite !== undefined) return sqlite;
  throw new LimiterError(
    "node_too_old",
    `The SQLite store needs Node 22.13 or later, and this is ${process.version}. Upgrade Node, or use the store "memory" ` +
      'or "dynamodb:STACK".',
  );
}

function setUp(connection: Connection, durability: Durability): void {
  connection.exec("PRAGMA busy_timeout = 0");
  // Before the journal mode is set: that writes to the file, and another program's must stay as it is.
  requireOurs(connection);
  const mode = connection.prepare("PRAGMA journal_mode = WAL").get()?.[0];
  if (mode !== "wal") {
    throw new ValidationError(
      "store_invalid",
      `${connection.file} cannot keep a write-ahead log (journal mode ${String(mode)}). ` +
        'Name a file on a local disk, or use the store "memory".',
    );
  }
  connection.exec(`PRAGMA synchronous = ${durability === "full" ? "FULL" : "NORMAL"}`);
}
