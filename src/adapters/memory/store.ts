import type { Retention } from "../../domain/config/retention.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import type { Store } from "../../ports/store.ts";
import type { Turns } from "../../ports/system.ts";
import { RecordAudit } from "../../records/audit.ts";
import { RecordEntities } from "../../records/entities.ts";
import { timeAfter } from "../../records/generations.ts";
import { RecordManifests } from "../../records/manifests.ts";
import { RecordNamespaces } from "../../records/namespaces.ts";
import { recordParts } from "../../records/parts.ts";
import { RecordPlans } from "../../records/plans.ts";
import { MemoryBuckets } from "./buckets.ts";
import { MemoryConfig } from "./config.ts";
import { type MemoryData, newMemoryData, requireOpen } from "./data.ts";
import { MemoryLeases } from "./leases.ts";
import { MemoryRefusals } from "./refusals.ts";
import { MemoryUsage } from "./usage.ts";

/** A new, empty store in this process's memory, with the namespace `default`. */
export function openMemory(calendar: Calendar, retention: Retention, turns: Turns): Store {
  return memoryOver(newMemoryData(retention, turns), calendar);
}

/** A store over data that the caller can look at too. */
export function memoryOver(data: MemoryData, calendar: Calendar): Store {
  const parts = recordParts(data.records, {
    of: () => data.generation,
    note: () => {},
    timeAfter: (generation, atMs) => (data.countsChanges ? timeAfter(generation, atMs) : { atMs }),
  });
  return {
    name: "memory",
    atomicBucketsMax: Number.POSITIVE_INFINITY,
    tellsThresholds: true,
    namespaces: new RecordNamespaces(parts),
    scope: (namespaceId) => {
      const buckets = new MemoryBuckets(data, namespaceId, calendar);
      return {
        buckets,
        config: new MemoryConfig(data, parts, namespaceId),
        entities: new RecordEntities(parts, namespaceId),
        plans: new RecordPlans(parts, namespaceId),
        usage: new MemoryUsage(data, namespaceId),
        refusals: new MemoryRefusals(data, namespaceId),
        audit: new RecordAudit(parts, namespaceId),
        manifests: new RecordManifests(parts, namespaceId),
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
