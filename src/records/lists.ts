import type { Page, PageRequest } from "../domain/names/paging.ts";
import { andThen } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
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

  get(scope: string, keys: readonly RecordKey[]): MaybePromise<readonly (StoredRecord | undefined)[]> {
    return andThen(this.#store.get(scope, keys), ({ generation, records }) => {
      this.#generations.note(scope, generation);
      return records;
    });
  }

  /** One record, as what is made of it. */
  one<Value>(scope: string, key: RecordKey, read: (record: StoredRecord) => Value): MaybePromise<Value | undefined> {
    return andThen(this.get(scope, [key]), ([record]) => record && read(record));
  }

  list(
    scope: string,
    list: RecordList,
    after: readonly string[] | undefined,
    limitMax: number,
  ): MaybePromise<readonly ListedRecord[]> {
    return andThen(this.#store.list(scope, list, after, limitMax), ({ generation, records }) => {
      this.#generations.note(scope, generation);
      return records;
    });
  }

  /** A page of a list whose places have so many parts. */
  page<Item>(
    scope: string,
    list: RecordList,
    { limit, cursor }: PageRequest,
    parts: number,
    itemOf: (record: ListedRecord) => Item,
  ): MaybePromise<Page<Item>> {
    return andThen(this.list(scope, list, keyAfter(cursor, parts), limit + 1), (found) => {
      const page = pageOf(found, limit, ({ place }) => keyCursor(...place));
      return { ...page, items: page.items.map(itemOf) };
    });
  }
}
