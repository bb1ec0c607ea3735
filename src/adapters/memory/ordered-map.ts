import { OrderedTexts } from "./sorted-texts.ts";

/** A map that can also say which keys come after a text, in their order, without sorting. A new key costs some twenty comparisons. */
export class OrderedMap<Value> extends Map<string, Value> {
  /** How often something was taken out: as long as it stays the same, what was found is still there. */
  removals = 0;
  readonly #keys = new OrderedTexts();

  override set(key: string, value: Value): this {
    if (!this.has(key)) this.#keys.add(key);
    return super.set(key, value);
  }

  override delete(key: string): boolean {
    if (!super.delete(key)) return false;
    this.removals++;
    this.#keys.delete(key);
    return true;
  }

  override clear(): void {
    super.clear();
    this.removals++;
    this.#keys.clear();
  }

  /** Up to so many keys after this text, in order. */
  keysAfter(text: string, max: number): string[] {
    return this.#keys.after(text, max);
  }
}
