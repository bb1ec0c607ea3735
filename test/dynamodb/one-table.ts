import { after } from "node:test";
import { setTimeout as inRealTime } from "node:timers/promises";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import type { Records } from "../../src/adapters/dynamodb/records.ts";
import { bucketPk, STATE_SK, type TableKey } from "../../src/adapters/dynamodb/schema.ts";
import { type DynamoStore, type DynamoStoreOptions, dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { type DynamoTable, openDynamo, prepareTable } from "../../src/entry/dynamodb.ts";
import { type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Clock } from "../../src/ports/system.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import type { DynamodbLocal } from "./dynamodb-local.ts";
import { optionsFor, recordsOn, Wire } from "./store-kit.ts";

// DynamoDB Local shares its machine with everything else that is tested.
export const TIMEOUT_MS = 10_000;

/** One table for all tests of a suite: each has a namespace of its own. Gone with the suite. */
export class OneTable {
  readonly #dynamodb: DynamodbLocal;
  readonly #opened: { close(): unknown }[] = [];
  #ready: Promise<{ readonly way: DynamoTable; readonly admin: RateLimiter }> | undefined;
  #namespaces = 0;

  constructor(dynamodb: DynamodbLocal) {
    this.#dynamodb = dynamodb;
    after(async () => {
      for (const each of this.#opened) await each.close();
      const { way } = (await this.#ready) ?? {};
      if (way === undefined) return;
      await dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: way.stack }), { timeoutMs: TIMEOUT_MS });
    });
  }

  /** A new namespace, and the way to its table. */
  async newNamespace(): Promise<{ readonly name: string; readonly id: string; readonly way: DynamoTable }> {
    this.#ready ??= this.#setUp();
    const { way, admin } = await this.#ready;
    return { ...(await admin.registerNamespace(`ground-${this.#namespaces++}`)), way };
  }

  /** Another process on the table, by the public way. */
  async store(way: DynamoTable, clock: Clock): Promise<Store> {
    // The limiter on it is handed the clock, too.
    const { clock: _, ...store } = await openDynamo({ ...way, timeoutMs: TIMEOUT_MS, clock: impatient(clock) });
    return this.closed(store);
  }

  /** A namespace of its own at some instant, seen from inside. */
  async newScene(atMs = Date.UTC(2026, 2, 15, 12)): Promise<Scene> {
    const { name, id, way } = await this.newNamespace();
    return new Scene({ name, id, table: way.stack, clock: new SimulatedClock(atMs) }, this, this.#dynamodb);
  }

  closed<Closing extends { close(): unknown }>(each: Closing): Closing {
    this.#opened.push(each);
    return each;
  }

  async #setUp() {
    const { endpoint, newTable } = this.#dynamodb;
    // The stories are told in the past: a table that removes what has expired would remove what they are about.
    const stack = await newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    const way = { stack, endpoint, region: "eu-west-1", credentials: { accessKeyId: "test", secretAccessKey: "test" } };
    await prepareTable(way);
    const { stack: _, ...connection } = way;
    const admin = await RateLimiter.open({ ...connection, store: `dynamodb:${stack}`, timeoutMs: TIMEOUT_MS });
    return { way, admin: this.closed(admin) };
  }
}

/** One process of a scene, and its line to the table. */
export interface Process {
  readonly limiter: RateLimiter;
  readonly wire: Wire;
  readonly store: DynamoStore;
}

/** A namespace, its clock, and what its items say. */
export class Scene {
  readonly table: string;
  readonly namespace: string;
  readonly namespaceId: string;
  readonly clock: SimulatedClock;
  readonly records: Records;
  readonly #one: OneTable;
  readonly #dynamodb: DynamodbLocal;

  constructor(
    place: { readonly name: string; readonly id: string; readonly table: string; readonly clock: SimulatedClock },
    one: OneTable,
    dynamodb: DynamodbLocal,
  ) {
    this.namespace = place.name;
    this.namespaceId = place.id;
    this.table = place.table;
    this.clock = place.clock;
    this.records = recordsOn(dynamodb, place.table);
    this.#one = one;
    this.#dynamodb = dynamodb;
  }

  /** Another process. */
  async process(
    options: Omit<OpenOptions, "clock" | "store"> = {},
    storeOptions: Partial<DynamoStoreOptions> = {},
  ): Promise<Process> {
    const { clock, namespace } = this;
    const wire = new Wire(this.#dynamodb.client);
    const { denyMemoryMs = 1_000 } = options;
    const given = { clock: impatient(clock), denyMemoryMs, timeoutMs: TIMEOUT_MS, ...storeOptions };
    const store = this.#one.closed(dynamoOver(optionsFor(wire, this.table, given)));
    return {
      limiter: await RateLimiter.open({ timeoutMs: TIMEOUT_MS, namespace, ...options, store, clock }),
      ...{ wire, store },
    };
  }

  /** The item of a shard of a bucket on `api`; undefined where there is none. */
  bucket(entityId: string, shard = 0): Promise<Attributes | undefined> {
    return this.records.get(this.bucketKey(entityId, shard));
  }

  bucketKey(entityId: string, shard = 0): TableKey {
    return { pk: bucketPk(this.namespaceId, bucketKey(entityId, "api"), shard), sk: STATE_SK };
  }

  /** A number that an item of a bucket on `api` says. */
  async number(entityId: string, name: string, shard = 0): Promise<number | undefined> {
    const text = (await this.bucket(entityId, shard))?.[name]?.N;
    return text === undefined ? undefined : Number(text);
  }

  /** Puts items as another program would, many at once. */
  async put(items: readonly Attributes[]): Promise<void> {
    for (let i = 0; i < items.length; i += 25) {
      const requests = items.slice(i, i + 25).map((Item) => ({ PutRequest: { Item } }));
      const body = JSON.stringify({ RequestItems: { [this.table]: requests } });
      const answer = await this.#dynamodb.client.send("BatchWriteItem", body, { timeoutMs: TIMEOUT_MS });
      if (answer.kind !== "answered") throw new Error(`The items were not put: ${JSON.stringify(answer)}`);
    }
  }
}

/** Who waits a moment before it asks the table again is not kept waiting by a clock that stands still. */
function impatient(clock: Clock): Clock {
  const sleep: Clock["sleep"] = async (ms, signal) => {
    const woken = new AbortController();
    const either = signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal]);
    const slept = clock.sleep(ms, either);
    const passed = inRealTime(ms, undefined, { signal: either });
    await Promise.race([slept, passed]).finally(() => woken.abort());
    await Promise.allSettled([slept, passed]);
  };
  return { now: () => clock.now(), sleep };
}
