import { divFloor } from "../../src/bucket/integers.ts";
import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import type { Page, PageRequest } from "../../src/domain/names/paging.ts";
import type {
  Item,
  ItemAnswer,
  ItemKey,
  ItemWrite,
  TransactionAnswer,
  Undecided,
  WriteTrace,
} from "../../src/ports/item-store.ts";
import { isShardKey } from "../../src/protocol/item/write-builder.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { ConditionalCell } from "./conditional-cell.ts";
import { ConditionalLine, type LineEnd, type LineOptions } from "./conditional-line.ts";
import { ConditionalTokens, type TokenUse } from "./conditional-tokens.ts";
import { checkItem, frozenItem, itemId, outcomeOf } from "./conditional-write.ts";
import { sortedPage } from "./sorted-page.ts";

/** How a table behaves. */
export interface TableOptions {
  /** The true time, in ms: the store's own. */
  now(): number;
  /** What chance decides in the table: which version a read sees, and what a sweep removes. */
  readonly random: SeededRandom;
  /** How many writes one item takes in any one second; each in a transaction counts twice. `Infinity`: any number. */
  readonly writesPerSecond: number;
  /** How old an inconsistent read may be, in ms. */
  readonly staleMs: number;
  /** Called once with the event of every transaction that was applied. */
  onEvent?(namespaceId: string, event: AuditEvent): void;
}

/** One item's change, as the table made it. An item that was written as it stood is one too. */
export interface AppliedChange {
  /** Where. */
  readonly namespaceId: string;
  /** Which item. */
  readonly key: ItemKey;
  /** Undefined: there was none. */
  readonly before: Item | undefined;
  /** Undefined: it was deleted. */
  readonly after: Item | undefined;
  /** What the writer said about it. */
  readonly trace: WriteTrace | undefined;
  /** By the store's time. */
  readonly atMs: number;
  /** `ttl`: swept after it had expired. `removed`: by the test, with `removeWhere`. */
  readonly by: "write" | "transaction" | "ttl" | "removed";
  /** Grows by 1 with each change. */
  readonly order: number;
  /** The same for all items of one transaction. */
  readonly transaction: number | undefined;
}

/** How many calls have reached the table, and what they cost. */
export interface TableCounts {
  /** Single writes, those that failed included. */
  readonly writes: number;
  /** Those that failed included. */
  readonly transactions: number;
  /** Lists too. */
  readonly reads: number;
  /** Of the writes and transactions, those of which a condition did not hold. */
  readonly failed: number;
  /** Of the writes and transactions, those refused because an item had too many. */
  readonly throttled: number;
  /** Of the writes and transactions, those refused because of a transaction. */
  readonly conflicts: number;
  /** Write units: 1 a write, 2 for each item of a transaction, its event included. What failed has cost as much. */
  readonly units: number;
}

/**
 * A table in memory that can do what DynamoDB can and nothing else: conditional writes of single items, transactions,
 * reads that may be old, a ceiling on the writes of an item, items that expire. Each client has a line of its own to it.
 *
 * ```ts
 * const clock = new SimulatedClock(0);
 * const random = new SeededRandom(42);
 * const table = new ConditionalTable({ now: () => clock.now(), random, writesPerSecond: 1000, staleMs: 500 });
 * const items = table.lineTo("default", { rates: { write: 0.1 } });
 * ```
 */
export class ConditionalTable {
  readonly #options: TableOptions;
  readonly #namespaces = new Map<string, Map<string, ConditionalCell>>();
  readonly #tokens = new ConditionalTokens();
  readonly #listeners: ((changes: readonly AppliedChange[]) => void)[] = [];
  readonly #counts = { writes: 0, transactions: 0, reads: 0, failed: 0, throttled: 0, conflicts: 0, units: 0 };
  #order = 0;
  #transactions = 0;

  constructor(options: TableOptions) {
    this.#options = options;
  }

  /** What was counted so far; it goes on counting. */
  get counts(): TableCounts {
    return this.#counts;
  }

  /** One client's line to the items of a namespace. */
  lineTo(namespaceId: string, options: LineOptions): ConditionalLine {
    const end: LineEnd = {
      now: () => this.#options.now(),
      dateMs: () => this.dateMs(),
      write: (write, conflicts) => this.#write(namespaceId, write, conflicts),
      transact: (writes, { token, event }, conflicts) =>
        this.#transact({ namespaceId, token, writes, event }, conflicts),
      read: (keys, consistent) => this.#read(namespaceId, keys, consistent),
      listKeys: ({ entityId }, page) =>
        this.#listBuckets(
          namespaceId,
          (bucket) => entityId === undefined || bucket.entityId === entityId,
          page,
          bothNames,
        ),
      listBuckets: (resource, page) =>
        this.#listBuckets(
          namespaceId,
          (bucket) => bucket.resource === resource,
          page,
          ({ entityId }) => entityId,
        ),
      begin: (writes) => this.#begin(namespaceId, writes),
    };
    return new ConditionalLine(end, options, options.random ?? this.#options.random.fork());
  }

  /** The store's time as the `Date` header of its answers has it: whole seconds, rounded down. */
  dateMs(): number {
    return divFloor(this.#options.now(), 1000) * 1000;
  }

  /** Called with every change at once, in order; with those of a transaction when all of it is applied. */
  watch(listener: (change: AppliedChange) => void): void {
    this.watchTogether((changes) => changes.forEach(listener));
  }

  /** The same, of those together that were made together. */
  watchTogether(listener: (changes: readonly AppliedChange[]) => void): void {
    this.#listeners.push(listener);
  }

  /** Removes each item that has expired, with this chance; answers how many. */
  sweep(chance: number): number {
    const { random } = this.#options;
    const nowMs = this.#options.now();
    return this.#removeCells([...this.#namespaces.keys()], "ttl", (_key, { ttl }) => {
      const expired = typeof ttl === "number" && ttl * 1000 <= nowMs;
      return expired && random.chance(chance);
    });
  }

  /** The item as it is now. No call: nothing is counted. */
  get(namespaceId: string, key: ItemKey): Item | undefined {
    return this.#cell(namespaceId, key)?.item;
  }

  /** Puts an item there, whatever was there before. No call either, but a change. */
  put(namespaceId: string, key: ItemKey, item: Item): void {
    checkItem(item, key);
    const cell = this.#cellFor(namespaceId, key);
    this.#apply([{ cell, after: frozenItem(item), trace: undefined }], "write", undefined);
  }

  /** Puts an item there as a program that is none of ours would: with any value in it. */
  putDamaged(namespaceId: string, key: ItemKey, item: Item): void {
    const cell = this.#cellFor(namespaceId, key);
    this.#apply([{ cell, after: frozenItem(item), trace: undefined }], "write", undefined);
  }

  /** All items of a namespace as they are now, those first that were written first. */
  entries(namespaceId: string): (readonly [ItemKey, Item])[] {
    const cells = this.#namespaces.get(namespaceId)?.values() ?? [];
    return [...cells].flatMap(({ key, item }) => (item === undefined ? [] : [[key, item] as const]));
  }

  /** Removes items, as an operator does that deletes a namespace or a bucket; answers how many. */
  removeWhere(namespaceId: string, predicate: (key: ItemKey, item: Item) => boolean): number {
    return this.#removeCells([namespaceId], "removed", predicate);
  }

  #write(namespaceId: string, write: ItemWrite, conflicts: () => boolean): ItemAnswer {
    const { writesPerSecond } = this.#options;
    const nowMs = this.#options.now();
    const cell = this.#cellFor(namespaceId, write.key);
    this.#counts.writes++;
    if (cell.holds > 0 && conflicts()) return this.#conflict();
    if (!cell.hasRoom(1, nowMs, writesPerSecond)) return this.#throttled();
    const before = cell.item;
    const outcome = outcomeOf(write, before);
    cell.spend(1, nowMs, writesPerSecond);
    this.#counts.units++;
    if (outcome.kind === "failed") {
      this.#counts.failed++;
      return { kind: "failed", item: before };
    }
    const { after } = outcome;
    if (changes(write, before)) this.#apply([{ cell, after, trace: write.trace }], "write", undefined);
    return { kind: "applied", item: write.kind === "check" ? EMPTY : (after ?? EMPTY) };
  }

  #transact(use: TokenUse, conflicts: () => boolean): TransactionAnswer {
    const { writesPerSecond } = this.#options;
    const nowMs = this.#options.now();
    const { namespaceId, writes, event } = use;
    this.#counts.transactions++;
    if (this.#tokens.knows(use, nowMs)) return { kind: "applied" };
    if (conflicts()) return this.#conflict();
    const parts = writes.map((write) => ({ write, cell: this.#cellFor(namespaceId, write.key) }));
    if (!parts.every(({ cell }) => cell.hasRoom(2, nowMs, writesPerSecond))) return this.#throttled();
    // All are decided before any is written: one that throws has changed nothing.
    const outcomes = parts.map(({ write, cell }) => outcomeOf(write, cell.item));
    for (const { cell } of parts) cell.spend(2, nowMs, writesPerSecond);
    this.#counts.units += 2 * (writes.length + (event === undefined ? 0 : 1));
    if (outcomes.some(({ kind }) => kind === "failed")) {
      this.#counts.failed++;
      return { kind: "failed" };
    }
    this.#tokens.remember(use, nowMs);
    const made = parts.flatMap(({ write, cell }, i) =>
      changes(write, cell.item) ? [{ cell, after: outcomes[i]?.after, trace: write.trace }] : [],
    );
    this.#apply(made, "transaction", ++this.#transactions);
    if (event !== undefined) this.#options.onEvent?.(namespaceId, event);
    return { kind: "applied" };
  }

  #read(namespaceId: string, keys: readonly ItemKey[], consistent: boolean): readonly (Item | undefined)[] {
    this.#counts.reads++;
    return keys.map((key) => {
      const cell = this.#cell(namespaceId, key);
      return consistent ? cell?.item : this.#seen(cell);
    });
  }

  /** From an index, which is never consistent. */
  #listBuckets(
    namespaceId: string,
    isWanted: (bucket: BucketKey) => boolean,
    page: PageRequest,
    textOf: (bucket: BucketKey) => string,
  ): Page<BucketKey> {
    this.#counts.reads++;
    const buckets = new Map<string, BucketKey>();
    for (const cell of this.#namespaces.get(namespaceId)?.values() ?? []) {
      const { bucket, shard } = cell.key;
      if (!isWanted(bucket) || shard !== 0 || !isShardKey(cell.key)) continue;
      if (this.#seen(cell) !== undefined) buckets.set(textOf(bucket), bucket);
    }
    return sortedPage(buckets, page);
  }

  #begin(namespaceId: string, writes: readonly ItemWrite[]): () => void {
    const cells = writes.map((write) => this.#cellFor(namespaceId, write.key));
    for (const cell of cells) cell.holds++;
    return () => {
      for (const cell of cells) cell.holds--;
    };
  }

  #removeCells(
    namespaceIds: readonly string[],
    by: "ttl" | "removed",
    predicate: (key: ItemKey, item: Item) => boolean,
  ): number {
    let removed = 0;
    for (const namespaceId of namespaceIds) {
      for (const cell of this.#namespaces.get(namespaceId)?.values() ?? []) {
        if (cell.item === undefined || !predicate(cell.key, cell.item)) continue;
        this.#apply([{ cell, after: undefined, trace: undefined }], by, undefined);
        removed++;
      }
    }
    return removed;
  }

  /** Makes changes that belong together, and calls the listeners when all are made. */
  #apply(made: readonly Change[], by: AppliedChange["by"], transaction: number | undefined): void {
    const atMs = this.#options.now();
    const told = made.map(({ cell, after, trace }): AppliedChange => {
      const { namespaceId, key, item: before } = cell;
      cell.replace(after, atMs, this.#options.staleMs);
      return { namespaceId, key, before, after, trace, atMs, by, order: ++this.#order, transaction };
    });
    for (const listener of this.#listeners) listener(told);
  }

  #seen(cell: ConditionalCell | undefined): Item | undefined {
    return cell?.seen(this.#options.now(), this.#options.staleMs, this.#options.random);
  }

  #cell(namespaceId: string, key: ItemKey): ConditionalCell | undefined {
    return this.#namespaces.get(namespaceId)?.get(itemId(key));
  }

  #cellFor(namespaceId: string, key: ItemKey): ConditionalCell {
    let cells = this.#namespaces.get(namespaceId);
    if (cells === undefined) {
      cells = new Map();
      this.#namespaces.set(namespaceId, cells);
    }
    const id = itemId(key);
    let cell = cells.get(id);
    if (cell === undefined) {
      cell = new ConditionalCell(namespaceId, key);
      cells.set(id, cell);
    }
    return cell;
  }

  #conflict(): Undecided {
    this.#counts.conflicts++;
    return { kind: "refused", why: "conflict", cause: new Error("simulated: a transaction is in the way") };
  }

  #throttled(): Undecided {
    this.#counts.throttled++;
    const { writesPerSecond } = this.#options;
    const cause = new Error(`simulated: the item has had its ${writesPerSecond} writes of this second`);
    return { kind: "refused", why: "throttled", cause };
  }
}

interface Change {
  readonly cell: ConditionalCell;
  readonly after: Item | undefined;
  readonly trace: WriteTrace | undefined;
}

const EMPTY: Item = Object.freeze({});

/** Whether a write that is applied changes anything: a check never does, nor a delete where nothing is. */
function changes({ kind }: ItemWrite, before: Item | undefined): boolean {
  return kind === "update" || kind === "put" || (kind === "delete" && before !== undefined);
}

/** Sorts by entity id, then by resource: a line break comes before every character of a name. */
function bothNames({ entityId, resource }: BucketKey): string {
  return `${entityId}\n${resource}`;
}
