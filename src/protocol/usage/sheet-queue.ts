import type { ItemKey } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import type { Image } from "../item/codec.ts";
import { readItems, writeSheet } from "../process/drive.ts";
import { RETRY, SHEETS_A_MINUTE_MAX, SHEETS_AT_ONCE } from "../process/retry-policy.ts";
import { closedHourIn, isNothing } from "./hours.ts";
import { sheetedBy, sheetWrite } from "./sheets.ts";

/**
 * Hours that this process has closed and that must be put on their sheets: each some time later, together with a take of this
 * process on any bucket. There is no timer: what a process leaves undone, the next roll of the bucket or a sweep does.
 */
export class SheetQueue {
  readonly #context: ProtocolContext;
  readonly #due = new Map<number, Due[]>();
  /** The instant from which some are due. */
  nextDueMs = Number.POSITIVE_INFINITY;

  constructor(context: ProtocolContext) {
    this.#context = context;
  }

  /** This process closed an hour; `image` shows the item after it. */
  add({ key, item }: Image): void {
    const closed = closedHourIn(item);
    if (closed === undefined) return;
    const { clock, caches, random } = this.#context;
    if (isNothing(closed)) {
      caches.of(key.bucket).sheets[key.shard] = { is: "there", hour: closed.hour };
      return;
    }
    const minute = Math.ceil((clock.now() + random() * WITHIN_MS) / MINUTE_MS);
    const due = this.#due.get(minute) ?? [];
    if (due.length >= SHEETS_A_MINUTE_MAX) return;
    due.push({ key, hour: closed.hour });
    this.#due.set(minute, due);
    this.nextDueMs = Math.min(this.nextDueMs, minute * MINUTE_MS);
  }

  /** Writes a few of those that are due. Shards are read first: an entity may have been deleted, and its usage with it. */
  async writeDue(): Promise<void> {
    const { env } = this.#context;
    const due = this.#takeDue().filter((one) => !this.#isThere(one));
    if (due.length === 0) return;
    const keys = due.map(({ key }) => key);
    const found = await readItems(this.#context, keys, RETRY.sheet);
    for (const [i, { key, hour }] of due.entries()) {
      const closed = found[i] === undefined ? undefined : closedHourIn(found[i]);
      if (closed?.hour === hour) await writeSheet(this.#context, sheetWrite(key, closed, env), RETRY.sheet.callMs);
    }
  }

  /** True if a roll has already put it on its sheet. */
  #isThere({ key, hour }: Due): boolean {
    return sheetedBy(this.#context.caches.of(key.bucket).sheets[key.shard]) === hour;
  }

  #takeDue(): readonly Due[] {
    const minute = Math.min(...this.#due.keys());
    const due = this.#due.get(minute) ?? [];
    const taken = due.splice(0, SHEETS_AT_ONCE);
    if (due.length === 0) this.#due.delete(minute);
    this.nextDueMs = Math.min(...this.#due.keys()) * MINUTE_MS;
    return taken;
  }
}

interface Due {
  readonly key: ItemKey;
  readonly hour: number;
}

/** All processes roll at the top of the hour: the sheets are spread over this time. */
const WITHIN_MS = 600_000;
const MINUTE_MS = 60_000;
