import { ValidationError } from "../domain/names/errors.ts";
import { readText, rereadOnChange } from "../server/read-files.ts";

/** Where the key of a provider is. */
export type KeyPlace = { readonly env: string } | { readonly file: string };

/** A file is looked at no more often than this. */
const LOOK_MS = 500;

/** The key of a provider. A file is read again when it changes; one that cannot be read keeps the key. */
export class ProviderKey {
  readonly #now: () => number;
  /** Undefined: the key is from the environment. */
  readonly #rereadOnChange: (() => boolean) | undefined;
  #key: string;
  #lookedAtMs: number;

  /** Throws if there is no key. */
  constructor(
    place: KeyPlace,
    { env, log, now }: { readonly env: Environment; readonly log: (line: string) => void; readonly now: () => number },
  ) {
    this.#now = now;
    this.#lookedAtMs = now();
    if ("env" in place) {
      this.#key = keyOfEnvironment(place.env, env);
      return;
    }
    const { file } = place;
    this.#rereadOnChange = rereadOnChange({
      files: [file],
      read: () => {
        this.#key = keyOfFile(file);
      },
      done: `The key of ${file} was reloaded.`,
      kept: " The previous key stays in use.",
      log,
    });
    this.#key = keyOfFile(file);
  }

  now(): string {
    const nowMs = this.#now();
    // A clock that is set back must not keep an old key for long.
    if (Math.abs(nowMs - this.#lookedAtMs) >= LOOK_MS) {
      this.#lookedAtMs = nowMs;
      this.#rereadOnChange?.();
    }
    return this.#key;
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

function keyOfEnvironment(name: string, env: Environment): string {
  return checkKey(env[name] ?? "", `The environment variable ${name}`);
}

function keyOfFile(file: string): string {
  return checkKey(readText(file, "provider_key_invalid", "The key file", ""), `The key file ${file}`);
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
