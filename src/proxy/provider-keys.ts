import { readFileSync, statSync } from "node:fs";
import { ValidationError } from "../domain/names/errors.ts";

/** Where the key of a provider is. */
export type KeyPlace = { readonly env: string } | { readonly file: string };

/** A file is looked at no more often than this. */
const LOOK_MS = 500;

/** The key of a provider. A file is read again when it changes; one that cannot be read keeps the key. */
export class ProviderKey {
  readonly #place: KeyPlace;
  readonly #log: (line: string) => void;
  readonly #now: () => number;
  #key: string;
  #seen = "";
  #lookedAtMs: number;

  /** Throws if there is no key. */
  constructor(
    place: KeyPlace,
    { env, log, now }: { readonly env: Environment; readonly log: (line: string) => void; readonly now: () => number },
  ) {
    this.#place = place;
    this.#log = log;
    this.#now = now;
    this.#lookedAtMs = now();
    if ("file" in place) this.#seen = stateOf(place.file);
    this.#key = "env" in place ? keyOfEnvironment(place.env, env) : keyOfFile(place.file);
  }

  now(): string {
    const nowMs = this.#now();
    // A clock that is set back must not keep an old key for long.
    if ("file" in this.#place && Math.abs(nowMs - this.#lookedAtMs) >= LOOK_MS) {
      this.#lookedAtMs = nowMs;
      this.#readAgain(this.#place.file);
    }
    return this.#key;
  }

  #readAgain(file: string): void {
    const state = stateOf(file);
    if (state === this.#seen) return;
    this.#seen = state;
    try {
      this.#key = keyOfFile(file);
      this.#log(`The key of ${file} was reloaded.`);
    } catch (error) {
      this.#log(`${(error as Error).message} The previous key stays in use.`);
    }
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

function keyOfEnvironment(name: string, env: Environment): string {
  return checkKey(env[name] ?? "", `The environment variable ${name}`);
}

function keyOfFile(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw invalid(`The key file ${file} cannot be read: ${(error as Error).message}.`);
  }
  return checkKey(text, `The key file ${file}`);
}

/** The key itself is in no message. */
function checkKey(text: string, what: string): string {
  const key = text.trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw invalid(`${what} ${key === "" ? "is empty" : "has something that no key has"}; put the provider's key there.`);
}

function invalid(message: string): ValidationError {
  return new ValidationError("provider_key_invalid", message);
}

function stateOf(file: string): string {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats === undefined ? "missing" : `${stats.mtimeMs} ${stats.ctimeMs} ${stats.size} ${stats.ino}`;
}
