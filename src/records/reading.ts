import type { AuditEvent } from "../domain/config/audit.ts";
import type { ChangeTime } from "../domain/config/change-number.ts";
import { type Steps, waitFor } from "../domain/steps.ts";
import type { ListedRecord, RecordKey, RecordList, RecordStore, StoredRecord } from "../ports/record-store.ts";
import type { Generations } from "./seen-changes.ts";

/** The answers to several questions cannot have been true at one instant. */
export class Moved extends Error {}

/** Questions in one namespace whose answers are of one generation: the first says of which, and a later one throws `Moved`. */
export class Reading {
  readonly #store: RecordStore;
  readonly #generations: Generations;
  readonly #scope: string;
  #generation: number | undefined;

  constructor(store: RecordStore, generations: Generations, scope: string) {
    this.#store = store;
    this.#generations = generations;
    this.#scope = scope;
  }

  /** When the change of an event is made that is decided by the answers. */
  timeOf({ atMs }: AuditEvent): ChangeTime {
    return this.#generations.timeAfter(this.generation, atMs);
  }

  /** That of the answers; after the first of them. */
  get generation(): number {
    return this.#generation ?? 0;
  }

  *get(keys: readonly RecordKey[]): Steps<readonly (StoredRecord | undefined)[]> {
    const since = this.#generations.of(this.#scope);
    const { generation, changes, records } = yield* waitFor(this.#store.get(this.#scope, keys, since));
    this.#generations.note(this.#scope, generation, changes);
    this.#requireSame(generation);
    return records;
  }

  *list(list: RecordList, after: readonly string[] | undefined, limitMax: number): Steps<readonly ListedRecord[]> {
    const { generation, records } = yield* waitFor(this.#store.list(this.#scope, list, after, limitMax));
    this.#requireSame(generation);
    return records;
  }

  /** All of a list, page by page. */
  *listAll(list: RecordList): Steps<readonly ListedRecord[]> {
    const all: ListedRecord[] = [];
    for (let after: readonly string[] | undefined; ; after = all.at(-1)?.place) {
      const found = yield* this.list(list, after, PAGE);
      all.push(...found);
      if (found.length < PAGE) return all;
    }
  }

  #requireSame(generation: number): void {
    this.#generation ??= generation;
    if (generation !== this.#generation) throw new Moved("The generation of the namespace moved on between two reads.");
  }
}

const PAGE = 1_000;
