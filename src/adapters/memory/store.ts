import type { Calendar } from "../../domain/calendar.ts";
import { DEFAULT_NAMESPACE } from "../../domain/namespace.ts";
import type { Retention } from "../../domain/retention.ts";
import type { Store } from "../../ports/store.ts";
import type { Turns } from "../../ports/system.ts";
import { MemoryBuckets } from "./buckets.ts";
import { MemoryConfig } from "./config.ts";
import { dataOf, type MemoryData } from "./data.ts";
import { MemoryEntities } from "./entities.ts";
import { requireOpen } from "./in-namespace.ts";
import { MemoryLeases } from "./leases.ts";
import { MemoryManifests } from "./manifests.ts";
import { MemoryNamespaces } from "./namespaces.ts";
import { MemoryPlans } from "./plans.ts";
import { MemoryRefusals } from "./refusals.ts";
import { MemoryUsage } from "./usage.ts";

/** A new, empty store in this process's memory, with the namespace `default`. */
export function openMemory(calendar: Calendar, retention: Retention, turns: Turns): Store {
  return memoryOver(newMemoryData(retention, turns), calendar);
}

export function newMemoryData(retention: Retention, turns: Turns): MemoryData {
  const [namespaces, byNamespace] = [new Map(), new Map()];
  const data: MemoryData = {
    closed: false,
    generation: 1,
    countsChanges: true,
    retention,
    turns,
    namespaces,
    byNamespace,
  };
  data.namespaces.set(DEFAULT_NAMESPACE, {
    id: DEFAULT_NAMESPACE,
    name: DEFAULT_NAMESPACE,
    status: "active",
    createdAtMs: 0,
  });
  return data;
}

/** A store over data that the caller can look at too. */
export function memoryOver(data: MemoryData, calendar: Calendar): Store {
  return {
    name: "memory",
    atomicBucketsMax: Number.POSITIVE_INFINITY,
    tellsThresholds: true,
    namespaces: new MemoryNamespaces(data),
    scope: (namespaceId) => {
      const buckets = new MemoryBuckets(data, namespaceId, calendar);
      return {
        buckets,
        config: new MemoryConfig(data, namespaceId),
        entities: new MemoryEntities(data, namespaceId),
        plans: new MemoryPlans(data, namespaceId),
        usage: new MemoryUsage(data, namespaceId),
        refusals: new MemoryRefusals(data, namespaceId),
        audit: { list: ({ entityId }, page) => dataOf(data, namespaceId).audit.list(entityId, page) },
        manifests: new MemoryManifests(data, namespaceId),
        leases: new MemoryLeases(data, namespaceId, buckets),
      };
    },
    ping: () => requireOpen(data),
    close: () => {
      data.closed = true;
      // Whatever was planned before is stale, and finds the store closed when it is planned again.
      data.generation++;
    },
  };
}
