import type { Undecided } from "../ports/bucket-store.ts";

/** What takes and debits of a lease have to tell, until its record is written: where it is not, they are undone. */
export class Untold implements Undecided {
  #waiting: (() => void)[] = [];

  add(tell: () => void): void {
    this.#waiting.push(tell);
  }

  tell(): void {
    for (const tell of this.#waiting.splice(0)) tell();
  }
}
