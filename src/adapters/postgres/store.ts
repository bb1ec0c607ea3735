import { DisciplinedClock } from "../../clock/disciplined-clock.ts";
import type { Store } from "../../ports/store.ts";
import { type BatchedStoreOptions, batchedStore } from "../../straight/batched-store.ts";
import { draftedLease } from "./batch-text.ts";
import { PostgresBatches } from "./batches.ts";
import type { Connection } from "./connection.ts";
import { postgresCopies } from "./copies.ts";
import { serverNow } from "./inspect.ts";
import { migrate, requireMade } from "./migrations.ts";
import { PostgresRecords } from "./records.ts";
import { warmTakes } from "./warm-takes.ts";

interface PostgresOptions extends BatchedStoreOptions {
  readonly connection: Connection;
  /**
   * A crash of the server may take some of what was answered. `full`: nothing. `normal`: the takes of the last moments; changes, leases and
   * operations are `full` all the same.
   */
  readonly durability: "normal" | "full";
}

/** A store in a schema of a PostgreSQL server, for any number of processes on any machines. Closes the connection where it fails. */
export async function openStore(options: PostgresOptions): Promise<Store> {
  const { connection } = options;
  try {
    await (options.create ? migrate(connection) : requireMade(connection));
    return await storeOn(options);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function storeOn(options: PostgresOptions): Promise<Store> {
  const { connection, calendar, digest, steadyMs, clock: given } = options;
  const kept = given.kind === "kept" ? new DisciplinedClock(given.local, steadyMs) : undefined;
  if (kept !== undefined) await readTime(connection, kept);
  connection.warmBy((run) => warmTakes(run, options.random.id()));
  const batches = new PostgresBatches({ connection, durability: options.durability, clock: kept, steadyMs });
  const records = new PostgresRecords(connection, options.adminTimeoutMs);
  return batchedStore(options, {
    ...{ name: connection.name, batches, records, kept, bucketsMax: Number.POSITIVE_INFINITY, draftedLease },
    copyOf: (scoped) => postgresCopies({ connection, records, calendar, digest }, scoped),
    ping: async () => {
      await connection.query("SELECT 1 AS one FROM @.meta", []);
    },
    close: () => connection.close(),
  });
}

async function readTime(connection: Connection, clock: DisciplinedClock): Promise<void> {
  const sent = clock.stamp();
  clock.observe({ dateMs: await serverNow(connection), sent });
}
