import { statSync } from "node:fs";

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
