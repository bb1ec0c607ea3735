import { HOUR_MS, type UsageSnapshot, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { Clock } from "../../ports/system.ts";
import type { UsageQuery, UsageStore } from "../../ports/usage-store.ts";
import { hoursOf, type UsageItems, type UsageOf, windowsOf } from "../../protocol/usage/usage-windows.ts";
import { instantOf } from "./codec.ts";
import { cursorOf, inChunks, pageOf, placeAfter } from "./paging.ts";
import type { Records } from "./records.ts";
import { isoSeconds } from "./schema.ts";
import { readUsageState, type UsageState } from "./usage-closed.ts";
import { groupOf, ofGroup, UsageIndex, type UsageItemRef } from "./usage-index.ts";
import { daySpan, daysOf, isSheetsOnly, itemsIn, type UsageItem } from "./usage-items.ts";
import { NextWindow } from "./usage-next.ts";
import { usageOfEntity } from "./usage-of-entity.ts";
import { FRESH_MS } from "./usage-resources.ts";

/**
 * Usage of one namespace: the open hours on its buckets, and the closed ones on their sheets. Buckets are looked at first: an
 * hour that is closed in between is then seen on both, and counts once. The other way round it would be seen on neither.
 */
export class SheetUsage implements UsageStore {
  readonly #records: Records;
  readonly #namespaceId: string;

  readonly #clock: Pick<Clock, "now">;

  constructor(records: Records, namespaceId: string, clock: Pick<Clock, "now">) {
    this.#records = records;
    this.#namespaceId = namespaceId;
    this.#clock = clock;
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
    const state = await readUsageState(this.#records, this.#namespaceId);
    const { closedUntilMs = 0 } = state;
    const { entityId } = query;
    if (entityId === undefined) {
      yield* this.#windows({ ...query, closedUntilMs, resources: this.#resourcesIn(state) }, after);
      return;
    }
    // What was shown is not read again.
    const fromMs = Math.max(query.fromMs, after?.startMs ?? query.fromMs);
    const by = { records: this.#records, namespaceId: this.#namespaceId, closedUntilMs, rows };
    for await (const snapshot of usageOfEntity({ ...by, query: { ...query, entityId, fromMs } })) {
      const isShown = after !== undefined && compared(positionOf(snapshot), after) <= 0;
      if (!isShown) yield { snapshot, nextMs: undefined };
    }
  }

  #resourcesIn({ closedUntilMs = 0, resources, resourcesAre }: UsageState): Closed["resources"] {
    if (resourcesAre !== "whole" || resources.length > RESOURCES_MAX) return undefined;
    return { names: resources, areFresh: this.#clock.now() - closedUntilMs < FRESH_MS };
  }

  /**
   * Window after window, each as a stream by entity and resource: nothing is held but what one page needs. While one window is
   * gone through the next is noted, so that windows without anything cost nothing.
   */
  async *#windows(query: Closed, after: After | undefined): AsyncGenerator<ListedSnapshot> {
    const { window, toMs, resource, closedUntilMs } = query;
    const index = new UsageIndex(this.#records, this.#namespaceId, resource);
    let group = after?.group;
    let notedMs = after?.nextMs;
    let startMs = after === undefined ? await this.#firstStart(query) : after.startMs;
    while (startMs !== undefined && startMs < toMs) {
      const next = new NextWindow(window, startMs, notedMs);
      // What is open since the last sweep is not looked at in windows before it.
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
    const days = daysOf(
      window === "hourly" ? "daily" : window,
      windowStartMs(window === "hourly" ? "daily" : window, startMs),
    );
    const isClosed = isSheetsOnly(span, query.closedUntilMs);
    for await (const { of, items } of this.#buckets(query, { days, start: group, isClosed }, next)) {
      for (const { hour } of hoursOf(of, items)) next.note(hour * HOUR_MS);
      yield* windowsOf(of, items, span);
    }
  }

  /** All buckets that may have usage on some days, by entity and resource, with what they have. */
  async *#buckets(
    query: Closed,
    { days, start, isClosed }: BucketSpan,
    next: NextWindow,
  ): AsyncGenerator<{ readonly of: UsageOf; readonly items: UsageItems }> {
    const index = new UsageIndex(this.#records, this.#namespaceId, query.resource);
    const resources = resourcesFor(query, { days, isClosed });
    let after = start;
    const shards = isClosed ? nothing() : index.shards(start);
    for await (const { chunk, to } of groupsIn(shards)) {
      const found = await itemsIn(this.#records, chunk);
      const live = byGroup(found);
      // Only now: what was closed since the shards were read is found on its sheet.
      const wanted = { span: { after, to }, resources, live: [...live.keys()] };
      const sheets = index.sheets(days, wanted, (day) => next.noteDay(day));
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

  /** The first window of few; of many the first that something is found in, for which everything is gone through once. */
  async #firstStart(query: Closed): Promise<number | undefined> {
    const { window, fromMs, toMs } = query;
    const withinMs = windowStartMs(window, fromMs);
    const firstMs = withinMs < fromMs ? windowEndMs(window, withinMs) : withinMs;
    for (let startMs = firstMs, count = 0; count < WINDOWS_FEW; count++, startMs = windowEndMs(window, startMs)) {
      if (startMs >= toMs) return firstMs;
    }
    // As if the window before had been gone through.
    const next = new NextWindow(window, windowStartMs(window, firstMs - 1), undefined);
    const { resource, resources, closedUntilMs } = query;
    const index = new UsageIndex(this.#records, this.#namespaceId, resource);
    if (firstMs < closedUntilMs) {
      // What is open lies after this.
      next.note(closedUntilMs);
    } else {
      for await (const chunk of inChunks(index.shards(undefined), SHARDS_AT_ONCE)) {
        const shards = await itemsIn(this.#records, chunk);
        for (const one of shards) {
          const { bucket } = one.ref.key;
          for (const { hour } of hoursOf(bucket, { shards: [one], sheets: [] })) next.note(hour * HOUR_MS);
        }
      }
    }
    const { from } = daySpan({ window, fromMs: firstMs - 1, toMs });
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
/** Each costs a query a window. */
const RESOURCES_MAX = 200;

interface Closed extends UsageQuery {
  readonly closedUntilMs: number;
  /** Resources that all sheets of closed hours are of; `areFresh`: those of later hours too, unless their bucket is there. */
  readonly resources: { readonly names: readonly string[]; readonly areFresh: boolean } | undefined;
}

/** By which resources the sheets are looked for. Those of a month are so many of all there are that they are passed over at less cost. */
function resourcesFor({ resources }: Closed, { days, isClosed }: Pick<BucketSpan, "days" | "isClosed">) {
  return days.length === 1 && resources !== undefined && (isClosed || resources.areFresh) ? resources.names : undefined;
}

/** Which buckets are gone through, and for which days. */
interface BucketSpan {
  readonly days: readonly string[];
  /** From after this group on. */
  readonly start: string | undefined;
  /** Everything of these days is on sheets. */
  readonly isClosed: boolean;
}

/** A snapshot, and the next window that is known of after it. */
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
  if (a.startMs !== b.startMs) return a.startMs - b.startMs;
  return a.group < b.group ? -1 : a.group > b.group ? 1 : 0;
}

function byGroup(items: readonly UsageItem[]): ReadonlyMap<string, readonly UsageItem[]> {
  const groups = new Map<string, UsageItem[]>();
  for (const item of items) {
    const group = groups.get(item.ref.group) ?? [];
    group.push(item);
    groups.set(item.ref.group, group);
  }
  return groups;
}

async function* nothing(): AsyncGenerator<UsageItemRef> {}

/** Shards some at a time, those of one bucket together; the last time without an end. */
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

/** The sheets by bucket; also buckets that have none. */
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
