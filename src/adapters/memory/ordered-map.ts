import { compareTexts, placeAfter } from "./sorted-texts.ts";

/** So many keys lie together: few enough that putting one between them is cheap, many enough that there are few such runs. */
const RUN_MAX = 512;

/** A map that can also say which keys come after a text, in their order, without sorting. A new key costs some twenty comparisons. */
export class OrderedMap<Value> extends Map<string, Value> {
  /** Sorted, one after the other; none is empty. */
  readonly #runs: string[][] = [];

  override set(key: string, value: Value): this {
    if (!this.has(key)) this.#insert(key);
    return super.set(key, value);
  }

  override delete(key: string): boolean {
    if (!super.delete(key)) return false;
    const at = this.#runOf(key);
    const run = this.#runs[at] as string[];
    if (run.length === 1) this.#runs.splice(at, 1);
    else run.splice(placeAfter(run, key, compareTexts) - 1, 1);
    return true;
  }

  override clear(): void {
    super.clear();
    this.#runs.length = 0;
  }

  /** Up to so many keys after this text, in order. */
  keysAfter(text: string, max: number): string[] {
    const keys: string[] = [];
    for (let at = this.#runOf(text); at < this.#runs.length && keys.length < max; at++) {
      const run = this.#runs[at] as string[];
      const from = keys.length === 0 ? placeAfter(run, text, compareTexts) : 0;
      for (let i = from; i < run.length && keys.length < max; i++) keys.push(run[i] as string);
    }
    return keys;
  }

  #insert(key: string): void {
    const at = this.#runOf(key);
    const run = this.#runs[at];
    if (run === undefined) {
      this.#runs.push([key]);
      return;
    }
    run.splice(placeAfter(run, key, compareTexts), 0, key);
    if (run.length <= RUN_MAX) return;
    // Keys that come in their order fill each run; in any other order it is cut in two.
    const isLast = at === this.#runs.length - 1 && run.at(-1) === key;
    this.#runs.splice(at + 1, 0, run.splice(isLast ? RUN_MAX : RUN_MAX / 2));
  }

  /** The run that has this key, or that it belongs into: the last one that does not begin after it. */
  #runOf(key: string): number {
    let from = 0;
    let to = this.#runs.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (((this.#runs[middle] as string[])[0] as string) <= key) from = middle + 1;
      else to = middle;
    }
    return Math.max(0, from - 1);
  }
}
