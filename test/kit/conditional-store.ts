import { type MemoryData, newMemoryData, requireActive } from "../../src/adapters/memory/data.ts";
import { memoryOver } from "../../src/adapters/memory/store.ts";
import { TRUSTED_CLOCK } from "../../src/clock/clock-bounds.ts";
import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import type { Entity } from "../../src/domain/config/entity.ts";
import { MEMORY_RETENTION } from "../../src/domain/config/retention.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Page } from "../../src/domain/names/paging.ts";
import type { EntityStore } from "../../src/ports/config-store.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";
import type { Clock } from "../../src/ports/system.ts";
import { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { type LivePlaces, Propagation } from "../../src/protocol/config/propagate.ts";
import type { ProtocolOptions } from "../../src/protocol/context.ts";
import { OWN } from "../../src/protocol/item/dialect.ts";
import { isShardKey } from "../../src/protocol/item/write-builder.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { NO_TURNS } from "../../src/testing/simulated-clock.ts";
import type { ConditionalLine, LineOptions } from "./conditional-line.ts";
import { ConditionalTable, type TableOptions } from "./conditional-table.ts";
import { ConditionalUsage } from "./conditional-usage.ts";

const USAGE_KEPT_S = 90 * 24 * 3_600;

/** What all processes share: a table of buckets that can do no more than conditional writes, and configuration beside it. */
export interface ConditionalWorld {
  /** Where the buckets are. */
  readonly table: ConditionalTable;
  /** Everything but buckets. */
  readonly data: MemoryData;
  /** Of all processes. */
  readonly calendar: Calendar;
}

/** A new, empty world. */
export function conditionalWorld(options: Omit<TableOptions, "onEvent">, calendar: Calendar): ConditionalWorld {
  const data = newMemoryData(MEMORY_RETENTION, NO_TURNS);
  data.countsChanges = false;
  const table = new ConditionalTable({
    ...options,
    onEvent: (namespaceId, event) => data.records.log(namespaceId, event),
  });
  return { table, data, calendar };
}

/** What one process is made of; what is absent is as in production. */
export interface ConditionalProcess extends Partial<Omit<ProtocolOptions, "items" | "calendar" | "clock" | "random">> {
  /** Its clock, which may differ from those of other processes. */
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  /** How its line to the table behaves. Default: without faults. */
  readonly line?: LineOptions;
  /** A store of items between the protocol and its line. Default: none. */
  readonly through?: (line: ConditionalLine) => ItemStore;
  /** Wraps configuration and entities as they are stored, without what buckets are told of changes. Default: nothing. */
  readonly watched?: (stored: StoredConfigs) => StoredConfigs;
}

/** Configuration, plans and entities of a namespace. */
type StoredConfigs = Pick<ScopedStore, "config" | "entities" | "plans">;

/** A store whose buckets are conditional writes on a simulated table. */
export interface ConditionalStore extends Store {
  /** The way of this process to the items of a namespace. */
  lineTo(namespaceId: string): ConditionalLine;
  /** The buckets of a namespace, as this process sees them. */
  bucketsOf(namespaceId: string): ProtocolBuckets;
}

/**
 * One process of a store that is made of conditional writes: the protocol on a simulated table. Everything but buckets is
 * kept in memory, and shared.
 */
export function openConditional(
  { table, data, calendar }: ConditionalWorld,
  process: ConditionalProcess,
): ConditionalStore {
  const { clock, random, line = {}, through = (own) => own, watched = (stored) => stored, ...given } = process;
  const base = memoryOver(data, calendar);
  const readings = given.readings ?? new ConfigReadings();
  const lines = new Map<string, ConditionalLine>();
  const buckets = new Map<string, ProtocolBuckets>();
  const lineTo = (namespaceId: string): ConditionalLine => {
    const known = lines.get(namespaceId) ?? table.lineTo(namespaceId, line);
    lines.set(namespaceId, known);
    return known;
  };
  const bucketsOf = (namespaceId: string): ProtocolBuckets => {
    const known =
      buckets.get(namespaceId) ??
      new ProtocolBuckets({
        coalesce: true,
        exact: false,
        dialect: OWN,
        denyMemoryMs: 0,
        serverTime: TRUSTED_CLOCK,
        usageKeptS: () => USAGE_KEPT_S,
        bucketsMax: 20_000,
        ...given,
        readings,
        items: through(lineTo(namespaceId)),
        calendar,
        clock,
        random,
      });
    buckets.set(namespaceId, known);
    return known;
  };
  return {
    name: "conditional",
    atomicBucketsMax: (given.dialect ?? OWN).atomicItemsMax,
    tellsThresholds: true,
    lineTo,
    bucketsOf,
    namespaces: overriding(base.namespaces, {
      purge: async (id, event, auditIn, onProgress) => {
        const reply = await base.namespaces.purge(id, event, auditIn, onProgress);
        if (reply.kind !== "purged") return reply;
        const records = reply.records + table.removeWhere(id, () => true);
        onProgress(records);
        return { kind: "purged", records };
      },
    }),
    scope: (namespaceId) => {
      const { audit, manifests, refusals, refusalLog, leases, ...stored } = base.scope(namespaceId);
      const { config, entities, plans } = watched(stored);
      const own = bucketsOf(namespaceId);
      const propagation = new Propagation({
        ...{ buckets: own, clock, stampsBelow: false },
        places: livePlaces(table, namespaceId, entities),
        accessOf: async ({ entityId, resource }) => (await config.resolve(entityId, resource)).access,
        // What a line is late with is not waited for: whether it may be is for the simulation to say.
        settle: async () => {},
      });
      return {
        usage: new ConditionalUsage(table, namespaceId),
        audit,
        manifests,
        plans,
        refusals,
        refusalLog,
        // No transaction covers them and the buckets.
        leases: Object.assign(leases, { isWrittenByTake: false, change: undefined }) as typeof leases,
        buckets: overriding(own, {
          topUp: async (...args) => {
            requireActive(data, namespaceId);
            return own.topUp(...args);
          },
          reset: async (...args) => {
            requireActive(data, namespaceId);
            return own.reset(...args);
          },
        }),
        config: overriding(config, {
          generation: () => undefined,
          resolve: async (entityId, resource) => {
            const reading = readings.begin();
            return { ...(await config.resolve(entityId, resource)), reading, isConsistent: true };
          },
          setPolicy: async (scope, change, event) => {
            const isWritten = await config.setPolicy(scope, change, event);
            if (change.access !== undefined) await propagation.accessChanged(scope, change.access);
            if (change.cascade !== undefined && "entityId" in scope) await propagation.ownerChanged(scope);
            return isWritten;
          },
        }),
        entities: overriding(entities, {
          update: async (id, change, event) => {
            const reply = await entities.update(id, change, event);
            const { parentId, cascade } = change.patch;
            const isMoved = parentId !== undefined || cascade !== undefined;
            if (reply.kind === "updated" && isMoved) {
              await propagation.ownerChanged({ level: "entityDefault", entityId: id });
            }
            return reply;
          },
          delete: async (id, event) => {
            const reply = await entities.delete(id, event);
            if (reply.kind === "deleted") table.removeWhere(namespaceId, ({ bucket }) => bucket.entityId === id);
            return reply;
          },
        }),
      };
    },
    onBackgroundFault: (namespaceId, listener) => bucketsOf(namespaceId).onFault(listener),
    ping: () => base.ping(),
    close: () => base.close(),
  };
}

/** All buckets of the table, and all children: nothing is late. */
function livePlaces(table: ConditionalTable, namespaceId: string, entities: EntityStore): LivePlaces {
  const isUnder = ({ entityId, resource }: BucketKey, scope: ConfigScope) =>
    (!("entityId" in scope) || scope.entityId === entityId) && (!("resource" in scope) || scope.resource === resource);
  return {
    under: async (scope) => {
      const found = table.entries(namespaceId).flatMap(([key]) => (isShardKey(key) ? [key.bucket] : []));
      const buckets = found.filter((bucket) => isUnder(bucket, scope));
      return [...new Map(buckets.map((bucket) => [bucket.id, bucket])).values()];
    },
    childrenOf: async (entityId) => {
      const ids: string[] = [];
      let cursor: string | undefined;
      do {
        const page: Page<Entity> = await entities.children(entityId, {
          limit: 100,
          ...(cursor === undefined ? {} : { cursor }),
        });
        ids.push(...page.items.map(({ id }) => id));
        cursor = page.cursor;
      } while (cursor !== undefined);
      return ids;
    },
  };
}
