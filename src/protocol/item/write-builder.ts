import { type Count, plus } from "../../bucket/integers.ts";
import type { Clause, Existence, Item, ItemKey, ItemValue, ItemWrite, WriteTrace } from "../../ports/item-store.ts";

type Comparison = "=" | "<>" | "<" | "<=" | ">" | ">=";

/** Builds one conditional write, clause by clause. */
export class WriteBuilder {
  readonly #when: Clause[] = [];
  readonly #set: Record<string, ItemValue> = {};
  readonly #add: Record<string, Count> = {};
  readonly #remove: string[] = [];
  #copy: Record<string, string> | undefined;

  where(name: string, is: Comparison, value: ItemValue): this {
    this.#when.push([{ name, is, value }]);
    return this;
  }

  /** The comparison holds, or the attribute is not there. */
  whereUnless(name: string, is: Comparison, value: ItemValue): this {
    this.#when.push([
      { name, is: "absent" },
      { name, is, value },
    ]);
    return this;
  }

  /** One of several tests holds. */
  any(clause: Clause): this {
    this.#when.push(clause);
    return this;
  }

  present(name: string): this {
    this.#when.push([{ name, is: "present" }]);
    return this;
  }

  absent(name: string): this {
    this.#when.push([{ name, is: "absent" }]);
    return this;
  }

  /** The attribute is as it was in the item: the same value, or absent. */
  asSeen(name: string, item: Item): this {
    const value = item[name];
    return value === undefined ? this.absent(name) : this.where(name, "=", value);
  }

  set(name: string, value: ItemValue): this {
    this.#set[name] = value;
    return this;
  }

  add(name: string, amount: Count): this {
    if (amount !== 0) this.#add[name] = plus(this.#add[name] ?? 0, amount);
    return this;
  }

  remove(name: string): this {
    this.#remove.push(name);
    return this;
  }

  /** The attribute becomes what another was before the write; a missing one counts as 0. */
  copy(name: string, from: string): this {
    this.#copy ??= {};
    this.#copy[name] = from;
    return this;
  }

  /** Makes the attributes equal to `wanted`: sets those that differ, removes the others. */
  diffAttributes(item: Item, names: Iterable<string>, wanted: Item): this {
    for (const name of names) {
      const value = wanted[name];
      if (value === item[name]) continue;
      if (value === undefined) this.remove(name);
      else this.set(name, value);
    }
    return this;
  }

  update(key: ItemKey, item: Existence, trace: WriteTrace | undefined): ItemWrite {
    const [when, set, add, remove, copy] = [this.#when, this.#set, this.#add, this.#remove, this.#copy];
    return { key, kind: "update", item, when, set, add, remove, copy, trace };
  }
}

const NOTHING = Object.freeze({});
const NONE: readonly never[] = Object.freeze([]);

/** Puts an item that must not exist yet. */
export function putNew(key: ItemKey, item: Item, trace: WriteTrace | undefined): ItemWrite {
  return { key, kind: "put", item: "missing", when: NONE, set: item, add: NOTHING, remove: NONE, trace };
}

/** Deletes an item if the clauses hold. */
export function removal(key: ItemKey, when: readonly Clause[], trace: WriteTrace | undefined): ItemWrite {
  return { key, kind: "delete", item: "exists", when, set: NOTHING, add: NOTHING, remove: NONE, trace };
}

/** True for the key of a shard, false for a record or a sheet beside it. */
export function isShardKey({ operation, sheet }: ItemKey): boolean {
  return operation === undefined && sheet === undefined;
}
