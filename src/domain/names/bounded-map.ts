/**
 * A map that holds at most twice `generationMax` entries: two generations, the older dropped when the younger is full.
 * Whatever is used at least once a generation stays, and a hit costs one lookup, where an exact LRU would move a link.
 * Entries that must not be dropped yet (`isKept`) stay besides.
 */
export class BoundedMap<Value> {
  readonly #generationMax: number;
  readonly #isKept: ((value: Value) => boolean) | undefined;
  #young = new Map<string, Value>();
  #old = new Map<string, Value>();

  constructor(generationMax: number, isKept?: (value: Value) => boolean) {
    this.#generationMax = generationMax;
    this.#isKept = isKept;
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: string): Value | undefined {
    const value = this.#young.get(key);
    if (value !== undefined || this.#old.size === 0) return value;
    const aged = this.#old.get(key);
    if (aged !== undefined) this.set(key, aged);
    return aged;
  }

  set(key: string, value: Value): void {
    if (this.#young.size >= this.#generationMax && !this.#young.has(key)) this.#age();
    if (this.#old.size > 0) this.#old.delete(key);
    this.#young.set(key, value);
  }

  #age(): void {
    const dropped = this.#old;
    this.#old = this.#young;
    this.#young = new Map();
    if (this.#isKept === undefined) return;
    for (const [key, value] of dropped) if (this.#isKept(value)) this.#old.set(key, value);
  }

  delete(key: string): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  clear(): void {
    // An empty map makes itself a new table all the same.
    if (this.#young.size > 0) this.#young.clear();
    if (this.#old.size > 0) this.#old.clear();
  }
}

/** A `BoundedMap` for pairs of keys: two small lookups instead of joining the keys into a new string each time. */
export class BoundedPairs<Value> {
  readonly #generationMax: number;
  #young = new Map<string, Map<string, Value>>();
  #old = new Map<string, Map<string, Value>>();
  #youngSize = 0;
  #oldSize = 0;
  #outer: string | undefined;
  #row: Map<string, Value> | undefined;

  constructor(generationMax: number) {
    this.#generationMax = generationMax;
  }

  get size(): number {
    return this.#youngSize + this.#oldSize;
  }

  get(outer: string, inner: string): Value | undefined {
    // Requests for one resource come in runs, so its row is kept at hand.
    if (outer !== this.#outer) {
      this.#outer = outer;
      this.#row = this.#young.get(outer);
    }
    const value = this.#row?.get(inner);
    if (value !== undefined || this.#oldSize === 0) return value;
    const aged = this.#old.get(outer)?.get(inner);
    if (aged !== undefined) this.set(outer, inner, aged);
    return aged;
  }

  set(outer: string, inner: string, value: Value): void {
    if (this.#youngSize >= this.#generationMax) {
      this.#old = this.#young;
      this.#oldSize = this.#youngSize;
      this.#young = new Map();
      this.#youngSize = 0;
    }
    this.#outer = undefined;
    let row = this.#young.get(outer);
    if (row === undefined) {
      row = new Map();
      this.#young.set(outer, row);
    }
    if (!row.has(inner)) this.#youngSize++;
    row.set(inner, value);
    if (this.#oldSize > 0 && this.#old.get(outer)?.delete(inner)) this.#oldSize--;
  }

  clear(): void {
    this.#young.clear();
    this.#old.clear();
    this.#youngSize = 0;
    this.#oldSize = 0;
    this.#outer = undefined;
  }
}
