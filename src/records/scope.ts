import type { Retention } from "../domain/config/retention.ts";
import type { CountStore } from "../ports/record-store.ts";
import type { ScopedStore } from "../ports/store.ts";
import { RecordAudit } from "./audit.ts";
import { RecordConfig } from "./config.ts";
import { RecordEntities } from "./entities.ts";
import { type LeasesByTakes, RecordLeases } from "./leases.ts";
import { RecordManifests } from "./manifests.ts";
import type { RecordParts } from "./parts.ts";
import { RecordPlans } from "./plans.ts";
import { RecordRefusals } from "./refusals.ts";
import { RecordUsage } from "./usage.ts";

interface ScopeOptions {
  readonly retention: Retention;
  readonly counts: CountStore;
  /** What of leases the takes of the store write. */
  readonly takes: LeasesByTakes;
}

/** Of a store whose takes write no leases. */
export const NO_LEASES_BY_TAKES: LeasesByTakes = { isWrittenByTake: false, writeOf: () => undefined };

/** Everything of one namespace but its buckets. */
export function recordScope(
  parts: RecordParts,
  namespaceId: string,
  { retention, counts, takes }: ScopeOptions,
): Omit<ScopedStore, "buckets"> {
  const isCounted = retention.usageKeepMs !== undefined;
  return {
    config: new RecordConfig(parts, namespaceId),
    entities: new RecordEntities(parts, namespaceId),
    plans: new RecordPlans(parts, namespaceId),
    usage: new RecordUsage(counts, namespaceId, isCounted),
    refusals: new RecordRefusals(parts, counts, namespaceId, isCounted),
    audit: new RecordAudit(parts, namespaceId),
    manifests: new RecordManifests(parts, namespaceId),
    leases: new RecordLeases(parts, namespaceId, takes),
  };
}
