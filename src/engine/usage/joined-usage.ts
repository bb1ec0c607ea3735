import {
  callerCursor,
  compareUsage,
  GRANTED,
  type UsagePosition,
  usageCursorInvalid,
  usageIn,
  usagePositionOf,
} from "../../domain/charge/caller-usage.ts";
import { perCounter, shownWindow, type UsageSnapshot } from "../../domain/charge/usage.ts";
import { given } from "../../domain/names/given.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { CallerSum, UsageQuery } from "../../ports/usage-store.ts";

/** Two lists of usage in one order: what buckets count, and what the book of callers does. */
interface UsageLists {
  readonly buckets: (page: PageRequest) => MaybePromise<Page<UsageSnapshot>>;
  readonly book: (page: PageRequest) => MaybePromise<Page<CallerSum>>;
}

/** What of the book is in an answer: all of it, or only what no level counted. */
export type WhichOfBook = "all" | "alone";

/** The place where a joined list goes on: the cursor of each list, null at its end, and the last row that was shown. */
interface JoinedPlace {
  readonly buckets: string | null;
  readonly book: string | null;
  readonly after: UsagePosition | undefined;
}

const BEGINNING: JoinedPlace = { buckets: "", book: "", after: undefined };

/** A page of both lists as one: rows of one window, entity and resource are one row. */
export async function joinedPage(
  { buckets, book }: UsageLists,
  { window }: Pick<UsageQuery, "window">,
  which: WhichOfBook,
  { limit, cursor, mayBeShort }: PageRequest,
): Promise<Page<UsageSnapshot>> {
  let place = placeFrom(cursor);
  const items: UsageSnapshot[] = [];
  for (;;) {
    const counted = await pageAt(buckets, place.buckets, { limit, ...given({ mayBeShort }) });
    const beside = await pageAt(book, place.book, { limit, ...given({ mayBeShort }) });
    const untilKnown = earliest(endOf(counted), endOf(beside));
    const rows = joined(counted.items, beside.items, window, which).filter(
      (row) => isAfter(row, place.after) && !(untilKnown !== undefined && isAfter(row, untilKnown)),
    );
    // What was read and would be read again is shown to whoever goes on anyway.
    const shown = mayBeShort ? rows : rows.slice(0, limit - items.length);
    items.push(...shown);
    if (shown.length < rows.length) {
      return { items, cursor: cursorOf({ ...place, after: shown.at(-1) }) };
    }
    place = {
      buckets: nextOf(place.buckets, counted, untilKnown),
      book: nextOf(place.book, beside, untilKnown),
      after: untilKnown === undefined || untilKnown === NOTHING_KNOWN ? place.after : untilKnown,
    };
    if (place.buckets === null && place.book === null) return { items };
    if (items.length >= limit || (mayBeShort && items.length > 0)) return { items, cursor: cursorOf(place) };
  }
}

async function pageAt<Item>(
  list: (page: PageRequest) => MaybePromise<Page<Item>>,
  cursor: string | null,
  request: PageRequest,
): Promise<Page<Item>> {
  if (cursor === null) return { items: [] };
  return list({ ...request, ...given({ cursor: cursor === "" ? undefined : cursor }) });
}

/** The last row of a page that another one follows: beyond it the list is not known yet. An empty one knows nothing. */
function endOf({ items, cursor }: Page<UsagePosition>): UsagePosition | "nothing" | undefined {
  return cursor === undefined ? undefined : (items.at(-1) ?? "nothing");
}

const NOTHING_KNOWN: UsagePosition = { windowStartMs: Number.NEGATIVE_INFINITY, entityId: "", resource: "" };

function earliest(...ends: readonly ReturnType<typeof endOf>[]): UsagePosition | undefined {
  let found: UsagePosition | undefined;
  for (const end of ends) {
    const at = end === "nothing" ? NOTHING_KNOWN : end;
    if (at !== undefined && (found === undefined || compareUsage(at, found) < 0)) found = at;
  }
  return found;
}

/** A list goes on with its next page once all of this one was shown. */
function nextOf(
  cursor: string | null,
  { items, cursor: next }: Page<UsagePosition>,
  until: UsagePosition | undefined,
): string | null {
  const last = items.at(-1);
  const isShown = last === undefined || until === undefined || compareUsage(last, until) <= 0;
  return cursor === null || !isShown ? cursor : (next ?? null);
}

function isAfter(row: UsagePosition, place: UsagePosition | undefined): boolean {
  return place === undefined || compareUsage(row, place) > 0;
}

function joined(
  buckets: readonly UsageSnapshot[],
  book: readonly CallerSum[],
  window: UsageQuery["window"],
  which: WhichOfBook,
): readonly UsageSnapshot[] {
  const rows = new Map(buckets.map((row) => [callerCursor(row), row]));
  for (const { counts, ...at } of book) {
    if (at.entityId === GRANTED) continue;
    const position = callerCursor(at);
    const { requests, ...counted } = usageIn(counts, which);
    const known = rows.get(position);
    if (known === undefined && requests === 0 && Object.keys(counted.counters).length === 0) continue;
    const { entityId, resource, windowStartMs } = at;
    const row = known ?? { entityId, resource, ...shownWindow(window, windowStartMs), ...NO_COUNTS, requests: 0 };
    rows.set(position, {
      ...row,
      ...perCounter((counter) => sumsOf(row[counter], counted[counter])),
      requests: row.requests + requests,
    });
  }
  return [...rows.values()].sort(compareUsage);
}

const NO_COUNTS = perCounter(() => ({}));

function sumsOf(
  some: Readonly<Record<string, number>>,
  others: Readonly<Record<string, number>>,
): Readonly<Record<string, number>> {
  // A limit may be called "constructor", which every plain object inherits.
  const sums = new Map(Object.entries(some));
  for (const [name, count] of Object.entries(others)) sums.set(name, (sums.get(name) ?? 0) + count);
  return Object.fromEntries(sums);
}

function cursorOf({ buckets, book, after }: JoinedPlace): string {
  return JSON.stringify([buckets, book, after === undefined ? null : callerCursor(after)]);
}

function placeFrom(cursor: string | undefined): JoinedPlace {
  if (cursor === undefined) return BEGINNING;
  let parts: unknown;
  try {
    parts = JSON.parse(cursor);
  } catch {
    throw usageCursorInvalid(cursor);
  }
  if (
    !Array.isArray(parts) ||
    parts.length !== 3 ||
    !parts.every((part) => part === null || typeof part === "string")
  ) {
    throw usageCursorInvalid(cursor);
  }
  const [buckets, book, after] = parts as (string | null)[];
  return {
    buckets: buckets ?? null,
    book: book ?? null,
    after: after === null ? undefined : usagePositionOf(after),
  };
}
