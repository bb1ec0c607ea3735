const MINUTE_MS = 60_000;

/** Ids by the minute of an instant: what is due is found without looking at everything that is not. */
export class MinuteIndex {
  readonly #minutes = new Map<number, Map<string, number>>();
  /** No minute before this one has any. */
  #earliest = Number.POSITIVE_INFINITY;

  add(id: string, atMs: number): void {
    const minute = Math.floor(atMs / MINUTE_MS);
    this.#earliest = Math.min(this.#earliest, minute);
    const ids = this.#minutes.get(minute);
    if (ids === undefined) this.#minutes.set(minute, new Map([[id, atMs]]));
    else ids.set(id, atMs);
  }

  delete(id: string, atMs: number): void {
    const minute = Math.floor(atMs / MINUTE_MS);
    const ids = this.#minutes.get(minute);
    if (ids?.delete(id) && ids.size === 0) this.#minutes.delete(minute);
  }

  /** Up to so many ids whose instant is not after this one, the oldest minute first. */
  upTo(nowMs: number, max: number): readonly string[] {
    const last = Math.floor(nowMs / MINUTE_MS);
    if (this.#earliest > last) return [];
    const minutes = [...this.#minutes.keys()].sort((a, b) => a - b);
    this.#earliest = minutes[0] ?? Number.POSITIVE_INFINITY;
    const found: string[] = [];
    for (const minute of minutes) {
      if (minute > last) break;
      for (const [id, atMs] of this.#minutes.get(minute) ?? []) {
        if (found.length === max) return found;
        if (atMs <= nowMs) found.push(id);
      }
    }
    return found;
  }

  clear(): void {
    this.#minutes.clear();
    this.#earliest = Number.POSITIVE_INFINITY;
  }
}
