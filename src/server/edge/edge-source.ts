import { readFileSync, statSync } from "node:fs";
import { ValidationError } from "../../domain/names/errors.ts";
import type { EdgeDomain, EdgeFile } from "../../edge/edge-file.ts";
import { parseEdge } from "../../edge/parse.ts";

/** How often the file is looked at: a change counts within twice this time. */
const LOOK_MS = 500;

/** Reads an edge file. Throws a `ValidationError` for one that cannot be read, or with everything that is wrong in it. */
export function readEdge(file: string): EdgeFile {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ValidationError("edge_invalid", `The edge file ${file} cannot be read: ${(error as Error).message}.`, {
      cause: error,
    });
  }
  return parseEdge(text, file);
}

/** The edge file that is in force. It is read again when it changes; a wrong one changes nothing. */
export class EdgeSource {
  readonly #file: string;
  readonly #log: (line: string) => void;
  #inForce: EdgeFile;
  /** The state of the file at the last read, also a failed one. */
  #seen: string;
  #timer: NodeJS.Timeout | undefined;

  constructor(file: string, log: (line: string) => void) {
    this.#file = file;
    this.#log = log;
    this.#seen = stateOf(file);
    this.#inForce = readEdge(file);
    for (const warning of this.#inForce.warnings) log(warning);
  }

  domain(name: string): EdgeDomain | undefined {
    return this.#inForce.domains.get(name);
  }

  watch(): void {
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const state = stateOf(this.#file);
    if (state === this.#seen) return;
    this.#seen = state;
    try {
      this.#inForce = readEdge(this.#file);
      this.#log(`The edge file ${this.#file} was reloaded.`);
      for (const warning of this.#inForce.warnings) this.#log(warning);
    } catch (error) {
      this.#log(`${(error as Error).message}\nThe previous edge file stays in use.`);
    }
  }
}

/** Something that differs when the file has changed. */
function stateOf(file: string): string {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats === undefined ? "missing" : `${stats.mtimeMs} ${stats.ctimeMs} ${stats.size} ${stats.ino}`;
}
