import type { AuditEvent } from "../domain/config/audit.ts";
import type { Retention } from "../domain/config/retention.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import { andThen } from "../domain/steps.ts";
import type { AuditStore } from "../ports/config-store.ts";
import type { CountStore } from "../ports/record-store.ts";
import type { ScopedStore } from "../ports/store.ts";
import { pageOf } from "../stored/cursor.ts";
import { configOn } from "./config.ts";
import { entitiesOn } from "./entities.ts";
import { type LeasesByTakes, leasesOn } from "./leases.ts";
import { manifestsOn } from "./manifests.ts";
import { plansOn } from "./plans.ts";
import { type RecordParts, ScopedRecords } from "./scoped-records.ts";
import { refusalLogOn, refusalsOn, usageOn } from "./usage.ts";

interface ScopeOptions {
  readonly retention: Retention;
  readonly counts: CountStore;
  readonly takes: LeasesByTakes;
}

/** For a store whose takes write no leases. */
export const NO_LEASES_BY_TAKES: LeasesByTakes = { isWrittenByTake: false, writeOf: () => undefined };

/** Everything of one namespace but its buckets. */
export function recordScope(
  parts: RecordParts,
  namespaceId: string,
  { retention, counts, takes }: ScopeOptions,
): Omit<ScopedStore, "buckets"> {
  const records = new ScopedRecords(parts, namespaceId);
  const isCounted = retention.usageKeepMs !== undefined;
  return {
    ...namedOn(records),
    config: configOn(records),
    usage: usageOn(records, counts, isCounted),
    refusals: refusalsOn(records, counts, isCounted),
    refusalLog: refusalLogOn(records, isCounted),
    leases: leasesOn(records, takes),
  };
}

/** The ports that no take uses. */
export function namedOn(records: ScopedRecords): Pick<ScopedStore, "entities" | "plans" | "manifests" | "audit"> {
  return {
    entities: entitiesOn(records),
    plans: plansOn(records),
    manifests: manifestsOn(records),
    audit: auditOn(records),
  };
}

/** The audit log, in the order in which events were written; cursors are numbers of that order. */
function auditOn(records: ScopedRecords): AuditStore {
  return {
    list: (filter, { limit, cursor }) => {
      const after = cursor === undefined ? undefined : [numberIn(cursor)];
      return andThen(records.list({ kind: "audit", of: "all", ...filter }, after, limit + 1), (found) => {
        const page = pageOf(found, limit, ({ place }) => place[0] as string);
        return { ...page, items: page.items.map(({ body }) => body as AuditEvent) };
      });
    },
  };
}

function numberIn(cursor: string): string {
  const id = Number(cursor);
  if (Number.isSafeInteger(id) && id > 0) return cursor;
  throw new ValidationError(
    "cursor_invalid",
    `Not a cursor of the audit log: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}
