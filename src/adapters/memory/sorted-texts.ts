/** By code units, as the other stores do. */
export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The index of the first key after this one. */
export function placeAfter<Key>(keys: readonly Key[], key: Key, compare: (a: Key, b: Key) => number): number {
  let from = 0;
  let to = keys.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (compare(keys[middle] as Key, key) <= 0) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** So many texts lie together: few enough that putting one between them is cheap, many enough that there are few such runs. */
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
    const place = placeAfter(run, text, compareTexts);
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
    const place = placeAfter(run, text, compareTexts) - 1;
    if (run[place] !== text) return;
    if (run.length === 1) this.#runs.splice(at, 1);
    else run.splice(place, 1);
  }

  clear(): void {
    this.#runs.length = 0;
  }

  /** Up to so many texts after this one, in order. */
  after(text: string, max: number): string[] {
    const found: string[] = [];
    for (let at = this.#runOf(text); at < this.#runs.length && found.length < max; at++) {
      const run = this.#runs[at] as string[];
      const from = found.length === 0 ? placeAfter(run, text, compareTexts) : 0;
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
