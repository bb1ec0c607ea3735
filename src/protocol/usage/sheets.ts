import type { ItemKey, ItemWrite, Undecided } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import type { Image } from "../item/codec.ts";
import type { SheetNote } from "../process/bucket-cache.ts";
import { backoffMs, RETRY } from "../process/retry-policy.ts";
import type { Env } from "../take/intent.ts";
import { closedHourIn, hourOfSheet, isNothing, sheetFirst, sheetWrite } from "./hours.ts";

/** A closed hour is put on its sheet before anything else is done. */
export interface SheetAction {
  readonly do: "sheet";
  readonly write: ItemWrite;
}

/** How long a sheet that could not be written is left alone; the hour that is open goes on meanwhile. */
const AGAIN_MS = 1_000;

/** The hour of the shard that is known to be on its sheet. */
export function sheetedBy(note: SheetNote | undefined): number | undefined {
  return note?.is === "there" ? note.hour : undefined;
}

/** What has to be put on its sheet before a write with this reading can close the open hour; undefined: nothing, or not now. */
export function sheetBefore(
  image: Image,
  readingMs: number,
  note: SheetNote | undefined,
  env: Env,
): SheetAction | undefined {
  const closed = sheetFirst(image, readingMs, sheetedBy(note));
  if (closed === undefined) return undefined;
  // The reading is that of the whole request: the attempt may well have been made after it. Far after it is another clock's.
  const wasTried = note?.is === "unwritable" && note.hour === closed.hour && Math.abs(readingMs - note.atMs) < AGAIN_MS;
  if (wasTried) return undefined;
  return { do: "sheet", write: sheetWrite(image.key, closed, env) };
}

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
    if (due.length >= A_MINUTE_MAX) return;
    due.push({ key, hour: closed.hour });
    this.#due.set(minute, due);
    this.#nextDueMs = Math.min(this.#nextDueMs, minute * MINUTE_MS);
  }

  /** Writes a few of those that are due. Shards are read first: an entity may have been deleted, and its usage with it. */
  async writeDue(): Promise<void> {
    const { items, env } = this.#context;
    const due = this.#taken().filter((one) => !this.#isThere(one));
    if (due.length === 0) return;
    const call = { timeoutMs: RETRY.sheet.callMs };
    const found = await items.read(
      due.map(({ key }) => key),
      { consistent: true },
      call,
    );
    for (const [i, { key, hour }] of due.entries()) {
      const closed = found[i] === undefined ? undefined : closedHourIn(found[i]);
      if (closed?.hour === hour) await writeSheet(this.#context, sheetWrite(key, closed, env), call.timeoutMs);
    }
  }

  /** It was in the way of a roll, and was put on its sheet for that. */
  #isThere({ key, hour }: Due): boolean {
    return sheetedBy(this.#context.caches.of(key.bucket).sheet(key.shard)) === hour;
  }

  #taken(): readonly Due[] {
    const minute = Math.min(...this.#due.keys());
    const due = this.#due.get(minute) ?? [];
    const taken = due.splice(0, AT_ONCE);
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
const A_MINUTE_MAX = 10_000;
const AT_ONCE = 8;

/** Puts a closed hour on its sheet. What the store said last, where that is not certain in the time given. */
export async function writeSheet(
  context: ProtocolContext,
  write: ItemWrite,
  timeoutMs: number,
): Promise<"there" | Undecided> {
  const { clock, items, caches, random } = context;
  const { bucket, shard } = write.key;
  const hour = hourOfSheet(write);
  const untilMs = clock.now() + timeoutMs;
  for (let attempt = 0; ; attempt++) {
    const answer = await items.write(write, { timeoutMs: Math.max(1, untilMs - clock.now()) });
    // Failed: it is there already, and what is there is final.
    if (answer.kind === "applied" || answer.kind === "failed") {
      caches.of(bucket).noteSheet(shard, { is: "there", hour });
      return "there";
    }
    const pauseMs = backoffMs(RETRY.sheet, attempt, random());
    if (attempt >= RETRY.sheet.resends || clock.now() + pauseMs >= untilMs) {
      caches.of(bucket).noteSheet(shard, { is: "unwritable", hour, atMs: clock.now() });
      return answer;
    }
    await clock.sleep(pauseMs, undefined);
  }
}
