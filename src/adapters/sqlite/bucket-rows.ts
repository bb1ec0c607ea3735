import assert from "node:assert/strict";
import type { BucketKey } from "../../domain/bucket-key.ts";
import type { BucketState } from "../../domain/bucket-state.ts";
import { decoded, encoded, type Shape, shapeFrom } from "./codec.ts";
import type { Connection, Row, Statement } from "./connection.ts";
import { type HourCount, NONE, type OpenHour } from "./open-hour.ts";
import type { UsageHours } from "./usage-hours.ts";

/** A bucket with its usage. A value; each change makes a new one, so that a call that fails half-way changed nothing. */
export interface BucketRow {
  readonly state: BucketState;
  readonly shape: Shape;
  readonly open: OpenHour;
  /** Usage that goes to its table when the row is written. */
  readonly left: readonly HourCount[];
}

/** The place of one bucket: the row as this connection last saw or wrote it. */
export interface Slot {
  readonly namespaceId: string;
  readonly key: BucketKey;
  /** 0: there is none in the file. */
  rowId: number;
  row: BucketRow | undefined;
  /** Of the row in the file: while they stay, only the level is written. */
  storedText: string;
  storedHourMs: number;
  /** Which reading of the file the row belongs to. */
  reading: number;
  dirty: boolean;
}

/** The places of one namespace, by bucket id. */
export interface NamespaceRows {
  readonly namespaceId: string;
  readonly slots: Map<string, Slot>;
}

/** Remembered rows are dropped all at once past this number; a miss costs one indexed read. */
const SLOTS_MAX = 10_000;

const COLUMNS = "id, hour_ms, limits, level";

/**
 * Rows of buckets, read at most once and written at most once in a transaction. They are remembered over transactions: as
 * long as no other connection wrote (`Watch`), the row in memory is the row in the file.
 */
export class BucketRows {
  readonly #select: Statement;
  readonly #insert: Statement;
  readonly #updateLevel: Statement;
  readonly #updateAll: Statement;
  readonly #usage: UsageHours;
  readonly #namespaces = new Map<string, NamespaceRows>();
  #reading = 1;
  #slotCount = 0;
  #dirty: Slot[] = [];

  constructor(connection: Connection, usage: UsageHours) {
    this.#usage = usage;
    this.#select = connection.prepare(
      `SELECT ${COLUMNS} FROM bucket WHERE namespace = ? AND entity = ? AND resource = ?`,
    );
    this.#insert = connection.prepare(
      "INSERT INTO bucket (namespace, entity, resource, hour_ms, limits, level) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#updateLevel = connection.prepare("UPDATE bucket SET level = ? WHERE id = ?");
    this.#updateAll = connection.prepare("UPDATE bucket SET level = ?, hour_ms = ?, limits = ? WHERE id = ?");
  }

  of(namespaceId: string): NamespaceRows {
    let rows = this.#namespaces.get(namespaceId);
    if (rows === undefined) {
      rows = { namespaceId, slots: new Map() };
      this.#namespaces.set(namespaceId, rows);
    }
    return rows;
  }

  /** The place of a bucket, its row read from the file unless it is known. Inside a transaction only. */
  slot(rows: NamespaceRows, key: BucketKey): Slot {
    let slot = rows.slots.get(key.id);
    if (slot === undefined) {
      slot = emptySlot(rows.namespaceId, key);
      rows.slots.set(key.id, slot);
      this.#slotCount++;
    }
    if (slot.reading !== this.#reading) this.#load(slot);
    return slot;
  }

  put(slot: Slot, row: BucketRow): void {
    slot.row = row;
    if (slot.dirty) return;
    slot.dirty = true;
    this.#dirty.push(slot);
  }

  /** Counts usage of a bucket that was forgotten. One that has no usage at all was deleted, and nothing may bring it back. */
  countForgotten({ namespaceId, key }: Slot, count: HourCount): void {
    const name = { namespaceId, ...key };
    if (this.#usage.has(name)) this.#usage.add(name, count);
  }

  /** Writes what was put, and answers how many buckets are new. */
  write(): number {
    let inserted = 0;
    for (const slot of this.#dirty) {
      if (slot.rowId === 0) inserted++;
      this.#store(slot);
    }
    this.#dirty = [];
    if (this.#slotCount > SLOTS_MAX) this.#drop();
    return inserted;
  }

  /** Drops the remembered rows: another connection wrote, or our transaction was rolled back. */
  forget(): void {
    this.#reading++;
    for (const slot of this.#dirty) slot.dirty = false;
    this.#dirty = [];
  }

  #load(slot: Slot): void {
    const found = this.#select.get(slot.namespaceId, slot.key.entityId, slot.key.resource);
    slot.reading = this.#reading;
    if (found === undefined) {
      slot.rowId = 0;
      slot.row = undefined;
      return;
    }
    slot.rowId = found[0] as number;
    slot.row = bucketRow(found);
    slot.storedText = slot.row.shape.text;
    slot.storedHourMs = slot.row.open.hourMs;
  }

  #store(slot: Slot): void {
    const { namespaceId, key } = slot;
    let row = slot.row as BucketRow;
    if (row.left.length > 0) {
      for (const count of row.left) this.#usage.add({ namespaceId, ...key }, count);
      row = { state: row.state, shape: row.shape, open: row.open, left: NONE };
      slot.row = row;
    }
    const { hourMs } = row.open;
    const { text } = row.shape;
    const bytes = encoded(row.state, row.open, row.shape);
    if (slot.rowId === 0) {
      const { lastInsertRowid } = this.#insert.run(namespaceId, key.entityId, key.resource, hourMs, text, bytes);
      slot.rowId = Number(lastInsertRowid);
    } else {
      const same = text === slot.storedText && hourMs === slot.storedHourMs;
      const { changes } = same
        ? this.#updateLevel.run(bytes, slot.rowId)
        : this.#updateAll.run(bytes, hourMs, text, slot.rowId);
      // An update that meets no row would be a grant that is not stored anywhere.
      assert(Number(changes) === 1, `The bucket ${key.entityId} on ${key.resource} is gone, but was remembered.`);
    }
    slot.storedText = text;
    slot.storedHourMs = hourMs;
    slot.dirty = false;
  }

  #drop(): void {
    for (const { slots } of this.#namespaces.values()) slots.clear();
    this.#slotCount = 0;
  }
}

/** A row from the columns `id, hour_ms, limits, level`. */
export function bucketRow(columns: Row): BucketRow {
  const shape = shapeFrom(columns[2] as string);
  const { state, open } = decoded(shape, columns[3] as Uint8Array, columns[1] as number);
  return { state, shape, open, left: NONE };
}

function emptySlot(namespaceId: string, key: BucketKey): Slot {
  return {
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
