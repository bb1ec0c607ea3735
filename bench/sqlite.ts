import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { RateLimiterSQLite } from "rate-limiter-flexible";
import { RateLimiter } from "../src/entry/index.ts";
import { concurrently, sequentially } from "./callers.ts";
import { type BenchOptions, type BenchTable, type Contender, compare } from "./measure.ts";
import { roomyLimit } from "./roomy.ts";
import { sharingRows } from "./sharing.ts";

const KEYS = Array.from({ length: 100 }, (_, i) => `key-${i}`);
const keyOf = (i: number): string => KEYS[i % KEYS.length] as string;
const RATE = 1_000_000_000;

/** The SQLite store with two limits, whole engine, one caller and 64, against a bare statement and a peer. */
export async function benchSqlite({ extent }: BenchOptions): Promise<BenchTable[]> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  try {
    const tables = await oneProcess(folder, extent);
    return extent === "followed" ? tables : [...tables, await twoProcesses(join(folder, "two.db"))];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function oneProcess(folder: string, extent: BenchOptions["extent"]): Promise<BenchTable[]> {
  const limiter = await RateLimiter.open({ store: `sqlite:${join(folder, "ours.db")}` });
  await limiter.setResourceDefaults("two", [roomyLimit("rpm"), roomyLimit("tpm")]);
  const take = (i: number) =>
    limiter.tryAcquire({ entityId: keyOf(i), resource: "two", consume: { rpm: 1, tpm: 500 } });
  const floor = floorOf(join(folder, "floor.db"));
  const flexible = flexibleOf(join(folder, "peer.db"));
  const settings = { by: ["time", "process CPU"], rounds: 9, extent } as const;
  const bare: Contender = { name: "one statement, committed by itself", owner: "peer", run: floor };
  const single = await compare(
    bare,
    [
      { name: "ours, one caller", owner: "ours", run: (calls) => sequentially(calls, take) },
      {
        name: "ours, tryAcquireSync",
        owner: "ours",
        run: (calls) => {
          for (let i = 0; i < calls; i++) {
            limiter.tryAcquireSync({ entityId: keyOf(i), resource: "two", consume: { rpm: 1, tpm: 500 } });
          }
        },
      },
      { name: "rate-limiter-flexible, one caller", owner: "peer", run: (calls) => sequentially(calls, flexible) },
    ],
    settings,
  );
  const many = await compare(
    bare,
    [
      { name: "ours, 64 callers", owner: "ours", run: (calls) => concurrently(calls, take) },
      { name: "rate-limiter-flexible, 64 callers", owner: "peer", run: (calls) => concurrently(calls, flexible) },
    ],
    settings,
  );
  await limiter.close();
  return [
    { title: "SQLite, two limits, one caller", ...single },
    { title: "SQLite, two limits, 64 callers", ...many },
  ];
}

/** The cheapest honest rate limiter on SQLite: one conditional update of one counter. */
function floorOf(file: string): (calls: number) => void {
  const database = openWal(file);
  database.exec("CREATE TABLE counter (key TEXT PRIMARY KEY, points INTEGER NOT NULL) STRICT, WITHOUT ROWID");
  const insert = database.prepare("INSERT INTO counter VALUES (?, 0)");
  for (const key of KEYS) insert.run(key);
  const update = database.prepare("UPDATE counter SET points = points + 1 WHERE key = ? AND points < 1000000000000");
  return (calls) => {
    for (let i = 0; i < calls; i++) update.run(keyOf(i));
  };
}

/** It wants better-sqlite3, which has the same statements; two limits are two limiters, as its documentation says. */
function flexibleOf(file: string): (i: number) => Promise<unknown> {
  const database = openWal(file);
  const client = {
    prepare: (sql: string) => database.prepare(sql),
    transaction: (work: () => unknown) => () => {
      database.exec("BEGIN");
      try {
        const value = work();
        database.exec("COMMIT");
        return value;
      } catch (error) {
        database.exec("ROLLBACK");
        throw error;
      }
    },
  };
  const options = { storeClient: client, storeType: "better-sqlite3", points: RATE, duration: 60, tableName: "limits" };
  const requests = new RateLimiterSQLite({ ...options, keyPrefix: "rpm" });
  const tokens = new RateLimiterSQLite({ ...options, keyPrefix: "tpm" });
  return async (i) => {
    await requests.consume(keyOf(i), 1);
    return tokens.consume(keyOf(i), 500);
  };
}

function openWal(file: string): DatabaseSync {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  return database;
}

async function twoProcesses(file: string): Promise<BenchTable> {
  const store = `sqlite:${file}`;
  const limiter = await RateLimiter.open({ store });
  await limiter.setResourceDefaults("two", [roomyLimit("rpm"), roomyLimit("tpm")]);
  await limiter.close();
  return { title: "SQLite, two processes on one file", rows: await sharingRows(store) };
}
