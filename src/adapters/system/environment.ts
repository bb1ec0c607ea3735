import type { Warnings } from "../../ports/system.ts";

/** Settings that are read from the environment. The second line is what the aggregator's Lambda is given by its stack. */
type Setting =
  | (
      | "ZAEL_STORE"
      | "ZAEL_NAMESPACE"
      | "ZAEL_STACK"
      | "ZAEL_SHARED_TABLE"
      | "DATABASE_URL"
      | "REDIS_URL"
      | "AWS_PROFILE"
      | "AWS_ENDPOINT_URL"
      | "AWS_ENDPOINT_URL_S3"
    )
  | ("TABLE_NAME" | "ARCHIVE_BUCKET_NAME" | "ARCHIVE_PREFIX" | "SWEEP_AFTER_HOURS" | "LOG_LEVEL");

/** The whole environment, for a choice that depends on several settings. */
export function environment(): Readonly<Record<string, string | undefined>> {
  return process.env;
}

/** A setting of this process's environment. An empty value counts as absent. */
export function fromEnvironment(name: Setting): string | undefined {
  const value = process.env[name];
  return value === undefined || value === "" ? undefined : value;
}

/** A process prints at most this many warnings. */
const WARNINGS_MAX = 100;

const CODE = "ZAEL_LIMIT_UNNAMED";

/** Keys that were reported, or need not be. */
const known = new Set<string>();
let told = 0;
let places = 0;
let tell = ofNode;

/**
 * The warnings of this process about one store, because a limit of the same name in another store is another. `place`:
 * the store's location, if others in this process can open the same.
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

/**
 * Redirects the warnings of this process until the returned function is called; the command line has its own output for
 * them.
 */
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
