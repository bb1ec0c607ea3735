import pg from "pg";
import { RateLimiterPostgres } from "rate-limiter-flexible";
import { RateLimiter } from "../src/entry/index.ts";
import { type Call, KEYS, takingOf } from "./chains.ts";

/** Connections that a process has with the defaults of the store; the others get as many. */
const CONNECTIONS = 4;

const POINTS = 1_000_000_000;

/** What callers do, on one server. */
export interface PostgresWays {
  /** One row, one update of it, committed by itself. */
  readonly bare: Call;
  /** The same, and the server answers before it is on the disk. */
  readonly bareNormal: Call;
  /** Two limits a level, all levels of one chain. */
  readonly chain: (levels: 1 | 4 | 8) => Call;
  readonly chainNormal: (levels: 1 | 4 | 8) => Call;
  /** One level, two limits, one of a hundred entities. */
  readonly many: Call;
  /** Two limiters, one of a hundred keys. */
  readonly flexibleMany: Call;
  /** Two limiters, always the same key. */
  readonly flexibleOne: Call;
  close(): Promise<void>;
}

export async function postgresWays(url: string): Promise<PostgresWays> {
  const full = await limiterOn(url, "full");
  const normal = await limiterOn(url, "normal");
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  const offPool = new pg.Pool({ connectionString: url, max: CONNECTIONS, options: "-c synchronous_commit=off" });
  const peerPool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  await pool.query(
    "CREATE TABLE IF NOT EXISTS bare_counter (key text PRIMARY KEY, points bigint NOT NULL) WITH (fillfactor = 50)",
  );
  await pool.query(
    "INSERT INTO bare_counter SELECT 'own-' || i, 0 FROM generate_series(0, 19) i ON CONFLICT DO NOTHING",
  );
  await pool.query("INSERT INTO bare_counter VALUES ('one', 0) ON CONFLICT DO NOTHING");
  const flexible = await flexibleOn(peerPool);
  const chain = (limiter: RateLimiter) => (levels: number) => takingOf(limiter, `of-${levels}-${levels}`);
  return {
    bare: updateBy(pool, "one"),
    bareNormal: updateBy(offPool, "one"),
    chain: chain(full),
    chainNormal: chain(normal),
    many: (i) => takingOf(full, `alone-${i % KEYS}`)(i),
    flexibleMany: (i) => flexible(`key-${i % KEYS}`),
    flexibleOne: () => flexible("one"),
    close: async () => {
      await Promise.all([full.close(), normal.close(), pool.end(), offPool.end(), peerPool.end()]);
    },
  };
}

export function storeOn(url: string): string {
  return `${url}?schema=bench_limiter`;
}

function limiterOn(url: string, durability: "full" | "normal"): Promise<RateLimiter> {
  return RateLimiter.open({ store: storeOn(url), durability, timeoutMs: 10_000 });
}

/** The cheapest honest counter: one conditional update, prepared once a connection. */
export function updateBy(pool: pg.Pool, key: string): Call {
  const text = "UPDATE bare_counter SET points = points + 1 WHERE key = $1 AND points < 1000000000000";
  return () => pool.query({ name: "bare", text, values: [key] });
}

/** Two limits are two limiters, as its documentation says. */
export async function flexibleOn(pool: pg.Pool): Promise<(key: string) => Promise<unknown>> {
  const limiterOf = (keyPrefix: string) =>
    new Promise<RateLimiterPostgres>((resolve, reject) => {
      const options = { storeClient: pool, tableName: "flexible", points: POINTS, duration: 3_600, keyPrefix };
      const limiter = new RateLimiterPostgres(options, (error) => (error ? reject(error) : resolve(limiter)));
    });
  const requests = await limiterOf("rpm");
  const tokens = await limiterOf("tpm");
  return async (key) => {
    await requests.consume(key, 1);
    return tokens.consume(key, 500);
  };
}
