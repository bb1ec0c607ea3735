/** The index of the first text after this one. */
function placeAfter(texts: readonly string[], text: string): number {
  let from = 0;
  let to = texts.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((texts[middle] as string) <= text) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** At most this many texts lie together: few enough that putting one between them is cheap, many enough that there are few such runs. */
const RUN_MAX = 512;

/** Texts in order, each once. */
export class OrderedTexts {
  /** Sorted, one after the other; none is empty. */
  readonly #runs: string[][] = [];

  add(text: string): void {
    const at = this.#runOf(text);
    const run = this.#runs[at];
    if (run === undefined) {
      this.#runs.push([text]);
      return;
    }
    const place = placeAfter(run, text);
    if (run[place - 1] === text) return;
    run.splice(place, 0, text);
    if (run.length <= RUN_MAX) return;
    // Texts that come in their order fill each run; in any other order it is cut in two.
    const isLast = at === this.#runs.length - 1 && run.at(-1) === text;
    this.#runs.splice(at + 1, 0, run.splice(isLast ? RUN_MAX : RUN_MAX / 2));
  }

  delete(text: string): void {
    const at = this.#runOf(text);
    const run = this.#runs[at] ?? [];
    const place = placeAfter(run, text) - 1;
    if (run[place] !== text) return;
    if (run.length === 1) this.#runs.splice(at, 1);
    else run.splice(place, 1);
  }

  clear(): void {
    this.#runs.length = 0;
  }

  /** Up to so many texts after this one, in order. */
  keysAfter(text: string, max: number): string[] {
    const found: string[] = [];
    for (let at = this.#runOf(text); at < this.#runs.length && found.length < max; at++) {
      const run = this.#runs[at] as string[];
      const from = found.length === 0 ? placeAfter(run, text) : 0;
      for (let i = from; i < run.length && found.length < max; i++) found.push(run[i] as string);
    }
    return found;
  }

  /** The run that has this text, or that it belongs into: the last one that does not begin after it. */
  #runOf(text: string): number {
    let from = 0;
    let to = this.#runs.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (((this.#runs[middle] as string[])[0] as string) <= text) from = middle + 1;
      else to = middle;
    }
    return Math.max(0, from - 1);
  }
}

/** A map that can also say which keys come after a text, in their order, without sorting. A new key costs some twenty comparisons. */
export class OrderedMap<Value> extends Map<string, Value> {
  /** Grows with each key that is taken out: as long as it stays the same, values that were found are still there. */
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
    return this.#keys.keysAfter(text, max);
  }
}
