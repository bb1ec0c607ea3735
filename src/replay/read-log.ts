import { LoggedRequests } from "./logged-requests.ts";
import type { FieldMap } from "./request-line.ts";
import { readLine, SharedNames } from "./request-line.ts";

/** The text of a file in pieces. */
export interface LogFile {
  readonly name: string;
  readonly text: AsyncIterable<string>;
}

/** The requests of some files, and what could not be read. */
export interface ReadLog {
  readonly requests: LoggedRequests;
  /** Lines that are not empty. */
  readonly lines: number;
  readonly unreadable: number;
  /** The first lines that could not be read, each with its place. */
  readonly problems: readonly string[];
}

const PROBLEMS_KEPT = 5;

/** Reads every line of the files, one file after the other. */
export async function readLog(files: readonly LogFile[], fields: FieldMap | undefined): Promise<ReadLog> {
  const requests = new LoggedRequests();
  const problems: string[] = [];
  const reading = { fields, names: new SharedNames() };
  let lines = 0;
  let unreadable = 0;
  for (const { name, text } of files) {
    let number = 0;
    for await (const piece of linesOf(text)) {
      for (const line of piece) {
        number++;
        if (line.trim() === "") continue;
        lines++;
        const read = readLine(line, reading);
        if (read.kind === "request") requests.add(read.request);
        if (read.kind !== "unreadable") continue;
        unreadable++;
        if (problems.length < PROBLEMS_KEPT) problems.push(`${name}:${number}: ${read.problem}.`);
      }
    }
  }
  return { requests, lines, unreadable, problems };
}

/** The lines of a text, those of one piece together. */
async function* linesOf(text: AsyncIterable<string>): AsyncGenerator<readonly string[]> {
  let begun = "";
  let isFirst = true;
  for await (const piece of text) {
    const lines = (begun + (isFirst ? piece.replace(/^\uFEFF/, "") : piece)).split("\n");
    isFirst = false;
    begun = lines.pop() ?? "";
    yield lines;
  }
  if (begun !== "") yield [begun];
}
