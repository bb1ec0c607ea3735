import type { WriteStream } from "node:tty";

/** A terminal that is drawn over and over, and left as it was found. */
export class Terminal {
  readonly #out: WriteStream;
  readonly #restore = () => this.close();
  #open = false;
  #size = "";

  constructor(out: WriteStream) {
    this.#out = out;
  }

  get columns(): number {
    return this.#out.columns || 80;
  }

  get rows(): number {
    return this.#out.rows || 24;
  }

  /** Goes to the alternate screen, so that what stood there before comes back, and hides the cursor. */
  open(): void {
    this.#open = true;
    // However the process ends, the reader gets the cursor back.
    process.on("exit", this.#restore);
    this.#out.write("\x1b[?1049h\x1b[?25l");
  }

  show(lines: readonly string[]): void {
    if (!this.#open) return;
    const size = `${this.columns}x${this.rows}`;
    // A terminal that was resized has moved its old lines about.
    const clear = size === this.#size ? "" : "\x1b[2J";
    this.#size = size;
    this.#out.write(`${clear}\x1b[H${lines.map((line) => `${line}\x1b[K`).join("\r\n")}\x1b[J`);
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    process.off("exit", this.#restore);
    this.#out.write("\x1b[?25h\x1b[?1049l");
  }
}
