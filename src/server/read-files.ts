import { readFileSync, statSync } from "node:fs";
import { ValidationError } from "../domain/names/errors.ts";

/** The text of a file. Throws an error of that code, which calls the file `what`; `remedy` follows the reason. */
export function readText(file: string, code: string, what: string, remedy: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const reason = (cause as Error).message;
    throw new ValidationError(code, `${what} ${file} cannot be read: ${reason}.${remedy}`, { cause });
  }
}

interface Reread {
  readonly files: readonly string[];
  /** Reads all of the files and keeps what they say. If it throws, what was kept before stays in use. */
  readonly read: () => void;
  /** The line that is logged after a read. */
  readonly done: string;
  /** The line that is logged after a read that failed, behind the reason. */
  readonly kept: string;
  readonly log: (line: string) => void;
}

/** Returns a function that reads the files again if one of them has changed since its last call, and says whether it has. */
export function rereadOnChange({ files, read, done, kept, log }: Reread): () => boolean {
  let seen = stateOf(files);
  return () => {
    const state = stateOf(files);
    if (state === seen) return false;
    seen = state;
    try {
      read();
      log(done);
      return true;
    } catch (error) {
      log(`${(error as Error).message}${kept}`);
      return false;
    }
  };
}

/** Something that differs when a file has changed. */
function stateOf(files: readonly string[]): string {
  return files.map(stampOf).join("\n");
}

function stampOf(file: string): string {
  try {
    const { mtimeMs, ctimeMs, size, ino } = statSync(file);
    return `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
  } catch {
    return "missing";
  }
}
