import type { Page, PageRequest } from "../domain/paging.ts";
import type { ListedRecord, RecordKey, RecordList, RecordStore, StoredRecord } from "../ports/record-store.ts";
import { keyAfter, keyCursor, pageOf } from "../stored/cursor.ts";
import type { Generations } from "./generations.ts";

/** Reads of one question each; what they tell of the generation is noted. */
export class Lists {
  readonly #store: RecordStore;
  readonly #generations: Generations;

  constructor(store: RecordStore, generations: Generations) {
    this.#store = store;
    this.#generations = generations;
  }

  async get(scope: string, keys: readonly RecordKey[]): Promise<readonly (StoredRecord | undefined)[]> {
    const { generation, records } = await this.#store.get(scope, keys);
    this.#generations.note(scope, generation);
    return records;
  }

  async list(
    scope: string,
    list: RecordList,
    after: readonly string[] | undefined,
    limitMax: number,
  ): Promise<readonly ListedRecord[]> {
    const { generation, records } = await this.#store.list(scope, list, after, limitMax);
    this.#generations.note(scope, generation);
    return records;
  }

  /** A page of a list whose places have so many parts. */
  async page<Item>(
    scope: string,
    list: RecordList,
    { limit, cursor }: PageRequest,
    parts: number,
    itemOf: (record: ListedRecord) => Item,
  ): Promise<Page<Item>> {
    const found = await this.list(scope, list, keyAfter(cursor, parts), limit + 1);
    const page = pageOf(found, limit, ({ place }) => keyCursor(...place));
    return { ...page, items: page.items.map(itemOf) };
  }
}
