import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

interface FollowFile {
  readonly path: string;
  /** Begin with so many of its last lines; undefined: with all of it. */
  readonly tail: number | undefined;
  /** Go on with what is added, until the signal. */
  readonly goesOn: boolean;
  readonly signal: AbortSignal;
}

const CHUNK_BYTES = 65_536;
const POLL_MS = 200;

/** A text file piece by piece; a file that was begun anew is read from its beginning. */
export async function* followFile({ path, tail, goesOn, signal }: FollowFile): AsyncGenerator<Buffer, void, undefined> {
  const file = openSync(path, "r");
  try {
    let at = tail === undefined ? 0 : startOfTail(file, tail);
    while (!signal.aborted) {
      const { size } = fstatSync(file);
      if (size < at) at = 0;
      const chunk = Buffer.alloc(CHUNK_BYTES);
      const length = readSync(file, chunk, 0, CHUNK_BYTES, at);
      at += length;
      if (length > 0) yield chunk.subarray(0, length);
      else if (goesOn) await sleep(POLL_MS, undefined, { signal }).catch(() => {});
      else return;
    }
  } finally {
    closeSync(file);
  }
}

const NEWLINE = 10;

/** Where the last lines begin, found from the end: a log may be large. */
function startOfTail(file: number, lines: number): number {
  let end = fstatSync(file).size;
  let found = 0;
  let isLast = true;
  const chunk = Buffer.alloc(CHUNK_BYTES);
  while (end > 0) {
    const from = Math.max(0, end - CHUNK_BYTES);
    const length = readSync(file, chunk, 0, end - from, from);
    for (let i = length - 1; i >= 0; i--) {
      // The newline that ends the last line begins no other.
      if (chunk[i] === NEWLINE && !isLast) found += 1;
      isLast = false;
      if (found === lines || lines === 0) return lines === 0 ? from + length : from + i + 1;
    }
    end = from;
  }
  return 0;
}
