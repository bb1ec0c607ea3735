import type { ItemKey } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import type { Image } from "../item/codec.ts";
import { writeSheet } from "../process/drive.ts";
import { readItems } from "../process/read-items.ts";
import { RETRY, SHEETS_A_MINUTE_MAX, SHEETS_AT_ONCE } from "../process/retry-policy.ts";
import { closedHourIn, isNothing } from "./hours.ts";
import { sheetWrite } from "./sheet-text.ts";
import { sheetedBy } from "./sheets.ts";

/**
 * Hours that this process has closed, and that are to be put on their sheets: each some time after it was closed, beside a
 * later take of this process, whichever bucket that is on. No timer: what a process leaves undone, the next roll of the bucket,
 * or a sweep, does.
 */
export class SheetQueue {
  readonly #context: ProtocolContext;
  /** By the minute in which they are due. */
  readonly #due = new Map<number, Due[]>();
  #nextDueMs = Number.POSITIVE_INFINITY;

  constructor(context: ProtocolContext) {
    this.#context = context;
  }

  /** From when on some are due. */
  get nextDueMs(): number {
    return this.#nextDueMs;
  }

  /** This process closed an hour, and the item stands as the image shows. */
  add({ key, item }: Image): void {
    const closed = closedHourIn(item);
    if (closed === undefined) return;
    const { clock, caches, random } = this.#context;
    if (isNothing(closed)) {
      caches.of(key.bucket).noteSheet(key.shard, { is: "there", hour: closed.hour });
      return;
    }
    const minute = Math.ceil((clock.now() + random() * WITHIN_MS) / MINUTE_MS);
    const due = this.#due.get(minute) ?? [];
    if (due.length >= SHEETS_A_MINUTE_MAX) return;
    due.push({ key, hour: closed.hour });
    this.#due.set(minute, due);
    this.#nextDueMs = Math.min(this.#nextDueMs, minute * MINUTE_MS);
  }

  /** Writes a few of those that are due. Shards are read first: an entity may have been deleted, and its usage with it. */
  async writeDue(): Promise<void> {
    const { env } = this.#context;
    const due = this.#taken().filter((one) => !this.#isThere(one));
    if (due.length === 0) return;
    const keys = due.map(({ key }) => key);
    const found = await readItems(this.#context, keys, RETRY.sheet);
    for (const [i, { key, hour }] of due.entries()) {
      const closed = found[i] === undefined ? undefined : closedHourIn(found[i]);
      if (closed?.hour === hour) await writeSheet(this.#context, sheetWrite(key, closed, env), RETRY.sheet.callMs);
    }
  }

  /** It was in the way of a roll, and was put on its sheet for that. */
  #isThere({ key, hour }: Due): boolean {
    return sheetedBy(this.#context.caches.of(key.bucket).sheet(key.shard)) === hour;
  }

  #taken(): readonly Due[] {
    const minute = Math.min(...this.#due.keys());
    const due = this.#due.get(minute) ?? [];
    const taken = due.splice(0, SHEETS_AT_ONCE);
    if (due.length === 0) this.#due.delete(minute);
    this.#nextDueMs = Math.min(...this.#due.keys()) * MINUTE_MS;
    return taken;
  }
}

/** An hour of a shard. */
interface Due {
  readonly key: ItemKey;
  readonly hour: number;
}

/** At the top of the hour everybody rolls: the sheets are written some time within this. */
const WITHIN_MS = 600_000;
const MINUTE_MS = 60_000;
