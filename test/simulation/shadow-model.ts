/** A hard limit that gains a millitoken each millisecond, or nothing: what a shadow must hold, by arithmetic of its own. */
export class HardModel {
  readonly capacityMilli: number;
  readonly #drips: boolean;
  /** What it holds less the time: the level at t is at most the capacity, else this and t. */
  #base: number;

  constructor(capacityMilli: number, drips: boolean, fromMs: number) {
    this.capacityMilli = capacityMilli;
    this.#drips = drips;
    this.#base = capacityMilli - this.#risen(fromMs);
  }

  level(atMs: number): number {
    return Math.min(this.capacityMilli, this.#base + this.#risen(atMs));
  }

  /** Whether it grants; then it has taken. */
  take(milli: number, leavePercent: number, atMs: number): boolean {
    const floor = Math.ceil((this.capacityMilli * leavePercent) / 100);
    if (this.level(atMs) - milli < floor) return false;
    this.debit(milli, atMs);
    return true;
  }

  debit(milli: number, atMs: number): void {
    this.#base = Math.min(this.#base, this.capacityMilli - this.#risen(atMs)) - milli;
  }

  credit(milli: number): void {
    this.#base += milli;
  }

  #risen(atMs: number): number {
    return this.#drips ? atMs : 0;
  }
}
