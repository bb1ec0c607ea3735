import { bucketKey } from "../../domain/bucket-key.ts";
import type { ItemKey } from "../../ports/item-store.ts";
import type { UsageOf } from "../../protocol/usage-windows.ts";
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
export interface UsagePlace {
  readonly key: ItemKey;
  readonly tableKey: TableKey;
  /** Sorts as usage is listed: by entity, then resource. */
  readonly group: string;
}

/** From after one bucket to another, by group; undefined: from the first, to the last. */
export interface GroupSpan {
  readonly after: string | undefined;
  readonly to: string | undefined;
}

/** Where the usage of a namespace, or of one resource in it, is found: always by a query of an index, never by a scan. */
export class UsagePlaces {
  readonly #records: Records;
  readonly #namespaceId: string;
  readonly #resource: string | undefined;

  constructor(records: Records, namespaceId: string, resource: string | undefined) {
    this.#records = records;
    this.#namespaceId = namespaceId;
    this.#resource = resource;
  }

  /** Shards, by group. */
  shards(after: string | undefined): AsyncGenerator<UsagePlace> {
    const from = after === undefined ? "BUCKET#" : `BUCKET#${this.#placeOf(after)}$`;
    return this.#listed({ from, to: "BUCKET$" }, KEYS_AT_ONCE);
  }

  /** Sheets of some days, by group; `pass` is told of days that are passed over. */
  async *sheets(
    days: readonly string[],
    { after, to }: GroupSpan,
    pass: (day: string) => void,
  ): AsyncGenerator<UsagePlace> {
    const end = to === undefined ? "" : this.#placeOf(to);
    if (this.#resource !== undefined) {
      const ofDays = days.map((day) => {
        const from = after === undefined ? `SHEET#${day}#` : `SHEET#${day}#${this.#placeOf(after)}$`;
        return this.#listed({ from, to: to === undefined ? `SHEET#${day}$` : `SHEET#${day}#${end}$` }, KEYS_AT_ONCE);
      });
      yield* merged(ofDays);
      return;
    }
    // The index of the namespace has entities first: sheets of other days are passed over.
    const from = after === undefined ? "SHEET#" : `SHEET#${this.#placeOf(after)}$`;
    const range = { from, to: to === undefined ? "SHEET$" : `SHEET#${end}$` };
    for await (const place of this.#listed(range, KEYS_AT_ONCE)) {
      const { sheet = "" } = place.key;
      if (days.includes(sheet)) yield place;
      else pass(sheet);
    }
  }

  /** The first day after another of which there is a sheet; only where the days of one resource are asked for. */
  async nextDay(day: string): Promise<string | undefined> {
    if (this.#resource === undefined) return undefined;
    const { value } = await this.#listed({ from: `SHEET#${day}$`, to: "SHEET$" }, 1).next();
    return (value as UsagePlace | undefined)?.key.sheet;
  }

  async *#listed(range: { readonly from: string; readonly to: string }, pageSize: number): AsyncGenerator<UsagePlace> {
    const place: Pick<RecordQuery, "index" | "partition" | "range"> =
      this.#resource === undefined
        ? { index: NAMESPACE_INDEX, partition: [GSI4PK, this.#namespaceId], range: { name: GSI4SK, ...range } }
        : {
            index: RESOURCE_INDEX,
            partition: [GSI2PK, resourcePk(this.#namespaceId, this.#resource)],
            range: { name: GSI2SK, ...range },
          };
    for await (const item of this.#records.query({ ...place, pageSize, keysOnly: true })) {
      const found = placeIn(keyIn(item));
      if (found !== undefined) yield found;
    }
  }

  #placeOf(group: string): string {
    const { entityId, resource } = ofGroup(group);
    return this.#resource === undefined ? `${entityId}#${resource}` : entityId;
  }
}

/** Few enough that a page costs little, many enough that a table is gone through in few calls. */
const KEYS_AT_ONCE = 500;

export function placeIn(tableKey: TableKey): UsagePlace | undefined {
  const key = parseItemKey(tableKey)?.key;
  return key === undefined ? undefined : { key, tableKey, group: groupOf(key.bucket) };
}

// Neither has a newline, which sorts before all their characters.
export function groupOf({ entityId, resource }: UsageOf): string {
  return `${entityId}\n${resource}`;
}

export function ofGroup(group: string): UsageOf {
  const [entityId = "", resource = ""] = group.split("\n");
  return bucketKey(entityId, resource);
}

/** Streams that are each in the order of their groups, as one. */
async function* merged(streams: readonly AsyncGenerator<UsagePlace>[]): AsyncGenerator<UsagePlace> {
  const heads = await Promise.all(streams.map((stream) => stream.next()));
  for (;;) {
    let first: { readonly at: number; readonly place: UsagePlace } | undefined;
    for (const [at, { value: place }] of heads.entries()) {
      if (place !== undefined && (first === undefined || place.group < first.place.group)) first = { at, place };
    }
    if (first === undefined) return;
    yield first.place;
    heads[first.at] = (await streams[first.at]?.next()) as IteratorResult<UsagePlace>;
  }
}
