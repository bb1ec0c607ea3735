import { randomBytes } from "node:crypto";
import { createReadStream, fstatSync, writeSync } from "node:fs";
import { type FileHandle, open, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { addAbortSignal } from "node:stream";
import { text as textOfStream } from "node:stream/consumers";
import { isatty } from "node:tty";
import { CommandEnd, EXIT, UsageError } from "./exit-code.ts";

/** The text of a file that a command was given; `-` is stdin. One that cannot be read is wrong use: 2. */
export async function readGiven(file: string, what: string): Promise<string> {
  try {
    return file === "-" ? await textOfStream(process.stdin) : await readFile(file, "utf8");
  } catch (error) {
    throw new UsageError(`${what} ${file} cannot be read: ${whyOf(error)}.`);
  }
}

/** The text of a file that a command was given, in pieces; `-` is stdin. One that cannot be read is wrong use: 2. */
export async function* textGiven(file: string, what: string, signal: AbortSignal): AsyncGenerator<string> {
  const source = file === "-" ? process.stdin : createReadStream(file);
  try {
    for await (const piece of addAbortSignal(signal, source.setEncoding("utf8"))) yield piece as string;
  } catch (error) {
    signal.throwIfAborted();
    throw new UsageError(`${what} ${file} cannot be read: ${whyOf(error)}.`);
  }
}

/**
 * Writes a file as a whole or not at all: beside it, then in its place, so that whoever reads it sees the old one or the new
 * one, and a failure leaves the old one. What is no plain file (a device, a pipe) is written as it is. A fault is 3.
 */
export async function writeWhole(file: string, content: string | Uint8Array | AsyncIterable<string>): Promise<void> {
  try {
    // A link stays one: what it leads to is replaced.
    const target = await realpath(file).catch(() => file);
    const before = await stat(target).catch(() => undefined);
    if (before?.isDirectory() === true) throw Object.assign(new Error("EISDIR"), { code: "EISDIR", syscall: "open" });
    if (before !== undefined && !before.isFile()) return await written(await open(target, "w"), content, "device");
    const beside = `${target}.${randomBytes(6).toString("hex")}`;
    try {
      await written(await open(beside, "wx", before === undefined ? 0o666 : before.mode & 0o777), content, "file");
      await rename(beside, target);
    } catch (error) {
      await rm(beside, { force: true });
      throw error;
    }
  } catch (error) {
    throw isFileError(error) ? unwritable(file, error) : error;
  }
}

/** The end of a command whose answer or file cannot be written. */
export function unwritable(what: string, error: unknown): CommandEnd {
  return new CommandEnd({
    code: "file_failed",
    message: `${what} cannot be written: ${whyOf(error)}.`,
    exitCode: EXIT.store,
  });
}

/** Whether the system refused something of a file, rather than this program being wrong. */
function isFileError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error && "code" in error;
}

async function written(
  handle: FileHandle,
  content: string | Uint8Array | AsyncIterable<string>,
  kind: "file" | "device",
): Promise<void> {
  try {
    await handle.writeFile(content);
    // A disk that is full may say so only now.
    if (kind === "file") await handle.sync();
  } finally {
    await handle.close();
  }
}

const WHY: Readonly<Record<string, string>> = {
  ENOSPC: "no space is left on the device; free some space, or name another place",
  EDQUOT: "the quota of the disk is used up; free some space, or name another place",
  EIO: "the device reported an error",
  ENOENT: "there is no such file or folder",
  ENOTDIR: "a part of its path is not a folder",
  EISDIR: "it is a folder",
  EACCES: "permission is denied",
  EPERM: "permission is denied",
  EROFS: "the file system is read-only",
};

function whyOf(error: unknown): string {
  const { code = "", message } = error as NodeJS.ErrnoException;
  return WHY[code] ?? message;
}

/** Where a command's answer and its talk go. */
export interface Output {
  /** The answer. Resolves when there is room for more; once `isClosed`, nothing arrives any more. Rejects where a disk is full. */
  write(text: string): Promise<void>;
  /** Talk, notes and errors. */
  note(text: string): void;
  /** The reader of the answer has left. */
  readonly isClosed: boolean;
}

/** The terminals at the ends of the three streams. */
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

/** The surroundings of a command line: the process, or a test. */
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
  // Streams are made when they are needed: one costs a command some milliseconds, and most answers are written without.
  let stdout: NodeJS.WriteStream | undefined;
  let stderr: NodeJS.WriteStream | undefined;
  const later = (rest: Uint8Array) =>
    new Promise<void>((resolve) => {
      stdout ??= process.stdout.on("error", failed);
      stdout.write(rest, (error) => {
        if (error != null) failed(error);
        resolve();
      });
    });
  return {
    write: async (text) => {
      if (!isClosed && fault === undefined) {
        try {
          const bytes = Buffer.from(text);
          const rest = stdout === undefined ? writeNow(bytes) : bytes;
          if (rest.length > 0) await later(rest);
        } catch (error) {
          failed(error as NodeJS.ErrnoException);
        }
      }
      if (fault !== undefined) throw fault;
    },
    note: (text) => {
      stderr ??= process.stderr.on("error", () => {});
      stderr.write(text);
    },
    get isClosed() {
      return isClosed;
    },
  };
}

/** Writes the answer at once, as Node does to terminals, files and pipes. Returns what is left where a pipe that must not block is full. */
function writeNow(bytes: Uint8Array): Uint8Array {
  let rest = bytes;
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") return rest;
      throw error;
    }
  }
  return rest;
}

/** Node's own question loads the modules of terminals and sockets, which files and pipes do not need. */
function isTerminal(descriptor: 0 | 1 | 2): boolean {
  try {
    return fstatSync(descriptor).isCharacterDevice() && isatty(descriptor);
  } catch {
    return false;
  }
}

function processTerminal(): Terminal {
  const known = new Map<0 | 1 | 2, boolean>();
  const isKnown = (descriptor: 0 | 1 | 2) => {
    const before = known.get(descriptor);
    if (before !== undefined) return before;
    const found = isTerminal(descriptor);
    known.set(descriptor, found);
    return found;
  };
  return {
    get stdin() {
      return isKnown(0);
    },
    get stdout() {
      return isKnown(1);
    },
    get stderr() {
      return isKnown(2);
    },
    // Read when they are wanted: a window changes its size while something is drawn in it.
    get columns() {
      return isKnown(1) ? process.stdout.columns : undefined;
    },
    get rows() {
      return isKnown(1) ? process.stdout.rows : undefined;
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
