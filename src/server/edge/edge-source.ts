import type { EdgeDomain, EdgeFile } from "../../edge/edge-file.ts";
import { parseEdge } from "../../edge/parse.ts";
import { readText, rereadOnChange } from "../read-files.ts";

/** How often the file is looked at: a change counts within twice this time. */
const LOOK_MS = 500;

/** Reads an edge file. Throws a `ValidationError` for one that cannot be read, or with everything that is wrong in it. */
export function readEdge(file: string): EdgeFile {
  return parseEdge(readText(file, "edge_invalid", "The edge file", ""), file);
}

/** The edge file that is in force. It is read again when it changes; a wrong one changes nothing. */
export class EdgeSource {
  readonly #log: (line: string) => void;
  readonly #rereadOnChange: () => boolean;
  #inForce: EdgeFile;
  #timer: NodeJS.Timeout | undefined;

  constructor(file: string, log: (line: string) => void) {
    this.#log = log;
    this.#rereadOnChange = rereadOnChange({
      files: [file],
      read: () => {
        this.#inForce = readEdge(file);
      },
      done: `The edge file ${file} was reloaded.`,
      kept: "\nThe previous edge file stays in use.",
      log,
    });
    this.#inForce = readEdge(file);
    this.#warn();
  }

  domain(name: string): EdgeDomain | undefined {
    return this.#inForce.domains.get(name);
  }

  watch(): void {
    this.#timer = setInterval(() => this.#rereadOnChange() && this.#warn(), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #warn(): void {
    for (const warning of this.#inForce.warnings) this.#log(warning);
  }
}
