import type { Patience, PostgresClient, Row, Session } from "./connection.ts";
import { leavesConnection, NotConnected, TimeIsUp } from "./faults.ts";

/** What of `pg` is used. */
export interface PgPool {
  connect(): Promise<PgPoolClient>;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "connect", listener: (client: PgPoolClient) => void): unknown;
}

interface PgPoolClient {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
  /** True: the connection is not used again. */
  release(destroy: boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
}

/** A pool of ours: a connection whose statement did not end in time is closed, and the server ends the statement. */
export class PoolSession implements Session {
  readonly #pool: PgPool;

  constructor(pool: PgPool) {
    this.#pool = pool;
    // One that breaks while nobody uses it: the pool has dropped it, and the next call makes a new one.
    pool.on("error", () => {});
    // One that breaks while it is used says so to its statement as well; unheard, it would end the process.
    pool.on("connect", (client) => client.on("error", () => {}));
  }

  async run(text: string, values: readonly unknown[], { connectMs, answerMs }: Patience): Promise<readonly Row[]> {
    const connectTimer = new Timer(connectMs);
    const connecting = this.#pool.connect();
    let client: PgPoolClient;
    try {
      client = await connectTimer.race(connecting, false);
    } catch (error) {
      // It may still come; nobody waits for it any longer.
      connecting.then((late) => late.release(false)).catch(() => {});
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
    return this.#pool.end();
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
