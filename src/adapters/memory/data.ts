import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { type Namespace, namespaceNotActive } from "../../domain/config/namespace.ts";
import type { Retention } from "../../domain/config/retention.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import type { Turns } from "../../ports/system.ts";
import { namespacePut } from "../../records/bodies.ts";
import { namespaceKey, REGISTRY } from "../../records/keys.ts";
import { DEFAULT } from "../../records/namespaces.ts";
import { type Counted, CountedHours } from "./hour-usage.ts";
import { emptyLeases, type LeaseIndex } from "./lease-index.ts";
import { TurningOrders } from "./list-orders.ts";
import { OrderedMap } from "./ordered-map.ts";
import type { OwnedState } from "./owned-state.ts";
import { MemoryRecords } from "./records.ts";
import { emptyRefusals, type RefusalIndex } from "./refusal-index.ts";

/** A bucket's place in memory: its state is replaced with every write, its usage counted beside it. */
export interface BucketCell extends Counted {
  readonly key: BucketKey;
  /** Undefined when nothing was taken from it, or so long ago that it is full. */
  state: BucketState | undefined;
  /** The same state, while nobody outside the cell has seen it. */
  owned: OwnedState | undefined;
  /** How often cells had been removed when this one was last looked up. */
  foundAt: number;
}

interface DoneOperation {
  readonly entityId: string;
  readonly atMs: number;
  readonly amounts: readonly Amount[];
  readonly asks: string | undefined;
}

/** What a namespace has beside its records. */
export interface NamespaceData {
  readonly buckets: OrderedMap<BucketCell>;
  readonly countedHours: CountedHours;
  /** Purchases and resets of the last days, by bucket and key. */
  readonly operations: Map<string, DoneOperation>;
  readonly leases: LeaseIndex;
  readonly refusals: RefusalIndex;
  /** Of lists whose pages are being asked for. */
  readonly orders: TurningOrders;
}

/** Everything a memory store holds. `generation` grows with each change of configuration, entities or namespaces. */
export interface MemoryData {
  closed: boolean;
  generation: number;
  /** False where it stands in for a store that does not count changes, and tells them apart by their instants. */
  countsChanges: boolean;
  readonly retention: Retention;
  readonly turns: Turns;
  readonly records: MemoryRecords;
  readonly byNamespace: Map<string, NamespaceData>;
}

export function newMemoryData(retention: Retention, turns: Turns): MemoryData {
  const byNamespace = new Map<string, NamespaceData>();
  const beside = {
    requireOpen: () => requireOpen(data),
    generationOf: () => data.generation,
    bump: () => {
      data.generation++;
    },
    hasDueLease: (namespaceId: string, untilMs: number) =>
      (byNamespace.get(namespaceId)?.leases.due.upTo(untilMs, 1) ?? []).length > 0,
    dropEntity: (namespaceId: string, entityId: string) => dropEntity(dataOf(data, namespaceId), entityId),
    dropSome: (namespaceId: string) => dropAll(data, namespaceId),
  };
  const records = new MemoryRecords(beside, retention.auditKeepMs);
  const data: MemoryData = {
    closed: false,
    generation: 1,
    countsChanges: true,
    retention,
    turns,
    records,
    byNamespace,
  };
  records.put(REGISTRY, namespacePut(DEFAULT));
  return data;
}

export function dataOf(data: MemoryData, namespaceId: string): NamespaceData {
  let found = data.byNamespace.get(namespaceId);
  if (found === undefined) {
    found = {
      buckets: new OrderedMap(),
      countedHours: new CountedHours(),
      operations: new Map(),
      leases: emptyLeases(),
      refusals: emptyRefusals(),
      orders: new TurningOrders(data.turns),
    };
    data.byNamespace.set(namespaceId, found);
  }
  return found;
}

export function requireOpen({ closed }: MemoryData): void {
  if (closed) throw new LimiterError("closed", "The memory store is closed; open a new limiter.");
}

/** Throws when the namespace was deleted: nothing may be written into it any more. */
export function requireActive(all: MemoryData, namespaceId: string): void {
  requireOpen(all);
  const found = all.records.find(REGISTRY, namespaceKey(namespaceId))?.body as Namespace | undefined;
  if (found?.status !== "active") throw namespaceNotActive(namespaceId);
}

function dropEntity({ buckets, operations, refusals }: NamespaceData, id: string): void {
  for (const [key, { entityId }] of operations) if (entityId === id) operations.delete(key);
  for (const { key } of buckets.values()) if (key.entityId === id) buckets.delete(key.id);
  for (const [text, { key, entries }] of refusals.cells) {
    if (key.entityId !== id) continue;
    refusals.entryCount -= entries.length;
    refusals.cells.delete(text);
  }
}

function dropAll({ byNamespace }: MemoryData, namespaceId: string): number {
  const data = byNamespace.get(namespaceId);
  if (data === undefined) return 0;
  const { buckets, operations, leases, refusals, orders } = data;
  let hours = 0;
  for (const cell of buckets.values()) hours += cell.hours?.length ?? 0;
  const maps = [buckets, operations, leases.records, leases.keys];
  const rows = maps.reduce((sum, { size }) => sum + size, hours + refusals.entryCount);
  for (const map of maps) map.clear();
  refusals.cells.clear();
  refusals.entryCount = 0;
  orders.clear();
  byNamespace.delete(namespaceId);
  return rows;
}
