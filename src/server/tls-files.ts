import { createSecureContext } from "node:tls";
import { ValidationError } from "../domain/names/errors.ts";
import { readText, rereadOnChange } from "./read-files.ts";

/** A certificate with its chain, and its key, as PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** Reads and checks both, and returns their texts. Throws a `ValidationError` that names the file. */
export function readTls({ cert, key }: TlsFiles): TlsFiles {
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

/** The text of the PEM file that an option names. */
export function readPem(option: string, file: string): string {
  return readText(file, "option_invalid", option, "");
}

/** How often the files are looked at: certificates are renewed while a service runs. */
const LOOK_MS = 10_000;

/** Calls back with the new texts when both files have changed and match. Returns the function that stops it. */
export function watchTls(files: TlsFiles, onChange: (pair: TlsFiles) => void, log: (line: string) => void): () => void {
  const look = rereadOnChange({
    files: [files.cert, files.key],
    read: () => onChange(readTls(files)),
    done: `The certificate ${files.cert} was reloaded.`,
    kept: " The previous certificate stays in use.",
    log,
  });
  const timer = setInterval(look, LOOK_MS).unref();
  return () => clearInterval(timer);
}
