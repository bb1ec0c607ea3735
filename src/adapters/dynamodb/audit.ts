import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { AuditStore } from "../../ports/audit-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { AuditIds } from "./audit-id.ts";
import { eventItem, eventOf } from "./audit-record.ts";
import type { Attributes } from "./codec.ts";
import { cursorOf, inChunks, pageOf, placeAfter, where } from "./paging.ts";
import type { Records } from "./records.ts";
import { keyIn, putRecord, type RecordWrite } from "./records-write.ts";
import {
  AUDIT_RETENTION_DAYS,
  auditKey,
  auditPk,
  configKey,
  GSI4PK,
  GSI4SK,
  NAMESPACE_INDEX,
  PK,
  SK,
  type TableKey,
} from "./schema.ts";

/** The audit log of one namespace: its events are written in the transactions of the changes that they are about. */
export class DynamoAudit implements AuditStore {
  readonly #records: Records;
  readonly #namespaceId: string;
  readonly #ids: AuditIds;
  readonly #clock: Clock;
  #keptS: number | undefined;

  constructor(
    namespaceId: string,
    parts: { readonly records: Records; readonly ids: AuditIds; readonly clock: Clock },
  ) {
    this.#records = parts.records;
    this.#namespaceId = namespaceId;
    this.#ids = parts.ids;
    this.#clock = parts.clock;
  }

  /** How long events are kept, in seconds, as far as that was read. */
  get keptS(): number {
    return this.#keptS ?? RETENTION_DAYS * DAY_S;
  }

  /** Takes the system's configuration whenever it is read: it says how long events are kept. */
  learn(system: Attributes | undefined): void {
    const days = Number(system?.[AUDIT_RETENTION_DAYS]?.N ?? RETENTION_DAYS);
    this.#keptS = Math.ceil((Number.isFinite(days) && days > 0 ? days : RETENTION_DAYS) * DAY_S);
  }

  /** The write that belongs into the transaction of a change. */
  async entry(event: AuditEvent): Promise<RecordWrite> {
    if (this.#keptS === undefined) {
      this.learn(await this.#records.get(configKey(this.#namespaceId, { level: "system" })));
    }
    const auditId = this.#ids.of(event);
    const item = eventItem(this.#namespaceId, event, auditId, Math.ceil(this.#clock.now() / 1000) + this.keptS);
    return putRecord(auditKey(this.#namespaceId, event.entityId, auditId), item, undefined);
  }

  list({ entityId }: { readonly entityId?: string }, page: PageRequest): Promise<Page<AuditEvent>> {
    return entityId === undefined ? this.#listAll(page) : this.#listOf(entityId, page);
  }

  async #listOf(entityId: string, { limit, cursor }: PageRequest): Promise<Page<AuditEvent>> {
    const [before] = placeAfter(cursor, 1) ?? [];
    const events = this.#records.query({
      partition: [PK, auditPk(this.#namespaceId, entityId)],
      range: { name: SK, from: PREFIX, to: before ?? `${PREFIX}~` },
      backwards: true,
      consistent: true,
      pageSize: limit + 2,
    });
    const older = where(events, (item) => keyIn(item).sk !== before);
    const { items: found, ...rest } = await pageOf(older, limit, (item) => cursorOf(keyIn(item).sk));
    return { ...rest, items: found.map(eventOf) };
  }

  // The index holds the log entity by entity. Only keys are read there, and only the events of the page are looked up.
  async #listAll({ limit, cursor }: PageRequest): Promise<Page<AuditEvent>> {
    const [sk, pk] = placeAfter(cursor, 2) ?? [];
    const before = sk === undefined || pk === undefined ? undefined : { sk, pk };
    const { items, ...rest } = await pageOf(this.#older(limit + 1, before), limit, (item) => {
      const place = keyIn(item);
      return cursorOf(place.sk, place.pk);
    });
    return { ...rest, items: items.map(eventOf) };
  }

  // What has expired may still stand in the index: then more keys are wanted than there are events on the page.
  async *#older(count: number, before: TableKey | undefined): AsyncGenerator<Attributes> {
    for (let from = before; ; ) {
      const keys = await this.#newest(count, from);
      for (const item of await this.#records.getAll(keys, { consistent: true })) if (item !== undefined) yield item;
      if (keys.length < count) return;
      from = keys.at(-1);
    }
  }

  async #newest(count: number, before: TableKey | undefined): Promise<readonly TableKey[]> {
    const prefix = auditPk(this.#namespaceId, "");
    const keys = this.#records.query({
      index: NAMESPACE_INDEX,
      partition: [GSI4PK, this.#namespaceId],
      range: { name: GSI4SK, prefix },
      keysOnly: true,
    });
    let newest: TableKey[] = [];
    for await (const chunk of inChunks(keys, CHUNK)) {
      const older = chunk.map(keyIn).filter((key) => before === undefined || newestFirst(before, key) < 0);
      newest = [...newest, ...older].sort(newestFirst).slice(0, count);
    }
    return newest;
  }
}

const PREFIX = "#AUDIT#";
const RETENTION_DAYS = 90;
const DAY_S = 86_400;
const CHUNK = 1_000;

function newestFirst(a: TableKey, b: TableKey): number {
  if (a.sk !== b.sk) return a.sk < b.sk ? 1 : -1;
  return a.pk < b.pk ? 1 : a.pk > b.pk ? -1 : 0;
}
