import type { DueNamespace } from "../../ports/config-store.ts";
import { namespaceOf } from "./namespaces-record.ts";
import { entityIndex, type Records, type WriteOnceReply } from "./records.ts";
import { deleteRecord, putRecord, texts } from "./records-write.ts";
import { GSI3SK, namespaceIdKey, TTL } from "./schema.ts";
import { dueHoursPk, dueHoursRange, HOUR_MS, hourKey, hourKeys, hourOf, parseDueHour } from "./schema-leases.ts";

/** The note of an hour is kept as long as an open lease whose end is never written. */
const KEPT_MS = 8 * 24 * HOUR_MS;

/** After this time the index is up to date, and no clock is slow enough to open another lease of the hour. */
const PAST_MS = 600_000;

// The hours in which leases of each namespace end are one small item per namespace and hour, all in one partition of the
// index. One query finds the due leases of all namespaces, and leases themselves cost nothing more.

/** Must be written before a lease that ends in that hour: without it the lease would not be found. */
export function noteHour(records: Records, namespaceId: string, dueAtMs: number): Promise<WriteOnceReply> {
  const item = {
    ...texts(hourKeys(namespaceId, dueAtMs)),
    [TTL]: { N: String(Math.ceil((hourOf(dueAtMs) * HOUR_MS + KEPT_MS) / 1000)) },
  };
  return records.writeOne(putRecord(hourKey(namespaceId, dueAtMs), item, undefined));
}

export async function withDueLeases(records: Records, untilMs: number): Promise<readonly DueNamespace[]> {
  const since = new Map<string, number>();
  for await (const item of records.query(entityIndex(dueHoursPk(), dueHoursRange(untilMs)))) {
    const noted = parseDueHour(item[GSI3SK]?.S ?? "");
    // The earliest hour comes first.
    if (noted !== undefined && !since.has(noted.namespaceId)) since.set(noted.namespaceId, noted.hour * HOUR_MS);
  }
  const ids = [...since.keys()];
  const items = await records.readAll(ids.map(namespaceIdKey), { consistent: false });
  return items.flatMap((item, i) => {
    const namespace = item && namespaceOf(item);
    return namespace?.status === "active" ? [{ namespace, sinceMs: since.get(ids[i] ?? "") ?? 0 }] : [];
  });
}

/** Deletes the note of an hour whose leases have all ended. */
export async function nothingDue(records: Records, namespaceId: string, sinceMs: number, nowMs: number): Promise<void> {
  if (nowMs < sinceMs + HOUR_MS + PAST_MS) return;
  await records.writeOne(deleteRecord(hourKey(namespaceId, sinceMs), undefined));
}
