import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqlite } from "../../src/adapters/sqlite/store.ts";
import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import { leaseFrom, leaseText } from "../../src/domain/lease/stored-lease.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { LeaseStore } from "../../src/ports/lease-store.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";
import { isShardKey } from "../../src/protocol/item/write-builder.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { type ConditionalStore, conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import type { StoredBucket } from "../kit/model-stored.ts";
import type { StoredShard } from "../simulation/bucket-balance.ts";
import { calendar } from "../simulation/calendar.ts";
import { readItem } from "../simulation/item-reader.ts";

/** What instances share, in one kind of store. */
export interface LeaseGround {
  /** The store, as somebody sees it who is nowhere in the way. */
  readonly base: Store;
  /** As one more instance has it. */
  open(pause: () => Promise<void>): GroundProcess;
  /** A bucket as it is stored, shard by shard; none where there is none. */
  stored(bucket: BucketKey): readonly StoredShard[];
  close(): Promise<void>;
}

export interface GroundProcess {
  readonly store: Store;
  /** Splits a bucket, or joins its shards; answers whether it did. Absent where there are none. */
  resize?(bucket: BucketKey, to: "more" | "fewer" | 1): Promise<boolean>;
  crash(): void;
}

export type OpenGround = (clock: SimulatedClock, seed: number) => LeaseGround;

export const GROUNDS: Readonly<Record<string, OpenGround>> = {
  memory: () => wholeGround(throughText(openMemory())),
  "memory, step by step": () => wholeGround(inSteps(throughText(openMemory()))),
  SQLite: (clock) => sqliteGround(clock),
  "conditional writes": conditionalGround,
};

/** A store that does each call as a whole. */
function wholeGround(store: Store, closed: () => void = () => {}): LeaseGround {
  const { buckets } = store.scope("default");
  return {
    base: store,
    open: () => ({ store, crash: () => {} }),
    stored: (bucket) => {
      const [state] = buckets.read([bucket]) as readonly (StoredBucket | undefined)[];
      return state === undefined ? [] : [{ state, part: undefined }];
    },
    close: async () => {
      await store.close();
      closed();
    },
  };
}

function sqliteGround(clock: SimulatedClock): LeaseGround {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-leases-"));
  const store = openSqlite({
    file: join(folder, "limiter.db"),
    durability: "normal",
    coalesce: true,
    retention: FILE_RETENTION,
    random: () => 0.5,
    steadyMs: () => clock.now(),
    calendar,
  });
  return wholeGround(store, () => rmSync(folder, { recursive: true }));
}

/** Single-item conditional writes: each instance is a process of its own, and goes by what it remembers. */
function conditionalGround(clock: SimulatedClock, seed: number): LeaseGround {
  const random = new SeededRandom(seed);
  const now = () => clock.now();
  const table = { now, random: random.fork(), writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 };
  const world = conditionalWorld(table, calendar);
  // In every other world others may act between any two writes of a call.
  const isFine = random.chance(0.5);
  const openOne = (pause: (() => Promise<void>) | undefined): ConditionalStore => {
    const own = random.fork();
    const options = { exact: random.chance(0.5), coalesce: random.chance(0.5) };
    const line = { random: own.fork(), ...(pause === undefined ? {} : { pause }) };
    return openConditional(world, { clock, random: () => own.next(), ...options, line });
  };
  return {
    base: throughText(openOne(undefined)),
    open: (pause) => {
      const store = openOne(isFine ? pause : undefined);
      return {
        store: throughText(store),
        resize: (bucket, to) => store.bucketsOf("default").resize(bucket, to, clock.now()),
        crash: () => store.lineTo("default").crash(),
      };
    },
    stored: (bucket) =>
      world.table.entries("default").flatMap(([key, item]) => {
        if (!isShardKey(key) || key.bucket.id !== bucket.id) return [];
        const { state, shardCount: count } = readItem(key, item, calendar);
        return [{ state, part: count === 1 ? undefined : { index: key.shard, count } }];
      }),
    close: async () => {},
  };
}

/** The store with one part of each namespace as it is wanted. */
export function scoped(store: Store, other: (scope: ScopedStore) => ScopedStore): Store {
  return overriding(store, { scope: (id: string) => other(store.scope(id)) });
}

/** The store without its transaction over leases and buckets, as one has it that writes single items. */
export function inSteps(store: Store): Store {
  return scoped(store, (scope) => ({
    ...scope,
    leases: overriding(scope.leases, { isWrittenByTake: false, change: undefined as never }),
  }));
}

/** Records are read from their text, as of a store outside this process: a lease knows no object of who took it. */
function throughText(store: Store): Store {
  const read = (leases: LeaseStore): Partial<LeaseStore> => ({
    get: async (leaseId) => {
      const record = await leases.get(leaseId);
      return record === undefined ? undefined : leaseFrom(leaseId, leaseText(record));
    },
  });
  return scoped(store, (scope) => ({ ...scope, leases: overriding(scope.leases, read(scope.leases)) }));
}
