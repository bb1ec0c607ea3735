import { DisciplinedClock } from "../../clock/disciplined-clock.ts";
import type { Store } from "../../ports/store.ts";
import type { Clock } from "../../ports/system.ts";
import { namespaceKey, namespaceOf } from "../../records/bodies.ts";
import { type BatchedStoreOptions, batchedStore } from "../../straight/batched-store.ts";
import { RedisBatches } from "./batches.ts";
import { draftedLease, openHourOf } from "./bucket-bytes.ts";
import type { Connection } from "./connection.ts";
import { redisCopies } from "./copies.ts";
import { namespaceKeys } from "./keys.ts";
import { LostWrites } from "./lost-writes.ts";
import { RedisRecords } from "./records.ts";
import { checkServer, ensureStore, type OpeningRules, serverFacts, serverTime } from "./server.ts";

interface RedisOptions extends OpeningRules, BatchedStoreOptions {
  readonly connection: Connection;
  /** So many replicas must have confirmed a batch before its takes are answered; 0: none. */
  readonly replicas: { readonly count: number; readonly timeoutMs: number };
}

/** The server is asked for its time this often while batches go on. */
const TIME_EVERY_MS = 10_000;

/** The arguments of one script are at most 8,000. */
const BUCKETS_AT_ONCE = 500;

/** A store on a Redis or Valkey server, for any number of processes on any machines. Closes the connection where it fails. */
export async function openStore(options: RedisOptions): Promise<Store> {
  const { connection } = options;
  try {
    checkServer(connection.name, await serverFacts(connection), options);
    await ensureStore(connection, options.create);
    return await storeOn(options);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function storeOn(options: RedisOptions): Promise<Store> {
  const { connection, calendar, steadyMs, adminTimeoutMs, replicas, digest, clock: given } = options;
  const server = given.kind === "kept" ? new ServerClock(connection, given.local, steadyMs) : undefined;
  await server?.read();
  const clock = given.kind === "given" ? given.clock : (server as ServerClock).clock;
  const keysOf = (namespaceId: string) => namespaceKeys(connection.prefix, namespaceId);
  const lost = new LostWrites(connection, keysOf, () => clock.now());
  const records = new RedisRecords(connection, adminTimeoutMs, openHourOf, (id, writes) => lost.note(id, writes));
  const batches = new RedisBatches({
    ...{ connection, keysOf, now: () => clock.now(), audit: records.auditTrail, replicas },
    isActive: async (id) => {
      const { records: found } = await records.get(id, [namespaceKey(id)]);
      return found[0] !== undefined && namespaceOf(found[0]).status === "active";
    },
    onWrites: (id, writes) => {
      lost.note(id, writes);
      server?.readSometimes();
    },
  });
  const store = await batchedStore(options, {
    ...{ name: connection.name, batches, records, kept: server?.clock, bucketsMax: BUCKETS_AT_ONCE, draftedLease },
    copyOf: (scoped) => redisCopies({ records, batches, calendar, digest }, scoped),
    ping: async () => {
      await connection.ask([["PING"]]);
    },
    close: async () => {
      await records.drained();
      await connection.close();
    },
  });
  return { ...store, onBackgroundFault: (namespaceId, listener) => lost.on(namespaceId, listener) };
}

/** The clock of this machine, kept to the time of the server where that tells it. */
class ServerClock {
  readonly clock: DisciplinedClock;
  readonly #connection: Connection;
  readonly #steadyMs: () => number;
  #readMs = 0;
  #isReading = false;

  constructor(connection: Connection, local: Clock, steadyMs: () => number) {
    this.clock = new DisciplinedClock(local, steadyMs);
    this.#connection = connection;
    this.#steadyMs = steadyMs;
  }

  async read(): Promise<void> {
    this.#readMs = this.#steadyMs();
    const sent = this.clock.stamp();
    const dateMs = await serverTime(this.#connection);
    if (dateMs !== undefined) this.clock.observe({ dateMs, sent });
  }

  /** Reads it behind a batch, if it was not read lately. */
  readSometimes(): void {
    if (this.#isReading || this.#steadyMs() - this.#readMs < TIME_EVERY_MS) return;
    this.#isReading = true;
    this.read()
      .catch(() => {
        // The batches tell that the server does not answer.
      })
      .finally(() => {
        this.#isReading = false;
      });
  }
}
