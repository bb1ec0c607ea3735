import type { Warnings } from "../../ports/system.ts";

/** So many at most in one process: whoever has not mended it by then reads no more of them. */
const WARNINGS_MAX = 100;

const CODE = "ZAEL_LIMIT_UNNAMED";

/** What was told, or need not be told any more. */
const known = new Set<string>();
let told = 0;
let places = 0;
let tell = ofNode;

/**
 * The warnings of this process about one store: a limit of the same name in another is another. `place`: where it is, if others in this
 * process can open the same.
 */
export function systemWarnings(place: string | undefined): Warnings {
  const prefix = place ?? String(places++);
  return {
    once: (key, text) => {
      const one = `${prefix} ${key}`;
      if (told >= WARNINGS_MAX || known.has(one)) return false;
      known.add(one);
      told++;
      tell(text());
      return true;
    },
    done: (key) => known.add(`${prefix} ${key}`),
  };
}

/** Sends the warnings of this process elsewhere, until the answered function is called: the command line has its own place for them. */
export function warnThrough(log: (line: string) => void): () => void {
  tell = (text) => log(`${CODE}: ${text}`);
  return () => {
    tell = ofNode;
  };
}

function ofNode(text: string): void {
  // Other runtimes may have neither.
  globalThis.process?.emitWarning?.(text, { code: CODE });
}
