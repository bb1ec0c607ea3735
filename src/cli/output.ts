import { isatty } from "node:tty";
import { unwritable } from "./files.ts";

/** Where a command's answer and its talk go. */
export interface Output {
  /** The answer. Resolves when there is room for more; once `isClosed`, nothing arrives any more. Rejects where a disk is full. */
  write(text: string): Promise<void>;
  /** Talk, notes and errors. */
  note(text: string): void;
  /** The reader of the answer has left. */
  readonly isClosed: boolean;
}

/** What stands at the ends of the three streams. */
export interface Terminal {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  /** Columns of stdout, where it is a terminal. */
  readonly columns: number | undefined;
  /** Rows of stdout, where it is a terminal. */
  readonly rows: number | undefined;
  /** Asks on stderr; answers with the line that was typed, or undefined where stdin has ended. */
  ask(question: string): Promise<string | undefined>;
}

/** What a command line runs in: the process, or a test. */
export interface Host {
  readonly output: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly terminal: Terminal;
}

export function processHost(): Host {
  return { output: processOutput(), env: process.env, terminal: processTerminal() };
}

function processOutput(): Output {
  let isClosed = false;
  let fault: Error | undefined;
  // A reader that leaves (`| head -1`) is no fault; a disk that is full is one, and is told by the write.
  const failed = (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") isClosed = true;
    else if (!isClosed) fault ??= unwritable("The answer", error);
  };
  process.stdout.on("error", failed);
  // Made when there is something to say: a stream costs a command some milliseconds, and most have nothing to say.
  let stderr: NodeJS.WriteStream | undefined;
  return {
    write: (text) =>
      new Promise((resolve, reject) => {
        const settle = () => (fault === undefined ? resolve() : reject(fault));
        if (isClosed || fault !== undefined) return settle();
        process.stdout.write(text, (error) => {
          if (error != null) failed(error);
          settle();
        });
      }),
    note: (text) => {
      stderr ??= process.stderr.on("error", () => {});
      stderr.write(text);
    },
    get isClosed() {
      return isClosed;
    },
  };
}

function processTerminal(): Terminal {
  return {
    stdin: isatty(0),
    stdout: isatty(1),
    stderr: isatty(2),
    // Read when they are wanted: a window changes its size while something is drawn in it.
    get columns() {
      return process.stdout.columns;
    },
    get rows() {
      return process.stdout.rows;
    },
    ask: async (question) => {
      const { createInterface } = await import("node:readline");
      const lines = createInterface({ input: process.stdin, output: process.stderr });
      return new Promise((resolve) => {
        // Ctrl-C at the question, or the end of the input, is no answer.
        lines.once("close", () => resolve(undefined));
        lines.question(question, (answer) => {
          resolve(answer);
          lines.close();
        });
      });
    },
  };
}
