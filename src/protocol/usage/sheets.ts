import { type Count, countOfText } from "../../bucket/integers.ts";
import { type DamagedItem, ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import { TTL } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import type { SheetNote } from "../process/bucket-cache.ts";
import type { SheetAction } from "../process/machine.ts";
import { SHEET_AGAIN_MS } from "../process/retry-policy.ts";
import type { Env } from "../take/intent.ts";
import { type HourCounts, hourNumber, sheetFirst, usageUntilS } from "./hours.ts";

/** The write that puts a closed hour on its sheet. A closed hour is final: any process may write it, any number of times. */
export function sheetWrite({ bucket, shard }: ItemKey, closed: HourCounts, env: Pick<Env, "usageKeptS">): ItemWrite {
  const { day, name } = placeOf(closed.hour);
  const dayEndMs = Date.parse(`${day}T00:00:00Z`) + 24 * HOUR_MS;
  return {
    key: { bucket, shard, sheet: day },
    kind: "update",
    item: "either",
    when: [[{ name, is: "absent" }]],
    set: { [name]: sheetText(closed), [TTL]: usageUntilS(dayEndMs, env) },
    add: {},
    remove: [],
    trace: undefined,
  };
}

export function hourOfSheet({ key, set }: ItemWrite): number {
  const name = Object.keys(set).find((one) => HOUR_NAME.test(one)) ?? "h00";
  return dayStartHour(key.sheet ?? "") + Number(name.slice(1));
}

/** `requests;rpm=60000;tpm=1500000;tpm#by=500;s#od=2000`: a text, so that no reader takes it for a counter. */
export function sheetText({ requests, counts }: HourCounts): string {
  return [String(requests), ...Array.from(counts, ([name, milli]) => `${name}=${milli}`)].join(";");
}

/** The hours of a sheet, in their order; throws `ItemUnreadable` for an unreadable one. */
export function hoursOnSheet({ day, item, ...of }: SheetOf): HourCounts[] {
  const names = Object.keys(item).filter((name) => HOUR_NAME.test(name));
  return names.sort().map((name) => {
    const found = countsOfText(String(item[name]));
    if (found !== undefined) return { hour: dayStartHour(day) + Number(name.slice(1)), ...found };
    const damage = { attribute: name, value: item[name], wants: "requests and counts (12;rpm=12000)" };
    throw new ItemUnreadable({ ...of, sheet: day }, damage);
  });
}

interface SheetOf {
  readonly bucket: DamagedItem["bucket"];
  readonly shard: number;
  readonly day: string;
  readonly item: Item;
}

function countsOfText(text: string): Omit<HourCounts, "hour"> | undefined {
  const [first = "", ...rest] = text.split(";");
  const requests = countOfText(first);
  if (requests === undefined) return undefined;
  const counts = new Map<string, Count>();
  for (const one of rest) {
    const at = one.lastIndexOf("=");
    const count = countOfText(one.slice(at + 1));
    if (at < 1 || count === undefined) return undefined;
    counts.set(one.slice(0, at), count);
  }
  return { requests: Number(requests), counts };
}

export function dayOf(hour: number): string {
  return placeOf(hour).day;
}

function dayStartHour(day: string): number {
  return hourNumber(Date.parse(`${day}T00:00:00Z`));
}

function placeOf(hour: number): { readonly day: string; readonly name: string } {
  const text = new Date(hour * HOUR_MS).toISOString();
  return { day: text.slice(0, 10), name: `h${text.slice(11, 13)}` };
}

const HOUR_NAME = /^h([01][0-9]|2[0-3])$/;

/** The hour of the shard that is known to be on its sheet. */
export function sheetedBy(note: SheetNote | undefined): number | undefined {
  return note?.is === "there" ? note.hour : undefined;
}

/** The sheet that must be written before a write with this reading can close the open hour; undefined: none, or not now. */
export function sheetBefore(
  image: Image,
  readingMs: number,
  note: SheetNote | undefined,
  env: Env,
): SheetAction | undefined {
  const closed = sheetFirst(image, readingMs, sheetedBy(note));
  if (closed === undefined) return undefined;
  // The reading is that of the whole request: the attempt may have been made after it. A far later one is by another clock.
  const wasTried =
    note?.is === "unwritable" && note.hour === closed.hour && Math.abs(readingMs - note.atMs) < SHEET_AGAIN_MS;
  if (wasTried) return undefined;
  return { do: "sheet", write: sheetWrite(image.key, closed, env) };
}
