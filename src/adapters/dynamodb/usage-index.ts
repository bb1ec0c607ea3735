import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { type Windows, windowEndMs, windowStartMs } from "../../domain/charge/usage.ts";
import type { Item, ItemKey } from "../../ports/item-store.ts";
import type { UsageQuery } from "../../ports/usage-store.ts";
import type { UsageOf } from "../../protocol/usage/usage-windows.ts";
import { decodeItem } from "./codec.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { chunksOf, compareTexts, merged } from "./paging.ts";
import { namespaceIndex, type RecordQuery, type Records, resourceIndex } from "./records.ts";
import { keyIn } from "./records-write.ts";
import { inCalendar, type KeySpan, parseItemKey, resourcePk, type TableKey } from "./schema.ts";

/** A reference to a shard or a sheet. */
export interface UsageItemRef {
  readonly key: ItemKey;
  readonly tableKey: TableKey;
  /** Sorts as usage is listed: by entity, then resource. */
  readonly group: string;
}

/** From after one group up to another; undefined: from the first, to the last. */
interface GroupSpan {
  readonly after: string | undefined;
  readonly to: string | undefined;
}

interface SheetsWanted {
  readonly span: GroupSpan;
  /** The resources of all sheets, except those of the groups in `live`; undefined if they are not known. */
  readonly resources: readonly string[] | undefined;
  readonly live: readonly string[];
}

export type UsageParts = Pick<NamespaceParts, "records" | "namespaceId">;

/** Finds the items with usage of a namespace, or of one resource in it. It queries indexes and never scans. */
export class UsageIndex {
  readonly #parts: UsageParts;
  readonly #resource: string | undefined;

  constructor(parts: UsageParts, resource: string | undefined) {
    this.#parts = parts;
    this.#resource = resource;
  }

  /** Shards, ordered by group. */
  shards(after: string | undefined): UsageRefs {
    const from = after === undefined ? "BUCKET#" : `BUCKET#${this.#sortKeyOf(after)}$`;
    return this.#listed(this.#resource, { from, to: "BUCKET$" }, KEYS_AT_ONCE, KEYS_MAX);
  }

  /** Sheets of some days, ordered by group. `pass` is called with the other days that were read. */
  async *sheets(
    days: readonly string[],
    { span, resources, live }: SheetsWanted,
    pass: (day: string) => void,
  ): UsageRefs {
    const by = this.#resource === undefined ? resources : [this.#resource];
    if (by !== undefined) {
      yield* merged(this.#byDay(days, by, { span, live }, pass), inGroupOrder);
      return;
    }
    // The index of the namespace is ordered by entity, so sheets of other days are read and dropped.
    const from = span.after === undefined ? "SHEET#" : `SHEET#${this.#sortKeyOf(span.after)}$`;
    const range = { from, to: span.to === undefined ? "SHEET$" : `SHEET#${this.#sortKeyOf(span.to)}$` };
    for await (const ref of this.#nearDays(days, range)) {
      const { sheet = "" } = ref.key;
      if (days.includes(sheet)) yield ref;
      else pass(sheet);
    }
  }

  /** Queries the sheets of a day by resource. Sheets of other resources are queried for the live buckets only. */
  #byDay(
    days: readonly string[],
    resources: readonly string[],
    { span, live }: Pick<SheetsWanted, "span" | "live">,
    pass: (day: string) => void,
  ): UsageRefs[] {
    const of = resources.flatMap((resource) =>
      days.map((day) => this.#listed(resource, ofDay(day, resource, span), KEYS_FIRST, KEYS_MAX)),
    );
    const known = new Set(resources);
    const others = live.filter((group) => !known.has(ofGroup(group).resource));
    return [...of, ...others.map((group) => this.#ofBucket(group, days, pass))];
  }

  async *#ofBucket(group: string, days: readonly string[], pass: (day: string) => void): UsageRefs {
    const bucket = `SHEET#${this.#sortKeyOf(group)}`;
    const last = days.at(-1) ?? "";
    const range = { from: `${bucket}#${days[0]}`, to: `${bucket}$` };
    for await (const ref of this.#listed(undefined, range, KEYS_FIRST, KEYS_MAX)) {
      const { sheet = "" } = ref.key;
      if (sheet > last) {
        pass(sheet);
        return;
      }
      yield ref;
    }
  }

  /**
   * The sheets of a range, except those far from the wanted days: if the last of a page is of another day, the rest of
   * its bucket is skipped. So a bucket costs the same however many days are kept. The first later day of each bucket is
   * included.
   */
  async *#nearDays(days: readonly string[], range: KeySpan): UsageRefs {
    const [first = ""] = days;
    const last = days.at(-1) ?? "";
    const listed = (from: string) => this.#listed(undefined, { from, to: range.to }, KEYS_AT_ONCE, KEYS_AT_ONCE);
    yield* skipping(range.from, listed, KEYS_AT_ONCE, ({ key: { sheet = "" }, group }) => {
      if (sheet >= first && sheet <= last) return undefined;
      const bucket = `SHEET#${this.#sortKeyOf(group)}`;
      return sheet < first ? `${bucket}#${first}` : `${bucket}$`;
    });
  }

  /** The first day after `day` with a sheet of one of the resources. */
  async nextDay(day: string, resources: readonly string[] | undefined): Promise<string | undefined> {
    const by = this.#resource === undefined ? (resources ?? []) : [this.#resource];
    let next: string | undefined;
    for (const some of chunksOf(by, QUERIES_AT_ONCE)) {
      const asked = some.map((resource) =>
        this.#listed(resource, { from: `SHEET#${day}$`, to: "SHEET$" }, 1, 1).next(),
      );
      for (const { value } of await Promise.all(asked)) {
        const sheet = (value as UsageItemRef | undefined)?.key.sheet;
        if (sheet !== undefined && sheet < (next ?? "~")) next = sheet;
      }
    }
    return next;
  }

  /** Queries the index of a resource; without one, of the namespace. */
  #listed(resource: string | undefined, range: KeySpan, pageSize: number, pageSizeMax: number): UsageRefs {
    const { records, namespaceId } = this.#parts;
    const index =
      resource === undefined
        ? namespaceIndex(namespaceId, range)
        : resourceIndex(resourcePk(namespaceId, resource), range);
    return usageRefs(records, { ...index, pageSize, pageSizeMax });
  }

  #sortKeyOf(group: string): string {
    const { entityId, resource } = ofGroup(group);
    return this.#resource === undefined ? `${entityId}#${resource}` : entityId;
  }
}

type UsageRefs = AsyncGenerator<UsageItemRef>;

/** References to the items with usage that a query finds. */
export async function* usageRefs(records: Records, query: RecordQuery): UsageRefs {
  for await (const item of records.query({ ...query, keysOnly: true })) {
    const found = usageItemRef(keyIn(item));
    if (found !== undefined) yield found;
  }
}

/** Lists from a key on. After each page `skipTo` may name the key at which the list continues, beyond the next page. */
export async function* skipping(
  start: string,
  listed: (from: string) => UsageRefs,
  pageSize: number,
  skipTo: (last: UsageItemRef) => string | undefined,
): UsageRefs {
  for (let from: string | undefined = start; from !== undefined; ) {
    const refs = listed(from);
    from = undefined;
    let count = 0;
    for await (const ref of refs) {
      yield ref;
      count += 1;
      from = count % pageSize === 0 ? skipTo(ref) : undefined;
      if (from !== undefined) break;
    }
  }
}

/** A compromise: a page stays cheap, and a whole table takes few calls. */
const KEYS_AT_ONCE = 200;
/** Each of many parallel streams begins with a small page. */
const KEYS_FIRST = 50;
const KEYS_MAX = 800;

const QUERIES_AT_ONCE = 32;

/** The range of one day in the index of a resource, ordered by entity. */
function ofDay(day: string, resource: string, { after, to }: GroupSpan): KeySpan {
  const first = after === undefined ? undefined : ofGroup(after);
  const last = to === undefined ? undefined : ofGroup(to);
  // `#` begins the sheets of an entity, `$` comes after all of them.
  const from = first === undefined ? "#" : `#${first.entityId}${resource > first.resource ? "#" : "$"}`;
  const end = last === undefined ? "$" : `#${last.entityId}${resource > last.resource ? "#" : "$"}`;
  return { from: `SHEET#${day}${from}`, to: `SHEET#${day}${end}` };
}

export function usageItemRef(tableKey: TableKey): UsageItemRef | undefined {
  const key = parseItemKey(tableKey)?.key;
  return key === undefined ? undefined : { key, tableKey, group: groupOf(key.bucket) };
}

function inGroupOrder(a: UsageItemRef, b: UsageItemRef): number {
  return compareTexts(a.group, b.group);
}

// A newline sorts before every character of both names, and is in neither.
export function groupOf({ entityId, resource }: UsageOf): string {
  return `${entityId}\n${resource}`;
}

export function ofGroup(group: string): UsageOf {
  const [entityId = "", resource = ""] = group.split("\n");
  return bucketKey(entityId, resource);
}

export interface UsageItem {
  readonly ref: UsageItemRef;
  readonly shard: number;
  /** The day of a sheet; empty for a shard. */
  readonly day: string;
  readonly item: Item;
}

/** The items of some references that still exist. */
export async function itemsIn(records: Records, refs: readonly UsageItemRef[]): Promise<UsageItem[]> {
  if (refs.length === 0) return [];
  const found = await records.getAll(refs.map(({ tableKey }) => tableKey));
  return refs.flatMap((ref, i) => {
    const item = found[i];
    const { shard, sheet = "" } = ref.key;
    return item === undefined ? [] : [{ ref, shard, day: sheet, item: decodeItem(item) }];
  });
}

/** The first and the last day of the windows of a query. */
export function daySpan({ window, fromMs, toMs }: Pick<UsageQuery, "window" | "fromMs" | "toMs">) {
  const lastMs = inCalendar(toMs - 1);
  return { from: dayText(inCalendar(fromMs)), to: dayText(windowEndMs(window, windowStartMs(window, lastMs)) - 1) };
}

/** True if all windows of a query ended before the instant up to which usage is on sheets. */
export function isSheetsOnly({ window, toMs }: Pick<UsageQuery, "window" | "toMs">, closedUntilMs: number): boolean {
  const lastMs = inCalendar(toMs - 1);
  return windowEndMs(window, windowStartMs(window, lastMs)) <= closedUntilMs;
}

/** The days (UTC) of one window. */
export function daysOf(window: Windows, startMs: number): string[] {
  const days: string[] = [];
  const endMs = windowEndMs(window, startMs);
  for (let dayMs = windowStartMs("daily", startMs); dayMs < endMs; dayMs += DAY_MS) days.push(dayText(dayMs));
  return days;
}

function dayText(atMs: number): string {
  return new Date(inCalendar(atMs)).toISOString().slice(0, 10);
}

const DAY_MS = 86_400_000;
