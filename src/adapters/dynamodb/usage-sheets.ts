import { HOUR_MS, type UsageSnapshot, type Windows, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { hoursOf, type UsageItems, type UsageOf, windowsOf } from "../../protocol/usage/usage-windows.ts";
import { instantOf } from "./codec.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { compareTexts, cursorOf, groupedBy, inChunks, pageOf, placeAfter } from "./paging.ts";
import { isoSeconds } from "./schema.ts";
import {
  daySpan,
  daysOf,
  groupOf,
  isSheetsOnly,
  itemsIn,
  ofGroup,
  UsageIndex,
  type UsageItem,
  type UsageItemRef,
} from "./usage-index.ts";
import { usageOfEntity } from "./usage-of-entity.ts";
import { FRESH_MS, readUsageState, type UsageState } from "./usage-resources.ts";

/**
 * The next window that may have usage, noted while another is read, so that it need not be searched. The cursor of a
 * page carries it on.
 */
class NextWindow {
  readonly #window: Windows;
  readonly #leastMs: number;
  #startMs: number | undefined;

  /** `startMs`: the window being read. `notedMs`: the next one, if it is known already. */
  constructor(window: Windows, startMs: number, notedMs: number | undefined) {
    this.#window = window;
    this.#leastMs = windowEndMs(window, startMs);
    this.#startMs = notedMs;
  }

  get startMs(): number | undefined {
    return this.#startMs;
  }

  /** There is usage at this instant, or none before it. */
  note(atMs: number): void {
    const startMs = windowStartMs(this.#window, atMs);
    if (startMs >= this.#leastMs && startMs < (this.#startMs ?? Number.POSITIVE_INFINITY)) this.#startMs = startMs;
  }

  /** The day may have begun before: then some of its later hours may have usage. */
  noteDay(day: string): void {
    const startMs = Date.parse(`${day}T00:00:00Z`);
    if (windowEndMs("daily", startMs) > this.#leastMs) this.note(Math.max(startMs, this.#leastMs));
  }
}

/**
 * Usage of one namespace: open hours are on the buckets, closed ones on their sheets. Buckets are read first: an hour
 * that is closed in between is then found on both, and counts once. In the other order it would be found on neither.
 */
export class SheetUsage implements UsageStore {
  readonly #parts: NamespaceParts;

  constructor(parts: NamespaceParts) {
    this.#parts = parts;
  }

  async query(query: UsageQuery, { limit, cursor }: PageRequest): Promise<Page<UsageSnapshot>> {
    const [start, entityId = "", resource = "", next = ""] = placeAfter(cursor, 4) ?? [];
    const after =
      start === undefined
        ? undefined
        : {
            startMs: instantOf(start),
            group: groupOf({ entityId, resource }),
            nextMs: next === "" ? undefined : instantOf(next),
          };
    const { items, ...rest } = await pageOf(this.#snapshots(query, after, limit + 1), limit, ({ snapshot, nextMs }) =>
      cursorOf(
        isoSeconds(snapshot.windowStartMs),
        snapshot.entityId,
        snapshot.resource,
        nextMs === undefined ? "" : isoSeconds(nextMs),
      ),
    );
    return { ...rest, items: items.map(({ snapshot }) => snapshot) };
  }

  async *#snapshots(query: UsageQuery, after: After | undefined, rows: number): AsyncGenerator<ListedSnapshot> {
    const { records, namespaceId } = this.#parts;
    const state = await readUsageState(records, namespaceId);
    const { closedUntilMs = 0 } = state;
    const { entityId } = query;
    if (entityId === undefined) {
      yield* this.#windows({ ...query, closedUntilMs, resources: this.#resourcesIn(state) }, after);
      return;
    }
    // Windows on earlier pages are not read again.
    const fromMs = Math.max(query.fromMs, after?.startMs ?? query.fromMs);
    const by = { records, namespaceId, closedUntilMs, rows };
    for await (const snapshot of usageOfEntity({ ...by, query: { ...query, entityId, fromMs } })) {
      const isShown = after !== undefined && compared(positionOf(snapshot), after) <= 0;
      if (!isShown) yield { snapshot, nextMs: undefined };
    }
  }

  #resourcesIn({ closedUntilMs = 0, resources, resourcesAre }: UsageState): Closed["resources"] {
    if (resourcesAre !== "whole" || resources.length > RESOURCES_MAX) return undefined;
    return { names: resources, areFresh: this.#parts.clock.now() - closedUntilMs < FRESH_MS };
  }

  /**
   * Reads window after window, each as a stream ordered by entity and resource: nothing is held beyond one page. The
   * next window is noted while one is read, so that empty windows cost nothing.
   */
  async *#windows(query: Closed, after: After | undefined): AsyncGenerator<ListedSnapshot> {
    const { window, toMs, resource, closedUntilMs } = query;
    const index = new UsageIndex(this.#parts, resource);
    let group = after?.group;
    let notedMs = after?.nextMs;
    let startMs = after === undefined ? await this.#firstStart(query) : after.startMs;
    while (startMs !== undefined && startMs < toMs) {
      const next = new NextWindow(window, startMs, notedMs);
      // Hours that are open since the last sweep lie in later windows, which are not read here.
      next.note(closedUntilMs);
      for await (const snapshot of this.#window(query, { startMs, group }, next)) {
        yield { snapshot, nextMs: next.startMs };
      }
      const lastDay = daysOf(window, startMs).at(-1) ?? "";
      const isSameDay = next.startMs !== undefined && daysOf(window, next.startMs)[0] === lastDay;
      const day = isSameDay ? undefined : await index.nextDay(lastDay, query.resources?.names);
      if (day !== undefined) next.noteDay(day);
      startMs = next.startMs;
      group = undefined;
      notedMs = undefined;
    }
  }

  async *#window(
    query: Closed,
    { startMs, group }: { readonly startMs: number; readonly group: string | undefined },
    next: NextWindow,
  ): AsyncGenerator<UsageSnapshot> {
    const { window } = query;
    const span = { window, fromMs: startMs, toMs: startMs + 1 };
    const days = daysOf(window, startMs);
    const isClosed = isSheetsOnly(span, query.closedUntilMs);
    for await (const { of, items } of this.#buckets(query, { days, start: group, isClosed }, next)) {
      for (const { hour } of hoursOf(of, items)) next.note(hour * HOUR_MS);
      yield* windowsOf(of, items, span);
    }
  }

  /** All buckets that may have usage on some days, ordered by entity and resource, with their items. */
  async *#buckets(
    query: Closed,
    { days, start, isClosed }: BucketSpan,
    next: NextWindow,
  ): AsyncGenerator<{ readonly of: UsageOf; readonly items: UsageItems }> {
    const index = new UsageIndex(this.#parts, query.resource);
    const resources = resourcesFor(query, { days, isClosed });
    let after = start;
    const shards = isClosed ? nothing() : index.shards(start);
    for await (const { chunk, to } of groupsIn(shards)) {
      const found = await itemsIn(this.#parts.records, chunk);
      const live = groupedBy(found, groupOfItem);
      // Sheets are read after the shards, so that an hour closed in between is found.
      const wanted = { span: { after, to }, resources, live: [...live.keys()] };
      const sheets = index.sheets(days, wanted, (day) => next.noteDay(day));
      for await (const some of inChunks(sheetsBy(sheets, [...live.keys()]), GROUPS_AT_ONCE)) {
        const read = await itemsIn(
          this.#parts.records,
          some.flatMap(({ sheets: own }) => own),
        );
        const bySheet = groupedBy(read, groupOfItem);
        for (const { group } of some) {
          yield { of: ofGroup(group), items: { shards: live.get(group) ?? [], sheets: bySheet.get(group) ?? [] } };
        }
      }
      after = to;
    }
  }

  /** The start of the first window. If the query has many windows, all items are read once to find the first with usage. */
  async #firstStart(query: Closed): Promise<number | undefined> {
    const { window, fromMs, toMs } = query;
    const withinMs = windowStartMs(window, fromMs);
    const firstMs = withinMs < fromMs ? windowEndMs(window, withinMs) : withinMs;
    for (let startMs = firstMs, count = 0; count < WINDOWS_FEW; count++, startMs = windowEndMs(window, startMs)) {
      if (startMs >= toMs) return firstMs;
    }
    // Begin as if the previous window had been read.
    const next = new NextWindow(window, windowStartMs(window, firstMs - 1), undefined);
    const { resource, resources, closedUntilMs } = query;
    const index = new UsageIndex(this.#parts, resource);
    if (firstMs < closedUntilMs) {
      // Open hours lie after this instant.
      next.note(closedUntilMs);
    } else {
      for await (const chunk of inChunks(index.shards(undefined), SHARDS_AT_ONCE)) {
        const shards = await itemsIn(this.#parts.records, chunk);
        for (const one of shards) {
          const { bucket } = one.ref.key;
          for (const { hour } of hoursOf(bucket, { shards: [one], sheets: [] })) next.note(hour * HOUR_MS);
        }
      }
    }
    // The day before the first window, which may begin within its day.
    const { from } = daySpan({ window: "daily", fromMs: windowStartMs("daily", firstMs) - 1, toMs });
    if (resource === undefined && (resources === undefined || firstMs >= closedUntilMs)) {
      const everything = { span: { after: undefined, to: undefined }, resources: undefined, live: [] };
      for await (const _ of index.sheets([], everything, (day) => next.noteDay(day)));
    } else {
      const day = await index.nextDay(from, resources?.names);
      if (day !== undefined) next.noteDay(day);
    }
    return next.startMs;
  }
}

const WINDOWS_FEW = 62;
const SHARDS_AT_ONCE = 100;
const GROUPS_AT_ONCE = 25;
/** Each resource costs one query per window. */
const RESOURCES_MAX = 200;

interface Closed extends UsageQuery {
  readonly closedUntilMs: number;
  /** The resources of all sheets of closed hours. `areFresh`: also of later hours, except for buckets that still exist. */
  readonly resources: { readonly names: readonly string[]; readonly areFresh: boolean } | undefined;
}

/** The resources by which sheets are queried. For a month, one query over all sheets is cheaper. */
function resourcesFor({ resources }: Closed, { days, isClosed }: Pick<BucketSpan, "days" | "isClosed">) {
  return days.length <= DAYS_FEW && resources !== undefined && (isClosed || resources.areFresh)
    ? resources.names
    : undefined;
}

/** A day of a zone lies in two days (UTC). */
const DAYS_FEW = 2;

interface BucketSpan {
  readonly days: readonly string[];
  readonly start: string | undefined;
  /** All hours of these days are on sheets. */
  readonly isClosed: boolean;
}

/** A snapshot, and the next window noted so far. */
interface ListedSnapshot {
  readonly snapshot: UsageSnapshot;
  readonly nextMs: number | undefined;
}

interface After extends SnapshotPosition {
  readonly nextMs: number | undefined;
}

interface SnapshotPosition {
  readonly startMs: number;
  readonly group: string;
}

function positionOf(snapshot: UsageSnapshot): SnapshotPosition {
  return { startMs: snapshot.windowStartMs, group: groupOf(snapshot) };
}

function compared(a: SnapshotPosition, b: SnapshotPosition): number {
  return a.startMs - b.startMs || compareTexts(a.group, b.group);
}

function groupOfItem({ ref }: UsageItem): string {
  return ref.group;
}

async function* nothing(): AsyncGenerator<UsageItemRef> {}

/** Chunks of shards; all shards of a bucket are in one chunk. The last chunk has no `to`. */
async function* groupsIn(
  shards: AsyncIterable<UsageItemRef>,
): AsyncGenerator<{ readonly chunk: readonly UsageItemRef[]; readonly to: string | undefined }> {
  let chunk: UsageItemRef[] = [];
  for await (const ref of shards) {
    const last = chunk.at(-1);
    if (chunk.length >= SHARDS_AT_ONCE && last !== undefined && last.group !== ref.group) {
      yield { chunk, to: last.group };
      chunk = [];
    }
    chunk.push(ref);
  }
  yield { chunk, to: undefined };
}

/** The sheets of each bucket, with an empty list for live buckets that have none. */
async function* sheetsBy(
  sheets: AsyncIterable<UsageItemRef>,
  live: readonly string[],
): AsyncGenerator<{ readonly group: string; readonly sheets: readonly UsageItemRef[] }> {
  const waiting = [...live];
  let own: UsageItemRef[] = [];
  function* before(group: string | undefined) {
    while (waiting[0] !== undefined && (group === undefined || waiting[0] < group)) {
      yield { group: waiting.shift() as string, sheets: [] };
    }
    if (waiting[0] === group) waiting.shift();
  }
  for await (const ref of sheets) {
    const [first] = own;
    if (first !== undefined && first.group !== ref.group) {
      yield* before(first.group);
      yield { group: first.group, sheets: own };
      own = [];
    }
    own.push(ref);
  }
  const [first] = own;
  if (first !== undefined) {
    yield* before(first.group);
    yield { group: first.group, sheets: own };
  }
  yield* before(undefined);
}
