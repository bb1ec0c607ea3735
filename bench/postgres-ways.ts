import pg from "pg";
import { RateLimiterPostgres } from "rate-limiter-flexible";
import { RateLimiter } from "../src/entry/index.ts";
import { roomyLimit } from "./roomy.ts";

/** One call of a way; `i` counts them. */
export type Call = (i: number) => Promise<unknown>;

/** Connections that a process has with the defaults of the store; the others get as many. */
const CONNECTIONS = 4;

const KEYS = 100;
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
  await pool.query("INSERT INTO bare_counter VALUES ('one', 0) ON CONFLICT DO NOTHING");
  const flexible = await flexibleOn(peerPool);
  const chain = (limiter: RateLimiter) => (levels: number) => () =>
    limiter.tryAcquire({ entityId: `of-${levels}-${levels}`, resource: "two", consume: { rpm: 1, tpm: 500 } });
  return {
    bare: updateBy(pool),
    bareNormal: updateBy(offPool),
    chain: chain(full),
    chainNormal: chain(normal),
    many: (i) => full.tryAcquire({ entityId: `alone-${i % KEYS}`, resource: "two", consume: { rpm: 1, tpm: 500 } }),
    flexibleMany: (i) => flexible(`key-${i % KEYS}`),
    flexibleOne: () => flexible("one"),
    close: async () => {
      await Promise.all([full.close(), normal.close(), pool.end(), offPool.end(), peerPool.end()]);
    },
  };
}

/** The entities `of-4-1` to `of-4-4` are a chain of four levels; `key-0` to `key-99` are below another one. */
export async function prepareEntities(url: string): Promise<string> {
  const store = storeOn(url);
  const limiter = await RateLimiter.open({ store });
  await limiter.setResourceDefaults("two", [roomyLimit("rpm"), roomyLimit("tpm")]);
  for (const levels of [1, 4, 8]) {
    for (let level = 1; level <= levels; level++) {
      const parent = level === 1 ? {} : { parentId: `of-${levels}-${level - 1}` };
      await limiter.ensureEntity({ id: `of-${levels}-${level}`, ...parent });
    }
  }
  for (let i = 0; i < KEYS; i++) await limiter.ensureEntity({ id: `key-${i}`, parentId: "of-4-3" });
  await limiter.close();
  return store;
}

function storeOn(url: string): string {
  return `${url}?schema=bench_limiter`;
}

function limiterOn(url: string, durability: "full" | "normal"): Promise<RateLimiter> {
  return RateLimiter.open({ store: storeOn(url), durability, timeoutMs: 10_000 });
}

/** The cheapest honest counter: one conditional update, prepared once a connection. */
function updateBy(pool: pg.Pool): Call {
  const text = "UPDATE bare_counter SET points = points + 1 WHERE key = $1 AND points < 1000000000000";
  return () => pool.query({ name: "bare", text, values: ["one"] });
}

/** Two limits are two limiters, as its documentation says. */
async function flexibleOn(pool: pg.Pool): Promise<(key: string) => Promise<unknown>> {
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
