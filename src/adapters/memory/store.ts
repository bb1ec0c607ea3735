import type { Calendar } from "../../domain/calendar.ts";
import { ValidationError } from "../../domain/errors.ts";
import { DEFAULT_NAMESPACE } from "../../domain/namespace.ts";
import type { AuditStore } from "../../ports/audit-store.ts";
import type { Store } from "../../ports/store.ts";
import { MemoryBuckets } from "./buckets.ts";
import { MemoryConfig, requireOpen } from "./config.ts";
import { dataOf, type MemoryData } from "./data.ts";
import { MemoryEntities } from "./entities.ts";
import { MemoryNamespaces } from "./namespaces.ts";
import { MemoryUsage } from "./usage.ts";

/** A new, empty store in this process's memory, with the namespace `default`. */
export function openMemory(calendar: Calendar): Store {
  return memoryOver(newMemoryData(), calendar);
}

export function newMemoryData(): MemoryData {
  const data: MemoryData = { closed: false, generation: 1, namespaces: new Map(), byNamespace: new Map() };
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
    namespaces: new MemoryNamespaces(data),
    scope: (namespaceId) => ({
      buckets: new MemoryBuckets(data, namespaceId, calendar),
      config: new MemoryConfig(data, namespaceId),
      entities: new MemoryEntities(data, namespaceId),
      usage: new MemoryUsage(data, namespaceId),
      audit: auditOf(data, namespaceId),
    }),
    ping: () => requireOpen(data),
    close: () => {
      data.closed = true;
      // Whatever was planned before is stale, and finds the store closed when it is planned again.
      data.generation++;
    },
  };
}

function placeOf(cursor: string): number {
  if (/^\d+$/.test(cursor)) return Number(cursor);
  throw new ValidationError(
    "cursor_invalid",
    `${JSON.stringify(cursor)} is no cursor of this list; pass on what a page answered.`,
  );
}

function auditOf(data: MemoryData, namespaceId: string): AuditStore {
  return {
    list({ entityId }, { limit, cursor }) {
      const { audit } = dataOf(data, namespaceId);
      const items = [];
      // The cursor is the place in the log of the last event shown; the log only grows at its other end.
      let at = cursor === undefined ? audit.length : placeOf(cursor);
      while (at > 0 && items.length < limit) {
        const event = audit[--at];
        if (event !== undefined && (entityId === undefined || event.entityId === entityId)) items.push(event);
      }
      const more = audit.slice(0, at).some((event) => entityId === undefined || event.entityId === entityId);
      return { items, ...(more ? { cursor: String(at) } : {}) };
    },
  };
}
