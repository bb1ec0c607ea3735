import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { RefusalKey } from "../../domain/charge/refusal-count.ts";
import { type Namespace, namespaceNotActive } from "../../domain/config/namespace.ts";
import type { Retention } from "../../domain/config/retention.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import type { Turns } from "../../ports/system.ts";
import type { CallerRow } from "../../ports/usage-store.ts";
import { namespaceKey, namespacePut, REGISTRY } from "../../records/bodies.ts";
import { DEFAULT } from "../../records/namespaces.ts";
import type { Counted, CountedHours } from "./hour-usage.ts";
import { OrderedMap } from "./ordered-map.ts";
import type { OwnedState } from "./owned-state.ts";
import { MemoryRecords } from "./records.ts";

/** The count of one row of one process in an hour under one key. */
export interface RefusalEntry {
  readonly rowId: string;
  count: number;
}

/** All that was counted in an hour under one key. */
export interface RefusalCell {
  readonly key: RefusalKey;
  readonly entries: RefusalEntry[];
}

/** The refusals of a namespace in memory. */
export interface RefusalIndex {
  /** In each hour by the text of the key. */
  readonly byHour: Map<number, OrderedMap<RefusalCell>>;
  entryCount: number;
  /** When old ones were last looked for. */
  sweptAtMs: number;
}

/** Usage of callers in memory that no bucket counts. */
export interface CallerIndex {
  /** In each hour by entity and resource, the rows of processes by their ids. */
  readonly byHour: Map<
    number,
    OrderedMap<Map<string, { readonly version: number; readonly counts: CallerRow["counts"] }>>
  >;
  rowCount: number;
  /** When old ones were last looked for. */
  sweptAtMs: number;
}

/** A bucket's place in memory: its state is replaced with every write, its usage counted beside it. */
export interface BucketCell extends Counted {
  readonly key: BucketKey;
  /** Undefined when nothing was taken from it, or so long ago that it is full. */
  state: BucketState | undefined;
  /** The state as one that takes write in place, while nobody outside the cell has seen it. */
  owned: OwnedState | undefined;
  /** The number of removals when this cell was last looked up. */
  foundAt: number;
}

interface DoneOperation {
  readonly entityId: string;
  readonly atMs: number;
  readonly amounts: readonly Amount[];
  readonly asks: string | undefined;
}

/** The data of a namespace beside its records. */
export interface NamespaceData {
  readonly buckets: OrderedMap<BucketCell>;
  readonly countedHours: CountedHours;
  /** Purchases and resets of the last days, by bucket and key. */
  readonly operations: Map<string, DoneOperation>;
  readonly refusals: RefusalIndex;
  readonly callers: CallerIndex;
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
      countedHours: new Map(),
      operations: new Map(),
      refusals: { byHour: new Map(), entryCount: 0, sweptAtMs: Number.NEGATIVE_INFINITY },
      callers: { byHour: new Map(), rowCount: 0, sweptAtMs: Number.NEGATIVE_INFINITY },
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

function dropEntity({ buckets, operations, refusals, callers }: NamespaceData, id: string): void {
  for (const cells of callers.byHour.values()) {
    for (const [text, rows] of cells) {
      if (!text.startsWith(`${id}\n`)) continue;
      callers.rowCount -= rows.size;
      cells.delete(text);
    }
  }
  for (const [key, { entityId }] of operations) if (entityId === id) operations.delete(key);
  for (const { key } of buckets.values()) if (key.entityId === id) buckets.delete(key.id);
  for (const cells of refusals.byHour.values()) {
    for (const [text, { key, entries }] of cells) {
      if (key.entityId !== id) continue;
      refusals.entryCount -= entries.length;
      cells.delete(text);
    }
  }
}

function dropAll({ byNamespace }: MemoryData, namespaceId: string): number {
  const data = byNamespace.get(namespaceId);
  if (data === undefined) return 0;
  const { buckets, operations, refusals, callers, countedHours } = data;
  let hours = 0;
  for (const cell of buckets.values()) hours += cell.hours?.length ?? 0;
  const rows = buckets.size + operations.size + hours + refusals.entryCount + callers.rowCount;
  for (const map of [buckets, operations, refusals.byHour, callers.byHour, countedHours]) map.clear();
  refusals.entryCount = 0;
  callers.rowCount = 0;
  byNamespace.delete(namespaceId);
  return rows;
}
