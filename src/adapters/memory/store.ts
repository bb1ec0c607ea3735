import type { Retention } from "../../domain/config/retention.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { Store } from "../../ports/store.ts";
import type { Turns } from "../../ports/system.ts";
import { namespacesOn } from "../../records/namespaces.ts";
import { namedOn } from "../../records/scope.ts";
import { recordParts, ScopedRecords } from "../../records/scoped-records.ts";
import { timeAfter } from "../../records/seen-changes.ts";
import { MemoryBuckets } from "./buckets.ts";
import { memoryCallers } from "./caller-usage.ts";
import { memoryConfigOn } from "./config.ts";
import { memoryCopies } from "./copies.ts";
import { type MemoryData, newMemoryData, requireOpen } from "./data.ts";
import { memoryRefusalLog, memoryRefusals } from "./refusals.ts";
import { memoryUsage } from "./usage.ts";

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
    namespaces: namespacesOn(parts),
    scope: (namespaceId) => {
      const records = new ScopedRecords(parts, namespaceId);
      const buckets = new MemoryBuckets(data, namespaceId, calendar);
      return {
        ...namedOn(records),
        buckets,
        config: memoryConfigOn(data, records),
        usage: memoryUsage(data, namespaceId),
        refusals: memoryRefusals(data, namespaceId),
        refusalLog: memoryRefusalLog(data, records),
        callers: memoryCallers(data, namespaceId),
        leases: buckets.leases,
        copy: memoryCopies(data, records),
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
