import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { Page } from "../domain/names/paging.ts";

/**
 * Cursors are the key of the last item shown, so that a list goes on at the same place whatever was added or removed
 * meanwhile. A letter in front keeps an empty key apart from no cursor.
 */
export function keyCursor(...key: readonly string[]): string {
  return `k${key.join("\n")}`;
}

/** The parts of a key of `parts` texts; undefined for the first page. */
export function keyAfter(cursor: string | undefined, parts: number): readonly string[] | undefined {
  if (cursor === undefined) return undefined;
  const key = cursor.slice(1).split("\n");
  if (cursor[0] === "k" && key.length === parts) return key;
  throw cursorInvalid(cursor);
}

/** The parts of a key that begins with a whole number. */
export function numberAfter(cursor: string | undefined, parts: number): readonly string[] | undefined {
  const key = keyAfter(cursor, parts);
  if (key === undefined || Number.isSafeInteger(Number(key[0]))) return key;
  throw cursorInvalid(cursor);
}

/** For lists ordered by one text that is never empty. */
export function textAfter(cursor: string | undefined): string {
  return keyAfter(cursor, 1)?.[0] ?? "";
}

/** A page from up to one item more than fit: the extra one only shows that there are more. */
export function pageOf<Item>(found: readonly Item[], limit: number, cursorOf: (item: Item) => string): Page<Item> {
  const items = found.slice(0, limit);
  const last = items.at(-1);
  return found.length > limit && last !== undefined ? { items, cursor: cursorOf(last) } : { items };
}

function cursorInvalid(cursor: string | undefined): ValidationError {
  return new ValidationError(
    "cursor_invalid",
    `Not a cursor of this list: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}
