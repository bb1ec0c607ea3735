import type { Amount } from "../../domain/amounts.ts";
import type { BucketKey } from "../../domain/bucket-key.ts";
import type { BucketState } from "../../domain/bucket-state.ts";
import type { ConfigScope, StoredConfig } from "../../domain/config.ts";
import type { Entity } from "../../domain/entity.ts";
import type { Namespace } from "../../domain/namespace.ts";
import type { OwnedPiece } from "../../domain/piece.ts";
import type { Plan } from "../../domain/plan.ts";
import type { PlanStint } from "../../domain/plan-stints.ts";
import type { Retention } from "../../domain/retention.ts";
import type { OwnerRecord } from "../../ports/manifest-store.ts";
import type { Turns } from "../../ports/system.ts";
import { MemoryAudit } from "./audit.ts";
import { ConfigHistories } from "./config-histories.ts";
import { type Counted, CountedHours } from "./hour-usage.ts";
import { emptyLeases, type LeaseIndex } from "./lease-index.ts";
import { TurningOrders } from "./list-orders.ts";
import { OrderedMap } from "./ordered-map.ts";
import type { OwnedState } from "./owned-state.ts";
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

export interface NamespaceData {
  readonly buckets: OrderedMap<BucketCell>;
  readonly countedHours: CountedHours;
  readonly entities: OrderedMap<Entity>;
  readonly plans: Map<string, Plan>;
  readonly configs: Map<string, { readonly scope: ConfigScope; readonly config: StoredConfig }>;
  /** What the scopes said of limits over time, also of those that say nothing any more. */
  readonly versions: ConfigHistories;
  /** The plans of entities that have, or had, one; by entity. */
  readonly stints: Map<string, readonly PlanStint[]>;
  /** Purchases and resets of the last days, by bucket and key. */
  readonly operations: Map<string, DoneOperation>;
  /** Declared pieces by their key, and those who declare. */
  readonly owned: Map<string, OwnedPiece>;
  readonly owners: Map<string, OwnerRecord>;
  readonly leases: LeaseIndex;
  readonly audit: MemoryAudit;
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
  readonly namespaces: Map<string, Namespace>;
  readonly byNamespace: Map<string, NamespaceData>;
}

export function dataOf(data: MemoryData, namespaceId: string): NamespaceData {
  let found = data.byNamespace.get(namespaceId);
  if (found === undefined) {
    found = {
      buckets: new OrderedMap(),
      countedHours: new CountedHours(),
      entities: new OrderedMap(),
      plans: new Map(),
      configs: new Map(),
      versions: new ConfigHistories(),
      stints: new Map(),
      operations: new Map(),
      owned: new Map(),
      owners: new Map(),
      leases: emptyLeases(),
      audit: new MemoryAudit(data.retention.auditKeepMs),
      refusals: emptyRefusals(),
      orders: new TurningOrders(data.turns),
    };
    data.byNamespace.set(namespaceId, found);
  }
  return found;
}
