import { readFileSync, statSync } from "node:fs";
import { ValidationError } from "../domain/names/errors.ts";
import type { Clock } from "../ports/system.ts";
import type { TokenEntry } from "./token-entry.ts";
import { checkTokens, parseTokens, TokenSet } from "./tokens.ts";

interface SourceOptions {
  readonly file: string | undefined;
  readonly tokens: readonly TokenEntry[] | undefined;
  readonly clock: Clock;
  readonly log: (line: string) => void;
}

/** How often the file is looked at; a change counts, and what is expired has lost its streams, within twice that. */
const LOOK_MS = 500;

/** The tokens that are good at present, read again when their file changes. */
export class TokenSource {
  readonly #file: string | undefined;
  readonly #clock: Clock;
  readonly #log: (line: string) => void;
  #set: TokenSet | undefined;
  /** The state of the file that was last read, or last failed to be. */
  #seen = "";
  #timer: NodeJS.Timeout | undefined;

  /** Throws a `ValidationError` for a file that cannot be read or has something wrong in it. */
  constructor({ file, tokens, clock, log }: SourceOptions) {
    this.#file = file;
    this.#clock = clock;
    this.#log = log;
    if (tokens !== undefined) this.#set = new TokenSet(checkTokens(tokens, "the tokens given"));
    if (file === undefined) return;
    this.#seen = stateOf(file);
    this.#set = new TokenSet(readTokens(file));
  }

  /** Whether there are any: otherwise the service is open. */
  get isOpen(): boolean {
    return this.#set === undefined;
  }

  find(token: string): TokenEntry | undefined {
    return this.#set?.find(token, this.#clock.now());
  }

  /** How many there are; undefined: the service is open. */
  get count(): number | undefined {
    return this.#set?.size;
  }

  /** Those that tokens name. */
  get namespaces(): readonly string[] {
    return this.#set?.namespaces ?? [];
  }

  /** Whether a token that was good once may still look into a namespace, as its entry is now. */
  mayRead(entry: TokenEntry, namespace: string): boolean {
    const now = this.#set?.now(entry, this.#clock.now());
    if (now === undefined || !now.scopes.includes("read")) return false;
    return now.namespaces === "*" || now.namespaces.includes(namespace);
  }

  /** Calls back after every look, with what is good from then on. */
  watch(onLook: () => void): void {
    if (this.isOpen) return;
    this.#timer = setInterval(() => {
      if (this.#file !== undefined) this.#readAgain(this.#file);
      onLook();
    }, LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #readAgain(file: string): void {
    const state = stateOf(file);
    if (state === this.#seen) return;
    try {
      this.#set = new TokenSet(readTokens(file));
      this.#log(`The tokens of ${file} were reloaded.`);
    } catch (error) {
      this.#log(`${(error as Error).message} The previous tokens stay in use.`);
    }
    this.#seen = state;
  }
}

/** The entries of a token file. */
export function readTokens(file: string): TokenEntry[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ValidationError(
      "tokens_invalid",
      `The token file ${file} cannot be read: ${(error as Error).message}. Create it with \`zae-limiter token add ${file}\`.`,
      { cause: error },
    );
  }
  return parseTokens(text, file);
}

/** Something that differs when the file has changed. */
function stateOf(file: string): string {
  try {
    const { mtimeMs, ctimeMs, size, ino } = statSync(file);
    return `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
  } catch {
    return "missing";
  }
}
