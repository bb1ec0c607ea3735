/**
 * Time that passes only while everybody waits for it: whoever does something, such as a real call to a store, holds it up. So
 * calls take as long as a test says, however busy the machine is.
 */
export class Agenda {
  readonly #pass: (nowMs: number) => Promise<void>;
  readonly #waiting: { readonly atMs: number; wake(): void }[] = [];
  #busy = 0;
  #nowMs: number;
  #isPassing = false;

  /** `pass` puts every clock. */
  constructor(nowMs: number, pass: (nowMs: number) => Promise<void>) {
    this.#nowMs = nowMs;
    this.#pass = pass;
  }

  now(): number {
    return this.#nowMs;
  }

  /** Somebody who does one thing after the other, and waits in between. */
  async act(work: () => Promise<void>): Promise<void> {
    this.#busy++;
    try {
      await work();
    } finally {
      this.#busy--;
      void this.#go();
    }
  }

  /** Waits so long; of somebody who acts. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const atMs = this.#nowMs + Math.max(1, Math.ceil(ms));
      const place = this.#waiting.findIndex((other) => other.atMs > atMs);
      this.#waiting.splice(place < 0 ? this.#waiting.length : place, 0, { atMs, wake: resolve });
      this.#busy--;
      void this.#go();
    });
  }

  async #go(): Promise<void> {
    const [first] = this.#waiting;
    if (this.#busy > 0 || this.#isPassing || first === undefined) return;
    this.#isPassing = true;
    await this.#pass(first.atMs);
    this.#nowMs = first.atMs;
    this.#isPassing = false;
    // All of that instant, before anybody of them waits again.
    const woken = this.#waiting.filter(({ atMs }) => atMs === first.atMs);
    this.#waiting.splice(0, woken.length);
    this.#busy += woken.length;
    for (const { wake } of woken) wake();
  }
}
