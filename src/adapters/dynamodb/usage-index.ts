import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { ItemKey } from "../../ports/item-store.ts";
import type { UsageOf } from "../../protocol/usage/usage-windows.ts";
import { chunksOf, merged } from "./paging.ts";
import type { RecordQuery, Records } from "./records.ts";
import { keyIn } from "./records-write.ts";
import {
  GSI2PK,
  GSI2SK,
  GSI4PK,
  GSI4SK,
  NAMESPACE_INDEX,
  parseItemKey,
  RESOURCE_INDEX,
  resourcePk,
  type TableKey,
} from "./schema.ts";

/** A shard or a sheet, and whose usage it has. */
export interface UsageItemRef {
  readonly key: ItemKey;
  readonly tableKey: TableKey;
  /** Sorts as usage is listed: by entity, then resource. */
  readonly group: string;
}

/** From after one bucket to another, by group; undefined: from the first, to the last. */
interface GroupSpan {
  readonly after: string | undefined;
  readonly to: string | undefined;
}

/** Which sheets of some days are looked for. */
interface SheetsWanted {
  readonly span: GroupSpan;
  /** Resources that all sheets are of, but those of the groups in `live`; undefined: nobody knows. */
  readonly resources: readonly string[] | undefined;
  readonly live: readonly string[];
}

interface KeyRange {
  readonly from: string;
  readonly to: string;
}

/** Finds the items with usage of a namespace, or of one resource in it: always by a query of an index, never by a scan. */
export class UsageIndex {
  readonly #records: Records;
  readonly #namespaceId: string;
  readonly #resource: string | undefined;

  constructor(records: Records, namespaceId: string, resource: string | undefined) {
    this.#records = records;
    this.#namespaceId = namespaceId;
    this.#resource = resource;
  }

  /** Shards, by group. */
  shards(after: string | undefined): AsyncGenerator<UsageItemRef> {
    const from = after === undefined ? "BUCKET#" : `BUCKET#${this.#sortKeyOf(after)}$`;
    return this.#listed(this.#resource, { from, to: "BUCKET$" }, KEYS_AT_ONCE, KEYS_MAX);
  }

  /** Sheets of some days, by group; `pass` is told of days that are passed over. */
  async *sheets(
    days: readonly string[],
    { span, resources, live }: SheetsWanted,
    pass: (day: string) => void,
  ): AsyncGenerator<UsageItemRef> {
    const by = this.#resource === undefined ? resources : [this.#resource];
    if (by !== undefined) {
      yield* merged(this.#byDay(days, by, { span, live }, pass), inGroupOrder);
      return;
    }
    // The index of the namespace has entities first: sheets of other days are passed over.
    const from = span.after === undefined ? "SHEET#" : `SHEET#${this.#sortKeyOf(span.after)}$`;
    const range = { from, to: span.to === undefined ? "SHEET$" : `SHEET#${this.#sortKeyOf(span.to)}$` };
    for await (const ref of this.#nearDays(days, range)) {
      const { sheet = "" } = ref.key;
      if (days.includes(sheet)) yield ref;
      else pass(sheet);
    }
  }

  /** By the index that has the sheets of a day together, for each resource; others only of the buckets that are known. */
  #byDay(
    days: readonly string[],
    resources: readonly string[],
    { span, live }: Pick<SheetsWanted, "span" | "live">,
    pass: (day: string) => void,
  ): AsyncGenerator<UsageItemRef>[] {
    const of = resources.flatMap((resource) =>
      days.map((day) => this.#listed(resource, ofDay(day, resource, span), KEYS_FIRST, KEYS_MAX)),
    );
    const known = new Set(resources);
    const others = live.filter((group) => !known.has(ofGroup(group).resource));
    return [...of, ...others.map((group) => this.#ofBucket(group, days, pass))];
  }

  async *#ofBucket(group: string, days: readonly string[], pass: (day: string) => void): AsyncGenerator<UsageItemRef> {
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
   * The sheets of a range but those that are far from some days: where the last of those that were read at once is of another
   * day, the rest of its bucket is jumped over. So a bucket costs the same however many days are kept. Of the later days each
   * bucket has, the first is among them.
   */
  async *#nearDays(days: readonly string[], range: KeyRange): AsyncGenerator<UsageItemRef> {
    const [first = ""] = days;
    const last = days.at(-1) ?? "";
    for (let from: string | undefined = range.from; from !== undefined; ) {
      const listed = this.#listed(undefined, { from, to: range.to }, KEYS_AT_ONCE, KEYS_AT_ONCE);
      from = undefined;
      let count = 0;
      for await (const ref of listed) {
        yield ref;
        count += 1;
        const { sheet = "" } = ref.key;
        if (count % KEYS_AT_ONCE !== 0 || (sheet >= first && sheet <= last)) continue;
        const bucket = `SHEET#${this.#sortKeyOf(ref.group)}`;
        from = sheet < first ? `${bucket}#${first}` : `${bucket}$`;
        break;
      }
    }
  }

  /** The first day after another of which there is a sheet of some resources. */
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

  /** By the index of a resource; without one, of the namespace. */
  async *#listed(
    resource: string | undefined,
    range: KeyRange,
    pageSize: number,
    pageSizeMax: number,
  ): AsyncGenerator<UsageItemRef> {
    const indexQuery: Pick<RecordQuery, "index" | "partition" | "range"> =
      resource === undefined
        ? { index: NAMESPACE_INDEX, partition: [GSI4PK, this.#namespaceId], range: { name: GSI4SK, ...range } }
        : {
            index: RESOURCE_INDEX,
            partition: [GSI2PK, resourcePk(this.#namespaceId, resource)],
            range: { name: GSI2SK, ...range },
          };
    for await (const item of this.#records.query({ ...indexQuery, pageSize, pageSizeMax, keysOnly: true })) {
      const found = usageItemRef(keyIn(item));
      if (found !== undefined) yield found;
    }
  }

  #sortKeyOf(group: string): string {
    const { entityId, resource } = ofGroup(group);
    return this.#resource === undefined ? `${entityId}#${resource}` : entityId;
  }
}

/** Few enough that a page costs little, many enough that a table is gone through in few calls. */
const KEYS_AT_ONCE = 200;
/** Of many streams that are read side by side, each begins with few. */
const KEYS_FIRST = 50;
const KEYS_MAX = 800;

const QUERIES_AT_ONCE = 32;

/** The sheets of a day in the index of a resource, which has them by entity. */
function ofDay(day: string, resource: string, { after, to }: GroupSpan): KeyRange {
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
  return a.group < b.group ? -1 : a.group > b.group ? 1 : 0;
}

// Neither has a newline, which sorts before all their characters.
export function groupOf({ entityId, resource }: UsageOf): string {
  return `${entityId}\n${resource}`;
}

export function ofGroup(group: string): UsageOf {
  const [entityId = "", resource = ""] = group.split("\n");
  return bucketKey(entityId, resource);
}
