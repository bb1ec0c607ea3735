/**
 * A map that holds at most twice `generationMax` entries: two generations, the older dropped when the younger is full.
 * Whatever is used at least once a generation stays, and a hit costs one lookup, where an exact LRU would move a link.
 */
export class BoundedMap<Value> {
  readonly #generationMax: number;
  #young = new Map<string, Value>();
  #old = new Map<string, Value>();

  constructor(generationMax: number) {
    this.#generationMax = generationMax;
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: string): Value | undefined {
    const value = this.#young.get(key);
    if (value !== undefined || this.#old.size === 0) return value;
    const aged = this.#old.get(key);
    if (aged !== undefined) {
      this.#old.delete(key);
      this.set(key, aged);
    }
    return aged;
  }

  set(key: string, value: Value): void {
    if (this.#young.size >= this.#generationMax && !this.#young.has(key)) {
      this.#old = this.#young;
      this.#young = new Map();
    } else if (this.#old.size > 0) {
      this.#old.delete(key);
    }
    this.#young.set(key, value);
  }

  delete(key: string): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  clear(): void {
    this.#young.clear();
    this.#old.clear();
  }
}
