import type { Namespace } from "../../domain/config/namespace.ts";
import type { DueNamespace } from "../../ports/namespace-store.ts";
import { namespaceOf } from "./namespaces-record.ts";
import type { Records, WriteOnceReply } from "./records.ts";
import { deleteRecord, putRecord, texts } from "./records-write.ts";
import { ENTITY_INDEX, GSI3PK, GSI3SK, namespaceIdKey, TTL } from "./schema.ts";
import { dueHoursPk, dueHoursRange, HOUR_MS, hourKey, hourKeys, hourOf, parseDueHour } from "./schema-leases.ts";

/** A note of an hour is kept for so long, as long as an open lease whose end nobody writes down. */
const KEPT_MS = 8 * 24 * HOUR_MS;

/** After so long an index shows what was written, and nobody's clock is so slow that a lease of the hour may still be opened. */
const PAST_MS = 600_000;

/**
 * In which hours leases of which namespaces end: a small item for a namespace and hour, in one partition of the index for the whole
 * table. So whoever looks for due leases asks once for all namespaces, and leases themselves cost nothing more.
 */
export class LeaseHours {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  /** Written before a lease that ends then: a lease without it would not be found. */
  note(namespaceId: string, dueAtMs: number): Promise<WriteOnceReply> {
    const item = {
      ...texts(hourKeys(namespaceId, dueAtMs)),
      [TTL]: { N: String(Math.ceil((hourOf(dueAtMs) * HOUR_MS + KEPT_MS) / 1000)) },
    };
    return this.#records.writeOne(putRecord(hourKey(namespaceId, dueAtMs), item, undefined));
  }

  async withDueLeases(untilMs: number): Promise<readonly DueNamespace[]> {
    const since = new Map<string, number>();
    const range = { name: GSI3SK, ...dueHoursRange(untilMs) };
    for await (const item of this.#records.query({ index: ENTITY_INDEX, partition: [GSI3PK, dueHoursPk()], range })) {
      const noted = parseDueHour(item[GSI3SK]?.S ?? "");
      // The earliest hour comes first.
      if (noted !== undefined && !since.has(noted.namespaceId)) since.set(noted.namespaceId, noted.hour * HOUR_MS);
    }
    const ids = [...since.keys()];
    const items = await this.#records.getAll(ids.map(namespaceIdKey), { consistent: false });
    return items.flatMap((item, i) => {
      const namespace: Namespace | undefined = item === undefined ? undefined : namespaceOf(item);
      if (namespace?.status !== "active") return [];
      return [{ namespace, sinceMs: since.get(ids[i] ?? "") ?? 0 }];
    });
  }

  async nothingDue(namespaceId: string, sinceMs: number, nowMs: number): Promise<void> {
    if (nowMs < sinceMs + HOUR_MS + PAST_MS) return;
    await this.#records.writeOne(deleteRecord(hourKey(namespaceId, sinceMs), undefined));
  }
}
