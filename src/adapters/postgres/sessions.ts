import { LimiterError } from "../../domain/names/errors.ts";
import { nameOf, type PostgresAddress } from "./address.ts";
import type { Patience, PostgresClient, Row, Session } from "./connection.ts";
import { ConnectionPermits, type Side } from "./connection-permits.ts";
import { leavesConnection, NotConnected, TimeIsUp, thrownFor } from "./faults.ts";
import { isWithoutTls, type Ssl, sslOf } from "./tls.ts";

/** The part of `pg` that is used. */
interface PgPool {
  connect(): Promise<PgPoolClient>;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "connect", listener: (client: PgPoolClient) => void): unknown;
  on(event: "remove", listener: () => void): unknown;
}

interface PgPoolClient {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
  /** True: the connection is not used again. */
  release(destroy: boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
}

/** Runs statements on one connection. */
type RunOn = (text: string, values: readonly unknown[]) => Promise<unknown>;

/** A pool of ours, whose connections grow with the need. */
export class OwnPool {
  readonly #pool: PgPool;
  readonly #permits: ConnectionPermits;
  #ending: Promise<void> | undefined;
  #warm: ((run: RunOn) => Promise<void>) | undefined;

  constructor(pool: PgPool, max: number) {
    this.#pool = pool;
    this.#permits = new ConnectionPermits(max, (opened) => this.#addOne(opened));
    // One that breaks while nobody uses it: the pool has dropped it, and the next call makes a new one.
    pool.on("error", () => {});
    // One that breaks while it is used says so to its statement as well; unheard, it would end the process.
    pool.on("connect", (client) => client.on("error", () => {}));
    pool.on("remove", () => this.#permits.closed());
  }

  session(side: Side): Session {
    return new PoolSession({ pool: this.#pool, permits: this.#permits, side, end: () => this.#end() });
  }

  /** Both sides end with the first that is closed. */
  #end(): Promise<void> {
    this.#ending ??= this.#pool.end();
    return this.#ending;
  }

  /** Every connection that is opened beside others runs this first, and the one that is open now does. */
  async warmBy(warm: (run: RunOn) => Promise<void>): Promise<void> {
    this.#warm = warm;
    const permit = this.#permits.ask("others");
    await permit.granted;
    try {
      await this.#warmed(await this.#pool.connect());
    } catch {
      // Whoever comes next is told why.
    } finally {
      permit.cancel();
    }
  }

  // All that are open are in use, so that this is a new one.
  async #addOne(opened: () => void): Promise<void> {
    const client = await this.#pool.connect();
    opened();
    await this.#warmed(client);
  }

  async #warmed(client: PgPoolClient): Promise<void> {
    let isBroken = false;
    try {
      await this.#warm?.((text, values) => client.query(text, values as unknown[]));
    } catch (error) {
      // A role that may not take needs none of it.
      this.#warm = undefined;
      isBroken = !leavesConnection(error);
    } finally {
      client.release(isBroken);
    }
  }
}

interface SideOfPool {
  readonly pool: PgPool;
  readonly permits: ConnectionPermits;
  readonly side: Side;
  readonly end: () => Promise<void>;
}

/** One side of a pool of ours: a connection whose statement did not end in time is closed, and the server ends the statement. */
class PoolSession implements Session {
  readonly #of: SideOfPool;

  constructor(of: SideOfPool) {
    this.#of = of;
  }

  async run(text: string, values: readonly unknown[], patience: Patience): Promise<readonly Row[]> {
    const permit = this.#of.permits.ask(this.#of.side);
    try {
      return await this.#runBy(permit.granted, text, values, patience);
    } finally {
      permit.cancel();
    }
  }

  async #runBy(
    permitted: Promise<void>,
    text: string,
    values: readonly unknown[],
    { connectMs, answerMs }: Patience,
  ): Promise<readonly Row[]> {
    const connectTimer = new Timer(connectMs);
    let connecting: Promise<PgPoolClient> | undefined;
    let client: PgPoolClient;
    try {
      await connectTimer.race(permitted, false);
      connecting = this.#of.pool.connect();
      client = await connectTimer.race(connecting, false);
    } catch (error) {
      // It may still come; nobody waits for it any longer.
      connecting?.then((late) => late.release(false)).catch(() => {});
      throw error instanceof TimeIsUp ? error : new NotConnected("No connection.", { cause: error });
    } finally {
      connectTimer.end();
    }
    const timer = new Timer(answerMs);
    let broken = true;
    try {
      const { rows } = await timer.race(client.query(text, values as unknown[]), true);
      broken = false;
      return rows as readonly Row[];
    } catch (error) {
      broken = !leavesConnection(error);
      throw error;
    } finally {
      timer.end();
      client.release(broken);
    }
  }

  close(): Promise<void> {
    return this.#of.end();
  }
}

/** A client of the caller's, who also closes it. */
export class ClientSession implements Session {
  readonly #client: PostgresClient;

  constructor(client: PostgresClient) {
    this.#client = client;
  }

  async run(text: string, values: readonly unknown[], { answerMs }: Patience): Promise<readonly Row[]> {
    const timer = new Timer(answerMs);
    try {
      const { rows } = await timer.race(this.#client.query(text, values as unknown[]), true);
      return rows as readonly Row[];
    } finally {
      timer.end();
    }
  }

  async close(): Promise<void> {}
}

/** One span of time for several steps. */
class Timer {
  readonly #timeoutMs: number;
  readonly #timer: NodeJS.Timeout;
  #onTime: (() => void) | undefined;
  #isUp = false;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#timer = setTimeout(() => {
      this.#isUp = true;
      this.#onTime?.();
    }, timeoutMs);
  }

  race<Value>(work: Promise<Value>, isSent: boolean): Promise<Value> {
    return new Promise((resolve, reject) => {
      const onTime = () => reject(new TimeIsUp(this.#timeoutMs, isSent));
      this.#onTime = onTime;
      if (this.#isUp) onTime();
      work.then(resolve, reject);
    });
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

interface PoolBounds {
  readonly poolMax: number;
  /** A connection that nobody uses for so long is closed. */
  readonly poolIdleMs: number;
  readonly timeoutMs: number;
}

/** A firewall forgets a connection on which nothing is sent for some minutes. */
const KEEP_ALIVE_MS = 60_000;

/** Connects by the package `pg`. */
export async function openPool(
  address: PostgresAddress,
  { poolMax, poolIdleMs, timeoutMs }: PoolBounds,
): Promise<OwnPool> {
  const { Pool } = await loadPg();
  const ssl = await sslOf(address, (tried) => hasTls(address, Pool, tried, timeoutMs));
  const kept = { idleTimeoutMillis: poolIdleMs, keepAlive: true, keepAliveInitialDelayMillis: KEEP_ALIVE_MS };
  const pool = new Pool({ ...settingsOf(address), ...kept, ssl, max: poolMax, allowExitOnIdle: true });
  return new OwnPool(pool, poolMax);
}

interface PoolSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string;
  readonly application_name: string;
  readonly enableChannelBinding: boolean;
  readonly options?: string;
  readonly ssl: Ssl;
  readonly max: number;
  readonly allowExitOnIdle: boolean;
  readonly idleTimeoutMillis?: number;
  readonly keepAlive?: boolean;
  readonly keepAliveInitialDelayMillis?: number;
  readonly connectionTimeoutMillis?: number;
}

type PoolClass = new (settings: PoolSettings) => PgPool;

function settingsOf(address: PostgresAddress) {
  const { host, port, user, password, database, applicationName, sessionOptions: options, bindsChannel } = address;
  return {
    ...{ host, port, user, password, database, application_name: applicationName, enableChannelBinding: bindsChannel },
    ...(options === undefined ? {} : { options }),
  };
}

async function loadPg(): Promise<{ readonly Pool: PoolClass }> {
  try {
    const { default: pg } = await import("pg");
    return pg as unknown as { readonly Pool: PoolClass };
  } catch (cause) {
    throw new LimiterError("package_missing", "The store postgres:// needs the package pg: npm install pg", {
      cause,
    });
  }
}

/** Tells whether the server has TLS. Throws where it cannot be reached, or refuses this user. */
async function hasTls(address: PostgresAddress, Pool: PoolClass, ssl: Ssl, timeoutMs: number): Promise<boolean> {
  const limits = { max: 1, allowExitOnIdle: true, connectionTimeoutMillis: timeoutMs };
  const pool = new Pool({ ...settingsOf(address), ssl, ...limits });
  pool.on("error", () => {});
  try {
    (await pool.connect()).release(true);
    return true;
  } catch (error) {
    if (isWithoutTls(error)) return false;
    throw thrownFor(new NotConnected("No connection.", { cause: error }), nameOf(address));
  } finally {
    await pool.end();
  }
}
