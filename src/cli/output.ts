/** Where a command's answer and its talk go. */
export interface Output {
  /** The answer. Resolves when there is room for more; once `isClosed`, nothing arrives any more. */
  write(text: string): Promise<void>;
  /** Talk, notes and errors. */
  note(text: string): void;
  /** The reader of the answer has left. */
  readonly isClosed: boolean;
}

export function processOutput(): Output {
  let isClosed = false;
  // A reader that leaves (`| head -1`) is no fault.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    isClosed = true;
  });
  process.stderr.on("error", () => {});
  return {
    write: (text) =>
      new Promise((resolve) => {
        if (isClosed) resolve();
        else process.stdout.write(text, () => resolve());
      }),
    note: (text) => {
      process.stderr.write(text);
    },
    get isClosed() {
      return isClosed;
    },
  };
}
