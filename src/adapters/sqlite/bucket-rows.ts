import assert from "node:assert/strict";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { type Damage, type DamagedItem, ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import type { CronCheck } from "../../domain/limits/schedule.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import { type BucketRecord, withoutLeft } from "../../stored/bucket-record.ts";
import { addAmounts, addText, type Counters, type HourCount, NONE, textOf } from "../../stored/open-hour.ts";
import { isWhole, LEVEL_DAMAGE } from "../../stored/row-damage.ts";
import { shapeFrom } from "../../stored/shape.ts";
import { decoded, encoded } from "./codec.ts";
import type { Connection, Row, Statement } from "./connection.ts";
import { LEVELS_TOGETHER, LevelWrites } from "./level-writes.ts";

interface BucketName {
  readonly namespaceId: string;
  readonly entityId: string;
  readonly resource: string;
}

const GET_HOUR =
  "SELECT requests, counters FROM usage WHERE namespace = ? AND hour_ms = ? AND entity = ? AND resource = ?";
const PUT_HOUR = `INSERT INTO usage (namespace, hour_ms, entity, resource, requests, counters) VALUES (?, ?, ?, ?, ?, ?)
   ON CONFLICT DO UPDATE SET requests = excluded.requests, counters = excluded.counters`;
const ANY_HOUR =
  "SELECT 1 FROM usage INDEXED BY usage_entity WHERE namespace = ? AND entity = ? AND resource = ? LIMIT 1";

/** The table of usage: one row per bucket and hour that is over. Always inside a write transaction. */
export class UsageHours {
  readonly #connection: Connection;
  #added = 0;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  has({ namespaceId, entityId, resource }: BucketName): boolean {
    return this.#connection.prepare(ANY_HOUR).get(namespaceId, entityId, resource) !== undefined;
  }

  add({ namespaceId, entityId, resource }: BucketName, count: HourCount): void {
    const row = this.#connection.prepare(GET_HOUR).get(namespaceId, count.hourMs, entityId, resource);
    const requests = (row === undefined ? 0 : (row[0] as number)) + count.requests;
    const counters: Counters = new Map();
    if (row === undefined) this.#added++;
    else addText(counters, row[1] as string);
    addAmounts(counters, count);
    const put = this.#connection.prepare(PUT_HOUR);
    put.run(namespaceId, count.hourMs, entityId, resource, requests, textOf(counters));
  }

  /** How many rows were added since this was last asked. */
  takeAdded(): number {
    const added = this.#added;
    this.#added = 0;
    return added;
  }
}

/** The place of one bucket: the row as this connection last saw or wrote it. */
export interface Slot {
  /** That of its namespace when it was made: as long as it is the same, the place is still one of them. */
  readonly era: object;
  /** That of the bucket. */
  readonly id: string;
  readonly namespaceId: string;
  readonly key: BucketKey;
  /** 0: there is none in the file. */
  rowId: number;
  row: BucketRecord | undefined;
  /** The text and the hour of the row in the file: while they stay, only the level is written. */
  storedText: string;
  storedHourMs: number;
  /** The row belongs to this reading of the file. */
  reading: number;
  dirty: boolean;
}

/** The places of one namespace, by bucket id. */
export interface NamespaceRows {
  readonly namespaceId: string;
  readonly slots: Map<string, Slot>;
  /** Another object whenever all of them are dropped. */
  era: object;
}

/** Remembered rows are dropped all at once past this number; a miss costs one indexed read. As many as ids have their limits remembered. */
const SLOTS_MAX = 200_000;

/** The last instant that dates know. */
const LAST_MS = 8_640_000_000_000_000;

/** The columns that a row is read from. An hour beyond all dates is damaged; beyond 2^53 the driver would not even hand the row out. */
export const COLUMNS = `id, max(-1, min(hour_ms, ${LAST_MS + 1})), limits, level`;

/**
 * Rows of buckets, read at most once and written at most once in a transaction. They are remembered over transactions: as
 * long as no other connection wrote (`Watch`), the row in memory is the row in the file.
 */
export class BucketRows {
  readonly #select: Statement;
  readonly #insert: Statement;
  readonly #levels: LevelWrites;
  readonly #updateAll: Statement;
  readonly #usage: UsageHours;
  readonly #calendar: CronCheck;
  readonly #namespaces = new Map<string, NamespaceRows>();
  #reading = 1;
  #slotCount = 0;
  #dirty: Slot[] = [];
  #forgotten: { readonly slot: Slot; readonly count: HourCount }[] = [];
  #afterCommit: (() => void)[] = [];

  constructor(connection: Connection, usage: UsageHours, calendar: CronCheck) {
    this.#usage = usage;
    this.#calendar = calendar;
    this.#select = connection.prepare(
      `SELECT ${COLUMNS} FROM bucket WHERE namespace = ? AND entity = ? AND resource = ?`,
    );
    this.#insert = connection.prepare(
      "INSERT INTO bucket (namespace, entity, resource, hour_ms, limits, level) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#levels = new LevelWrites(connection);
    this.#updateAll = connection.prepare("UPDATE bucket SET level = ?, hour_ms = ?, limits = ? WHERE id = ?");
  }

  of(namespaceId: string): NamespaceRows {
    let rows = this.#namespaces.get(namespaceId);
    if (rows === undefined) {
      rows = { namespaceId, slots: new Map(), era: {} };
      this.#namespaces.set(namespaceId, rows);
    }
    return rows;
  }

  /** The place of a bucket, its row read from the file unless it is known. Inside a transaction only. */
  slot(rows: NamespaceRows, key: BucketKey): Slot {
    let slot = rows.slots.get(key.id);
    if (slot === undefined) {
      slot = emptySlot(rows, key);
      rows.slots.set(key.id, slot);
      this.#slotCount++;
    }
    if (slot.reading !== this.#reading) this.#load(slot);
    return slot;
  }

  /** The place for a claim. A link keeps it as long as it must still be there: to look up one of many ids costs most. */
  slotFor(rows: NamespaceRows, { bucket, link }: Pick<Claim, "bucket" | "link">): Slot {
    const known = link?.place as Slot | undefined;
    if (known?.era !== rows.era) {
      const slot = this.slot(rows, bucket);
      if (link !== undefined) link.place = slot;
      return slot;
    }
    if (known.reading !== this.#reading) this.#load(known);
    return known;
  }

  /** The place for a change that does not depend on the row: one that cannot be read counts as missing. */
  slotToReplace(rows: NamespaceRows, key: BucketKey): Slot {
    try {
      return this.slot(rows, key);
    } catch (error) {
      if (error instanceof ItemUnreadable) return this.#emptied(rows, key);
      throw error;
    }
  }

  put(slot: Slot, row: BucketRecord): void {
    slot.row = row;
    if (slot.dirty) return;
    slot.dirty = true;
    this.#dirty.push(slot);
  }

  /** Counts usage of a bucket that was forgotten. One that has no usage at all was deleted, and nothing may bring it back. */
  countForgotten(slot: Slot, count: HourCount): void {
    this.#forgotten.push({ slot, count });
  }

  /** Calls back once what was put is committed, and never where it is not. */
  afterCommit(callback: () => void): void {
    this.#afterCommit.push(callback);
  }

  /** The transaction of what was written is committed. */
  committed(): void {
    if (this.#afterCommit.length === 0) return;
    const callbacks = this.#afterCommit;
    this.#afterCommit = [];
    for (const callback of callbacks) callback();
  }

  /** Writes what was put, and answers how many buckets are new. */
  write(): number {
    let inserted = 0;
    const isMany = this.#dirty.length >= LEVELS_TOGETHER;
    for (const slot of this.#dirty) {
      if (slot.rowId === 0) inserted++;
      this.#store(slot, isMany);
    }
    this.#levels.end();
    this.#dirty = [];
    for (const { slot, count } of this.#forgotten) {
      const name = { namespaceId: slot.namespaceId, ...slot.key };
      if (this.#usage.has(name)) this.#usage.add(name, count);
    }
    this.#forgotten = [];
    if (this.#slotCount > SLOTS_MAX) this.#drop();
    return inserted;
  }

  /** Drops the remembered rows: they were changed by others than `put`. What waits for the commit goes on waiting. */
  reread(): void {
    this.#reading++;
  }

  /** The transaction was rolled back: drops the remembered rows, and all that was put and waited for the commit. */
  rolledBack(): void {
    this.reread();
    for (const slot of this.#dirty) slot.dirty = false;
    this.#dirty = [];
    this.#forgotten = [];
    this.#afterCommit = [];
    this.#levels.forget();
  }

  #load(slot: Slot): void {
    const found = this.#select.get(slot.namespaceId, slot.key.entityId, slot.key.resource);
    if (found === undefined) {
      slot.reading = this.#reading;
      slot.rowId = 0;
      slot.row = undefined;
      return;
    }
    slot.row = bucketRow(found, slot.key, this.#calendar);
    slot.reading = this.#reading;
    slot.rowId = found[0] as number;
    slot.storedText = slot.row.shape.text;
    slot.storedHourMs = slot.row.open.hourMs;
  }

  /** The place of a row that cannot be read, as if there were none: what is put there replaces it. */
  #emptied(rows: NamespaceRows, key: BucketKey): Slot {
    const found = this.#select.get(rows.namespaceId, key.entityId, key.resource);
    const slot = rows.slots.get(key.id) ?? emptySlot(rows, key);
    Object.assign(slot, { rowId: found?.[0] ?? 0, row: undefined, storedText: "", storedHourMs: -1 });
    slot.reading = this.#reading;
    return slot;
  }

  /** `isMany`: among so many that levels are written together. */
  #store(slot: Slot, isMany: boolean): void {
    const { namespaceId, key } = slot;
    let row = slot.row as BucketRecord;
    if (row.left.length > 0) {
      for (const count of row.left) this.#usage.add({ namespaceId, ...key }, count);
      row = withoutLeft(row);
      slot.row = row;
    }
    const { hourMs } = row.open;
    const { text } = row.shape;
    const bytes = encoded(row.state, row.open, row.shape);
    if (slot.rowId === 0) {
      const { lastInsertRowid } = this.#insert.run(namespaceId, key.entityId, key.resource, hourMs, text, bytes);
      slot.rowId = Number(lastInsertRowid);
    } else if (text === slot.storedText && hourMs === slot.storedHourMs) {
      if (isMany) this.#levels.put(slot, bytes);
      else this.#levels.write(slot, bytes);
    } else {
      const { changes } = this.#updateAll.run(bytes, hourMs, text, slot.rowId);
      // An update that meets no row would be a grant that is not stored anywhere.
      assert(Number(changes) === 1, `The bucket ${key.entityId} on ${key.resource} is gone, but is still in memory.`);
    }
    slot.storedText = text;
    slot.storedHourMs = hourMs;
    slot.dirty = false;
  }

  #drop(): void {
    for (const rows of this.#namespaces.values()) {
      rows.slots.clear();
      rows.era = {};
    }
    this.#slotCount = 0;
  }
}

/** A row, or what of it cannot be read. */
type DecodedRow =
  | { readonly kind: "row"; readonly row: BucketRecord }
  | { readonly kind: "damaged"; readonly damage: Damage };

/** A row from the columns of `COLUMNS`. */
export function decodedRow(columns: Row, calendar: CronCheck): DecodedRow {
  const [, hourMs, limits, level] = columns;
  const shape = shapeFrom(limits, calendar);
  if (shape === undefined) return damaged({ attribute: "limits", value: limits, wants: "limits as JSON" });
  if (!isWhole(hourMs, 0, LAST_MS))
    return damaged({ attribute: "hour_ms", value: hourMs, wants: "the start of an hour" });
  const found = decoded(shape, level as Uint8Array, hourMs);
  if (found === undefined) return damaged({ ...LEVEL_DAMAGE, value: level });
  return { kind: "row", row: { ...found, shape, left: NONE } };
}

/** A row from the columns of `COLUMNS`; throws `ItemUnreadable` where it cannot be read. */
export function bucketRow(columns: Row, bucket: DamagedItem["bucket"], calendar: CronCheck): BucketRecord {
  const found = decodedRow(columns, calendar);
  if (found.kind === "damaged") throw new ItemUnreadable({ bucket, shard: 0 }, found.damage);
  return found.row;
}

function damaged(damage: Damage): DecodedRow {
  return { kind: "damaged", damage };
}

function emptySlot({ era, namespaceId }: NamespaceRows, key: BucketKey): Slot {
  return {
    era,
    id: key.id,
    namespaceId,
    key,
    rowId: 0,
    row: undefined,
    storedText: "",
    storedHourMs: 0,
    reading: 0,
    dirty: false,
  };
}
