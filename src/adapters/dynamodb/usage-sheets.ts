import type { Page, PageRequest } from "../../domain/paging.ts";
import { HOUR_MS, type UsageSnapshot, type UsageWindow, windowEndMs, windowStartMs } from "../../domain/usage.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { hoursOf, type UsageItems, type UsageOf, windowsOf } from "../../protocol/usage-windows.ts";
import { instantOf } from "./codec.ts";
import { cursorOf, inChunks, pageOf, placeAfter } from "./paging.ts";
import type { Records } from "./records.ts";
import { isoSeconds } from "./schema.ts";
import { readClosedUntil } from "./usage-closed.ts";
import { daysOf, isSheetsOnly, itemsIn, type UsageItem } from "./usage-items.ts";
import { usageOfEntity } from "./usage-of-entity.ts";
import { groupOf, ofGroup, type UsagePlace, UsagePlaces } from "./usage-places.ts";

/**
 * Usage of one namespace: the open hours on its buckets, and the closed ones on their sheets. Buckets are looked at first: an
 * hour that is closed in between is then seen on both, and counts once. The other way round it would be seen on neither.
 */
export class SheetUsage implements UsageStore {
  readonly #records: Records;
  readonly #namespaceId: string;

  constructor(records: Records, namespaceId: string) {
    this.#records = records;
    this.#namespaceId = namespaceId;
  }

  async query(query: UsageQuery, { limit, cursor }: PageRequest): Promise<Page<UsageSnapshot>> {
    const [start, entityId = "", resource = ""] = placeAfter(cursor, 3) ?? [];
    const after =
      start === undefined ? undefined : { startMs: instantOf(start), group: groupOf({ entityId, resource }) };
    return pageOf(this.#snapshots(query, after), limit, (one) =>
      cursorOf(isoSeconds(one.windowStartMs), one.entityId, one.resource),
    );
  }

  async *#snapshots(query: UsageQuery, after: Place | undefined): AsyncGenerator<UsageSnapshot> {
    const closedUntilMs = (await readClosedUntil(this.#records, this.#namespaceId)) ?? 0;
    const { entityId } = query;
    if (entityId === undefined) {
      yield* this.#windows({ ...query, closedUntilMs }, after);
      return;
    }
    const all = await usageOfEntity(this.#records, this.#namespaceId, { ...query, entityId }, closedUntilMs);
    const left = after === undefined ? all : all.filter((one) => compared(placeOf(one), after) > 0);
    yield* left.sort((a, b) => compared(placeOf(a), placeOf(b)));
  }

  /** Window after window, each as a stream by entity and resource: nothing is held but what one page needs. */
  async *#windows(query: Closed, after: Place | undefined): AsyncGenerator<UsageSnapshot> {
    const { window, fromMs, toMs } = query;
    if (after !== undefined) yield* this.#window(query, after.startMs, after.group, new Set());
    const first = after === undefined ? fromMs : windowEndMs(window, after.startMs);
    if (first >= toMs) return;
    // What is found on the way in a day's first hour tells which of its other hours there are.
    let known: { readonly day: string; readonly starts: Set<number> } | undefined;
    for (const startMs of await this.#starts(query, first)) {
      const [day = ""] = daysOf(window, startMs);
      if (known?.day === day && !known.starts.has(startMs)) continue;
      const seen = new Set<number>();
      yield* this.#window(query, startMs, undefined, seen);
      if (window === "hourly" && known?.day !== day) known = { day, starts: seen };
    }
  }

  async *#window(
    query: Closed,
    startMs: number,
    after: string | undefined,
    seen: Set<number>,
  ): AsyncGenerator<UsageSnapshot> {
    const { window } = query;
    const span = { window, fromMs: startMs, toMs: startMs + 1 };
    const days = daysOf(
      window === "hourly" ? "daily" : window,
      windowStartMs(window === "hourly" ? "daily" : window, startMs),
    );
    for await (const { of, items } of this.#buckets(query, days, after, isSheetsOnly(span, query.closedUntilMs))) {
      for (const { hour } of hoursOf(items)) seen.add(windowStartMs(window, hour * HOUR_MS));
      yield* windowsOf(of, items, span);
    }
  }

  /** All buckets that may have usage on some days, by entity and resource, with what they have. */
  async *#buckets(
    { resource }: Closed,
    days: readonly string[],
    start: string | undefined,
    sheetsOnly: boolean,
  ): AsyncGenerator<{ readonly of: UsageOf; readonly items: UsageItems }> {
    const places = new UsagePlaces(this.#records, this.#namespaceId, resource);
    let after = start;
    const shards = sheetsOnly ? nothing() : places.shards(start);
    for await (const { chunk, to } of groupsIn(shards)) {
      const found = await itemsIn(this.#records, chunk);
      const live = byGroup(found);
      // Only now: what was closed since the shards were read is found on its sheet.
      const sheets = places.sheets(days, { after, to });
      for await (const some of inChunks(sheetsBy(sheets, [...live.keys()]), GROUPS_AT_ONCE)) {
        const read = await itemsIn(
          this.#records,
          some.flatMap(({ sheets: own }) => own),
        );
        const bySheet = byGroup(read);
        for (const { group } of some) {
          yield { of: ofGroup(group), items: { shards: live.get(group) ?? [], sheets: bySheet.get(group) ?? [] } };
        }
      }
      after = to;
    }
  }

  /** The windows to look at: all of a few; of many those that something is found in. */
  async #starts(query: Closed, fromMs: number): Promise<readonly number[]> {
    const { window, toMs } = query;
    const few: number[] = [];
    for (let startMs = windowStartMs(window, fromMs); startMs < toMs; startMs = windowEndMs(window, startMs)) {
      if (few.length === WINDOWS_FEW) return this.#startsFound(query, fromMs);
      few.push(startMs);
    }
    return few;
  }

  async #startsFound({ window, toMs, resource, closedUntilMs }: Closed, fromMs: number): Promise<readonly number[]> {
    const places = new UsagePlaces(this.#records, this.#namespaceId, resource);
    const starts = new Set<number>();
    if (!isSheetsOnly({ window, toMs }, closedUntilMs)) {
      for await (const chunk of inChunks(places.shards(undefined), SHARDS_AT_ONCE)) {
        const shards = await itemsIn(this.#records, chunk);
        for (const { hour } of hoursOf({ shards, sheets: [] })) starts.add(windowStartMs(window, hour * HOUR_MS));
      }
    }
    for (const day of await places.days()) for (const startMs of startsIn(window, day)) starts.add(startMs);
    return [...starts].filter((startMs) => startMs >= fromMs && startMs < toMs).sort((a, b) => a - b);
  }
}

const WINDOWS_FEW = 62;
const SHARDS_AT_ONCE = 100;
const GROUPS_AT_ONCE = 25;

interface Closed extends UsageQuery {
  readonly closedUntilMs: number;
}

interface Place {
  readonly startMs: number;
  readonly group: string;
}

function placeOf(snapshot: UsageSnapshot): Place {
  return { startMs: snapshot.windowStartMs, group: groupOf(snapshot) };
}

function compared(a: Place, b: Place): number {
  if (a.startMs !== b.startMs) return a.startMs - b.startMs;
  return a.group < b.group ? -1 : a.group > b.group ? 1 : 0;
}

function startsIn(window: UsageWindow, day: string): number[] {
  const dayMs = Date.parse(`${day}T00:00:00Z`);
  if (window !== "hourly") return [windowStartMs(window, dayMs)];
  return Array.from({ length: 24 }, (_, hour) => dayMs + hour * HOUR_MS);
}

function byGroup(items: readonly UsageItem[]): ReadonlyMap<string, readonly UsageItem[]> {
  const groups = new Map<string, UsageItem[]>();
  for (const item of items) {
    const group = groups.get(item.place.group) ?? [];
    group.push(item);
    groups.set(item.place.group, group);
  }
  return groups;
}

async function* nothing(): AsyncGenerator<UsagePlace> {}

/** Shards some at a time, those of one bucket together; the last time without an end. */
async function* groupsIn(
  shards: AsyncIterable<UsagePlace>,
): AsyncGenerator<{ readonly chunk: readonly UsagePlace[]; readonly to: string | undefined }> {
  let chunk: UsagePlace[] = [];
  for await (const place of shards) {
    const last = chunk.at(-1);
    if (chunk.length >= SHARDS_AT_ONCE && last !== undefined && last.group !== place.group) {
      yield { chunk, to: last.group };
      chunk = [];
    }
    chunk.push(place);
  }
  yield { chunk, to: undefined };
}

/** The sheets by bucket; also buckets that have none. */
async function* sheetsBy(
  sheets: AsyncIterable<UsagePlace>,
  live: readonly string[],
): AsyncGenerator<{ readonly group: string; readonly sheets: readonly UsagePlace[] }> {
  const waiting = [...live];
  let own: UsagePlace[] = [];
  function* before(group: string | undefined) {
    while (waiting[0] !== undefined && (group === undefined || waiting[0] < group)) {
      yield { group: waiting.shift() as string, sheets: [] };
    }
    if (waiting[0] === group) waiting.shift();
  }
  for await (const place of sheets) {
    const [first] = own;
    if (first !== undefined && first.group !== place.group) {
      yield* before(first.group);
      yield { group: first.group, sheets: own };
      own = [];
    }
    own.push(place);
  }
  const [first] = own;
  if (first !== undefined) {
    yield* before(first.group);
    yield { group: first.group, sheets: own };
  }
  yield* before(undefined);
}
