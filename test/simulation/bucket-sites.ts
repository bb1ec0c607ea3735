import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openMemory } from "../../src/adapters/memory/store.ts";
import { openSqlite } from "../../src/adapters/sqlite/store.ts";
import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { NO_TURNS } from "../../src/testing/simulated-clock.ts";
import { type ConditionalStore, conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import type { StoredBucket } from "../kit/model-stored.ts";
import type { StoredShard } from "./bucket-balance.ts";
import type { BucketWorld, Fault } from "./bucket-world.ts";
import { calendar } from "./calendar.ts";
import { readItem, ruleOf, rulesIn } from "./item-reader.ts";
import type { Rule } from "./promised-limit.ts";

/** What stands on the bucket: by what each of its limits goes, on any of its shards. */
export interface Standing {
  readonly shards: number;
  readonly rules: ReadonlyMap<string, readonly Rule[]>;
  /** The epoch that its tokens are relative to. */
  readonly epochMs: number;
}

/** A kind of store with the one bucket of the world. */
export interface BucketSite {
  buckets(by: number): BucketStore;
  origin(by: number, change: number, nowMs: number): SetOrigin;
  inForce(): Standing;
  /** The bucket as it is stored, shard by shard; none where there is none. */
  stored(): readonly StoredShard[];
  readonly shards: number;
  /** Several are under way. */
  readonly isBusy: boolean;
  /** Whether calls may fail for reasons that no client can help. */
  readonly hasFaults: boolean;
  together(all: readonly (() => Promise<void>)[]): Promise<void>;
  sweep(): Promise<void>;
  delete(): Promise<void>;
  resize(by: number, to: "more" | "fewer"): Promise<boolean>;
  announce(by: number): Promise<void>;
  fail(by: number, call: "write" | "transact", how: Fault, after: number): void;
  restart(by: number): void;
  close(): Promise<void>;
}

export interface SiteContext {
  readonly seed: number;
  now(): number;
  /** Something was written. */
  moved(): void;
  /** An operation was applied, known by its key. */
  operated(idempotencyKey: string): void;
}

export function openSite(world: BucketWorld, bucket: BucketKey, context: SiteContext): BucketSite {
  switch (world.store) {
    case "bucket-memory":
      return wholeSite(openMemory(calendar, FILE_RETENTION, NO_TURNS), bucket, context, () => {});
    case "bucket-sqlite":
      return sqliteSite(world, bucket, context);
    case "bucket-conditional":
      return conditionalSite(world, bucket, context);
  }
}

function sqliteSite({ coalesce }: BucketWorld, bucket: BucketKey, context: SiteContext): BucketSite {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-fuzz-"));
  const file = join(folder, "limiter.db");
  const store = openSqlite({
    file,
    durability: "normal",
    coalesce,
    retention: FILE_RETENTION,
    random: () => 0.5,
    steadyMs: context.now,
    calendar,
  });
  return wholeSite(store, bucket, context, () => rmSync(folder, { recursive: true }));
}

/** Takes on other buckets, until the store has looked at all it has. */
const OTHERS = 260;

/** A store that does a call as a whole. */
function wholeSite(store: Store, bucket: BucketKey, { now }: SiteContext, closed: () => void): BucketSite {
  const scope = store.scope("default");
  const { buckets } = scope;
  const other = bucketKey("another", "api");
  const set = limitSet([Limit.perSecond("x", 1_000)]);
  return {
    buckets: () => buckets,
    origin: (_, change, nowMs) => ({ asOfMs: nowMs, generation: change }),
    inForce: () => {
      const [state] = buckets.read([bucket]) as readonly ({ limits: readonly { limit: Limit }[] } | undefined)[];
      const rules = new Map(state?.limits.map(({ limit }) => [limit.name, [ruleOf(limit)]]) ?? []);
      return { shards: 1, rules, epochMs: 0 };
    },
    stored: () => {
      const [state] = buckets.read([bucket]) as readonly (StoredBucket | undefined)[];
      return state === undefined ? [] : [{ state, part: undefined }];
    },
    shards: 1,
    isBusy: false,
    hasFaults: false,
    together: async (all) => {
      for (const one of all) await one();
    },
    sweep: async () => {
      const claim = { bucket: other, set, origin: { asOfMs: 0, generation: 0 }, take: [], bypass: false };
      const context = { nowMs: now(), timeoutMs: 60_000, generation: undefined, atomic: false };
      for (let i = 0; i < OTHERS; i++) await buckets.take([claim], context);
    },
    delete: async () => {
      const { entityId } = bucket;
      const event = { eventId: "e", atMs: now(), action: "entity_deleted", entityId, details: {} } as const;
      const entity = newEntity({ id: entityId }, now());
      await scope.entities.create(entity, { ...event, action: "entity_created" });
      await scope.entities.delete(entityId, event);
    },
    resize: () => Promise.resolve(false),
    announce: () => Promise.resolve(),
    fail: () => {},
    restart: () => {},
    close: async () => {
      await store.close();
      closed();
    },
  };
}

/** Single-item conditional writes; each process goes by what it remembers. */
function conditionalSite(world: BucketWorld, bucket: BucketKey, context: SiteContext): BucketSite {
  const random = new SeededRandom(context.seed);
  const table = { now: context.now, random: random.fork(), writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 };
  const shared = conditionalWorld(table, calendar);
  let busy = 0;
  let hasFaults = false;
  // No call waits: all of it happens at one instant.
  const clock = { now: context.now, sleep: () => Promise.resolve() };
  const open = () => {
    const readings = new ConfigReadings();
    const own = random.fork();
    const pause = async () => {
      for (let turns = busy > 1 ? own.integer(0, 6) : 0; turns > 0; turns--) await undefined;
    };
    const { exact, coalesce } = world;
    const line = { random: own.fork(), pause };
    const store = openConditional(shared, { clock, random: () => own.next(), readings, exact, coalesce, line });
    return { store, readings };
  };
  const processes = Array.from({ length: world.processes }, open);
  const of = (by: number) => processes[by] as { store: ConditionalStore; readings: ConfigReadings };
  const items = () =>
    shared.table.entries("default").filter(([{ operation, sheet }]) => operation === undefined && sheet === undefined);
  shared.table.watchTogether((changes) => {
    context.moved();
    for (const { key, before } of changes)
      if (key.operation !== undefined && before === undefined) context.operated(key.operation);
  });
  return {
    buckets: (by) => of(by).store.scope("default").buckets,
    origin: (by, _, nowMs) => ({ asOfMs: nowMs, generation: null, reading: of(by).readings.begin() }),
    inForce: () => {
      const rules = new Map<string, Rule[]>();
      let epochMs = 0;
      for (const [, item] of items()) {
        epochMs = Math.max(epochMs, Number(item.rf));
        for (const rule of rulesIn(item)) rules.set(rule.name, [...(rules.get(rule.name) ?? []), rule]);
      }
      return { shards: Math.max(1, items().length), rules, epochMs };
    },
    stored: () =>
      items().map(([key, item]) => {
        const { state, shardCount: count } = readItem(key, item, calendar);
        return { state, part: count === 1 ? undefined : { index: key.shard, count } };
      }),
    get shards() {
      return Math.max(1, items().length);
    },
    get isBusy() {
      return busy > 1;
    },
    get hasFaults() {
      return hasFaults;
    },
    together: async (all) => {
      busy = all.length;
      await Promise.all(all.map((one) => one()));
      busy = 0;
    },
    sweep: async () => {
      shared.table.sweep(1);
    },
    delete: async () => {
      shared.table.removeWhere("default", () => true);
    },
    resize: async (by, to) => of(by).store.bucketsOf("default").resize(bucket, to, context.now()),
    announce: async (by) => {
      await of(by).store.bucketsOf("default").announce(bucket, context.now());
    },
    fail: (by, call, how, after) => {
      hasFaults = true;
      of(by).store.lineTo("default").failNext(call, how, after);
    },
    restart: (by) => {
      of(by).store.lineTo("default").crash();
      processes[by] = open();
    },
    close: async () => {},
  };
}
