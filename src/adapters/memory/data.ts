import type { Amount } from "../../domain/amounts.ts";
import type { AuditEvent } from "../../domain/audit.ts";
import type { BucketKey } from "../../domain/bucket-key.ts";
import type { BucketState } from "../../domain/bucket-state.ts";
import type { ConfigScope, StoredConfig } from "../../domain/config.ts";
import type { Entity } from "../../domain/entity.ts";
import type { Namespace } from "../../domain/namespace.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import type { OwnedState } from "./owned-state.ts";

/** Net tokens of one bucket in one hour. */
export interface HourUsage {
  readonly hourMs: number;
  /** Beside each other, by index: few limits, counted with every take. */
  readonly limits: string[];
  readonly tokens: number[];
  requests: number;
}

/** A bucket's place in memory: its state is replaced with every write, its usage counted beside it. */
export interface BucketCell {
  readonly key: BucketKey;
  /** Undefined when nothing was taken from it, or so long ago that it is full. */
  state: BucketState | undefined;
  /** The same state, while nobody outside the cell has seen it. */
  owned: OwnedState | undefined;
  readonly hours: Map<number, HourUsage>;
  /** The hour last counted: nearly always the one wanted next. */
  last: HourUsage | undefined;
}

interface DoneOperation {
  readonly entityId: string;
  readonly atMs: number;
  readonly amounts: readonly Amount[];
}

export interface NamespaceData {
  readonly buckets: Map<string, BucketCell>;
  readonly entities: Map<string, Entity>;
  readonly configs: Map<string, { readonly scope: ConfigScope; readonly config: StoredConfig }>;
  /** Purchases and resets of the last days, by bucket and key. */
  readonly operations: Map<string, DoneOperation>;
  /** Oldest first. */
  readonly audit: AuditEvent[];
}

/** Everything a memory store holds. `generation` grows with each change of configuration, entities or namespaces. */
export interface MemoryData {
  closed: boolean;
  generation: number;
  readonly namespaces: Map<string, Namespace>;
  readonly byNamespace: Map<string, NamespaceData>;
}

export function dataOf(data: MemoryData, namespaceId: string): NamespaceData {
  let found = data.byNamespace.get(namespaceId);
  if (found === undefined) {
    found = { buckets: new Map(), entities: new Map(), configs: new Map(), operations: new Map(), audit: [] };
    data.byNamespace.set(namespaceId, found);
  }
  return found;
}

/** One page of items ordered by a text key; the cursor is the key of the last item on the page before. */
export function pageByKey<Item>(
  items: Iterable<Item>,
  keyOf: (item: Item) => string,
  { limit, cursor }: PageRequest,
): Page<Item> {
  const rest = [...items]
    .map((item) => ({ item, key: keyOf(item) }))
    .filter(({ key }) => cursor === undefined || key > cursor)
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  return {
    items: page.map(({ item }) => item),
    ...(rest.length > limit && last !== undefined ? { cursor: last.key } : {}),
  };
}
