import { createHash } from "node:crypto";
import type { AuditAction, AuditEvent } from "../../domain/config/audit.ts";
import { given } from "../../domain/names/given.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { AuditStore } from "../../ports/config-store.ts";
import type { Clock, Random } from "../../ports/system.ts";
import { type Attributes, decodeJson, encodeJson, instantOf, textOrNull } from "./codec.ts";
import { compareTexts, cursorOf, inChunks, pageAfter, pageOf, placeAfter, where } from "./paging.ts";
import { namespaceIndex, type Records, tablePartition } from "./records.ts";
import { keyIn, putRecord, type RecordWrite, texts } from "./records-write.ts";
import { Retention } from "./retention.ts";
import {
  ACTION,
  AUDIT_RETENTION_DAYS,
  auditIndexKeys,
  auditKey,
  auditPk,
  configKey,
  DETAILS,
  ENTITY_ID,
  EVENT_ID,
  OWN_EVENT_ID,
  PRINCIPAL,
  RESOURCE,
  SK,
  type TableKey,
  TIMESTAMP,
  TTL,
} from "./schema.ts";

/**
 * Ids of audit events like the original's (ULIDs), which sort by the time of writing: by the writer's clock, and within
 * one process always upwards, also in one millisecond and when the clock is set back. The event's own time is not used:
 * the event may have waited.
 */
export class AuditIds {
  readonly #clock: Clock;
  readonly #random: Random;
  /** An event that is written again after a lost answer keeps its id. */
  readonly #known = new WeakMap<AuditEvent, string>();
  #lastMs = 0;
  #lastTail = 0n;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  of(event: AuditEvent): string {
    let id = this.#known.get(event);
    if (id === undefined) {
      id = this.#next();
      this.#known.set(event, id);
    }
    return id;
  }

  #next(): string {
    const nowMs = Math.max(0, this.#clock.now());
    if (nowMs > this.#lastMs) {
      this.#lastMs = nowMs;
      // Half the range is left for later events of the same millisecond.
      this.#lastTail = BigInt(`0x${createHash("sha256").update(this.#random.id()).digest("hex").slice(0, 20)}`) >> 1n;
    } else this.#lastTail += 1n;
    return crockford(BigInt(this.#lastMs), TIME_DIGITS) + crockford(this.#lastTail, TAIL_DIGITS);
  }
}

const TIME_DIGITS = 10;
const TAIL_DIGITS = 16;
const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

function crockford(value: bigint, digits: number): string {
  let text = "";
  for (let rest = value; text.length < digits; rest >>= 5n) text = DIGITS.charAt(Number(rest & 31n)) + text;
  return text;
}

/** The id of an event that was written elsewhere: by its own time, then by its place among all of its log. */
export function auditIdAt({ atMs }: AuditEvent, place: number): string {
  return crockford(BigInt(Math.max(0, atMs)), TIME_DIGITS) + crockford(BigInt(place), TAIL_DIGITS);
}

/** An event in the original's format, without its key. `untilS`: its expiry, in seconds. */
export function eventItem(namespaceId: string, event: AuditEvent, auditId: string, untilS: number): Attributes {
  const { eventId, atMs, action, entityId, resource, principal } = event;
  return {
    // The original uses this attribute as the cursor of its list, so it must equal the sort key.
    ...texts({ [ENTITY_ID]: entityId, [EVENT_ID]: auditId, [OWN_EVENT_ID]: eventId, [ACTION]: action }),
    ...texts(auditIndexKeys(namespaceId, entityId)),
    [TIMESTAMP]: { S: new Date(atMs).toISOString() },
    [PRINCIPAL]: textOrNull(principal),
    [RESOURCE]: textOrNull(resource),
    [DETAILS]: encodeJson(event.details) ?? { M: {} },
    [TTL]: { N: String(untilS) },
  };
}

function eventOf(item: Attributes): AuditEvent {
  const details = item[DETAILS];
  return {
    eventId: item[OWN_EVENT_ID]?.S ?? item[EVENT_ID]?.S ?? (item[SK]?.S ?? "").slice("#AUDIT#".length),
    atMs: instantOf(item[TIMESTAMP]?.S),
    action: (item[ACTION]?.S ?? "") as AuditAction,
    entityId: item[ENTITY_ID]?.S ?? "",
    ...given({ resource: item[RESOURCE]?.S, principal: item[PRINCIPAL]?.S }),
    details: (details === undefined ? {} : decodeJson(details)) as AuditEvent["details"],
  };
}

interface AuditParts {
  readonly records: Records;
  readonly ids: AuditIds;
  readonly clock: Clock;
}

/** The audit log of one namespace. An event is written in the transaction of its change. */
export class DynamoAudit implements AuditStore {
  readonly #namespaceId: string;
  readonly #parts: AuditParts;
  readonly retention = new Retention(AUDIT_RETENTION_DAYS);

  constructor(namespaceId: string, parts: AuditParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
  }

  /** The write of an event, for the transaction of its change. */
  async entry(event: AuditEvent): Promise<RecordWrite> {
    const { records, ids, clock } = this.#parts;
    if (!this.retention.isKnown) {
      this.retention.learn(await records.get(configKey(this.#namespaceId, { level: "system" })));
    }
    const auditId = ids.of(event);
    const untilS = Math.ceil(clock.now() / 1000) + this.retention.keptS;
    const item = eventItem(this.#namespaceId, event, auditId, untilS);
    return putRecord(auditKey(this.#namespaceId, event.entityId, auditId), item, undefined);
  }

  /** All events, the oldest first: the index is ordered by entity, so their keys are read first. */
  async listOldest({ limit, cursor }: PageRequest): Promise<Page<AuditEvent>> {
    const [sk = "", pk = ""] = placeAfter(cursor, 2) ?? [];
    const prefix = auditPk(this.#namespaceId, "");
    const keys: TableKey[] = [];
    for await (const item of this.#parts.records.query(namespaceIndex(this.#namespaceId, { prefix }))) {
      const key = keyIn(item);
      if (cursor === undefined || newestFirst({ sk, pk }, key) > 0) keys.push(key);
    }
    const page = keys.sort((a, b) => newestFirst(b, a)).slice(0, limit);
    const found = await this.#parts.records.getAll(page);
    const last = page.at(-1);
    const items = found.flatMap((item) => (item === undefined ? [] : [eventOf(item)]));
    return keys.length > limit && last !== undefined ? { items, cursor: cursorOf(last.sk, last.pk) } : { items };
  }

  list({ entityId }: { readonly entityId?: string }, page: PageRequest): Promise<Page<AuditEvent>> {
    return entityId === undefined ? this.#listAll(page) : this.#listOf(entityId, page);
  }

  async #listOf(entityId: string, page: PageRequest): Promise<Page<AuditEvent>> {
    const newest = (before: string | undefined, count: number) => {
      const partition = tablePartition(auditPk(this.#namespaceId, entityId), {
        from: PREFIX,
        to: before ?? `${PREFIX}~`,
      });
      const events = this.#parts.records.query({ ...partition, backwards: true, pageSize: count + 1 });
      return where(events, (item) => keyIn(item).sk !== before);
    };
    const { items, ...rest } = await pageAfter(page, newest, (item) => keyIn(item).sk);
    return { ...rest, items: items.map(eventOf) };
  }

  // The index is ordered by entity. Only keys are read there, and only the events of the page are looked up.
  async #listAll({ limit, cursor }: PageRequest): Promise<Page<AuditEvent>> {
    const [sk, pk] = placeAfter(cursor, 2) ?? [];
    const before = sk === undefined || pk === undefined ? undefined : { sk, pk };
    const { items, ...rest } = await pageOf(this.#older(limit + 1, before), limit, (item) => {
      const place = keyIn(item);
      return cursorOf(place.sk, place.pk);
    });
    return { ...rest, items: items.map(eventOf) };
  }

  // Expired events may still be in the index, so one page of keys may not be enough.
  async *#older(count: number, before: TableKey | undefined): AsyncGenerator<Attributes> {
    for (let from = before; ; ) {
      const keys = await this.#newest(count, from);
      for (const item of await this.#parts.records.getAll(keys)) if (item !== undefined) yield item;
      if (keys.length < count) return;
      from = keys.at(-1);
    }
  }

  async #newest(count: number, before: TableKey | undefined): Promise<readonly TableKey[]> {
    const prefix = auditPk(this.#namespaceId, "");
    const keys = this.#parts.records.query(namespaceIndex(this.#namespaceId, { prefix }));
    let newest: TableKey[] = [];
    for await (const chunk of inChunks(keys, CHUNK)) {
      const older = chunk.map(keyIn).filter((key) => before === undefined || newestFirst(before, key) < 0);
      newest = [...newest, ...older].sort(newestFirst).slice(0, count);
    }
    return newest;
  }
}

const PREFIX = "#AUDIT#";
const CHUNK = 1_000;

function newestFirst(a: TableKey, b: TableKey): number {
  return compareTexts(b.sk, a.sk) || compareTexts(b.pk, a.pk);
}
