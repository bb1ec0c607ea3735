import type { Image } from "../item/codec.ts";
import type { SheetNote } from "../process/bucket-cache.ts";
import type { SheetAction } from "../process/machine.ts";
import { SHEET_AGAIN_MS } from "../process/retry-policy.ts";
import type { Env } from "../take/intent.ts";
import { sheetFirst } from "./hours.ts";
import { sheetWrite } from "./sheet-text.ts";

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
  const wasTried =
    note?.is === "unwritable" && note.hour === closed.hour && Math.abs(readingMs - note.atMs) < SHEET_AGAIN_MS;
  if (wasTried) return undefined;
  return { do: "sheet", write: sheetWrite(image.key, closed, env) };
}
