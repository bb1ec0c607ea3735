import { readFileSync, statSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { ValidationError } from "../domain/names/errors.ts";

/** A certificate with its chain, and its key, as PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** The texts of the files. */
interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

/** Reads and checks both. Throws a `ValidationError` that names the file. */
export function readTls({ cert, key }: TlsFiles): TlsPair {
  const pair = { cert: readPem("tlsCert", cert), key: readPem("tlsKey", key) };
  try {
    createSecureContext(pair);
    return pair;
  } catch (error) {
    throw new ValidationError(
      "option_invalid",
      `${cert} and ${key} are not a certificate and its key: ${(error as Error).message}. Give matching PEM files.`,
      { cause: error },
    );
  }
}

function readPem(name: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new ValidationError("option_invalid", `${name} ${file} cannot be read: ${(error as Error).message}.`, {
      cause: error,
    });
  }
}

/** How often the files are looked at: certificates are renewed while a service runs. */
const LOOK_MS = 10_000;

/** Calls back with the new texts when both files have changed and match. Returns the function that stops it. */
export function watchTls(files: TlsFiles, onChange: (pair: TlsPair) => void, log: (line: string) => void): () => void {
  let seen = stateOf(files);
  const timer = setInterval(() => {
    const state = stateOf(files);
    if (state === seen) return;
    seen = state;
    try {
      onChange(readTls(files));
      log(`The certificate ${files.cert} was reloaded.`);
    } catch (error) {
      log(`${(error as Error).message} The previous certificate stays in use.`);
    }
  }, LOOK_MS).unref();
  return () => clearInterval(timer);
}

function stateOf({ cert, key }: TlsFiles): string {
  return [cert, key]
    .map((file) => {
      const stats = statSync(file, { throwIfNoEntry: false });
      return stats === undefined ? "missing" : `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
    })
    .join("\n");
}
