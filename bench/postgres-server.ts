import { readFileSync } from "node:fs";
import pg from "pg";
import { startPostgres } from "../test/postgres/postgres-process.ts";

/** A server to measure on, as durable as it comes: commits are waited for. */
export interface BenchServer {
  readonly url: string;
  /** How long the processes of the server have used a processor; undefined where that cannot be seen. */
  cpuMs(): Promise<number | undefined>;
  close(): Promise<void>;
}

/** Debian's, started for this run; `ZAEL_TEST_POSTGRES_URL` names another one. The text says why there is none. */
export async function benchServer(): Promise<BenchServer | string> {
  try {
    const url = process.env.ZAEL_TEST_POSTGRES_URL || (await startPostgres(["max_connections=100"])).url;
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const used = new Map<number, number>();
    return { url, cpuMs: () => cpuMsOf(client, used), close: () => client.end() };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

// The CPU of all processes that serve connections or write the log. One that has ended counts with what it had used when it was last looked at.
async function cpuMsOf(client: pg.Client, used: Map<number, number>): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>(
    "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
  );
  try {
    for (const { pid } of rows) used.set(pid, Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]));
    return Array.from(used.values()).reduce((sum, ns) => sum + ns, 0) / 1e6;
  } catch {
    return undefined;
  }
}
