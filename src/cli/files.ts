import { randomBytes } from "node:crypto";
import { type FileHandle, open, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { text as textOfStream } from "node:stream/consumers";
import { CommandEnd, EXIT, UsageError } from "./exit-code.ts";

/** The text of a file that a command was given; `-` is stdin. One that cannot be read is wrong use: 2. */
export async function readGiven(file: string, what: string): Promise<string> {
  try {
    return file === "-" ? await textOfStream(process.stdin) : await readFile(file, "utf8");
  } catch (error) {
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
