import {
  isLogged,
  LOG_END,
  type LoggedRefusal,
  type LogQuery,
  type NumberedRefusal,
  type PlacedRefusal,
  placedIn,
} from "../../domain/charge/refusal-log.ts";
import { hourOf } from "../../domain/charge/usage.ts";
import type { RowReply, WrittenLogRow } from "../../ports/usage-store.ts";
import type { KeptLines } from "../book/line-rows.ts";

/** Bounds of the log of a process. Beyond so many entities refusals are only counted. */
export const LOG_RULES = { linesMax: 1_000, rowsPerWrite: 100 } as const;

/** The refusals of one entity in one hour: the first ones and the last ones. */
interface LogLine {
  id: string;
  readonly hourMs: number;
  readonly entityId: string;
  first: NumberedRefusal[];
  last: NumberedRefusal[];
  /** The number of the next refusal; those below `sent` were sent to the store, and those below `stored` are there. */
  next: number;
  sent: number;
  stored: number;
  /** True if the row was in the store: it still is, unless its entity was deleted. */
  wasStored: boolean;
}

/** A row, and a resource of it, for messages. */
interface LogLineRow extends WrittenLogRow {
  readonly resource: string;
}

/** Single refusals of one namespace that this process keeps until they are written. All methods are synchronous. */
export class LogLines implements KeptLines<LogLine, LogLineRow> {
  readonly #newId: () => string;
  readonly #hours = new Map<number, Map<string, LogLine>>();
  /** Lines of which something may not be in the store, the longest unwritten first. */
  readonly #open = new Set<LogLine>();
  #size = 0;

  constructor(newId: () => string) {
    this.#newId = newId;
  }

  add({ entityId, ...refusal }: LoggedRefusal): void {
    const hourMs = hourOf(refusal.atMs);
    const line = this.#hours.get(hourMs)?.get(entityId) ?? this.#begun(hourMs, entityId);
    if (line === undefined) return;
    const one = { number: line.next++, refusal };
    if (line.first.length < LOG_END) line.first.push(one);
    else line.last.push(one);
    if (line.last.length > LOG_END) line.last.shift();
    this.#open.add(line);
  }

  /** What is asked for and perhaps not in the store yet. */
  unwritten(query: LogQuery): readonly PlacedRefusal[] {
    return [...this.#open].flatMap((line) => {
      const refusals = refusalsOf(line).filter(({ number }) => number >= line.stored);
      return placedIn({ ...line, refusals }).filter((placed) => isLogged(placed, query));
    });
  }

  isWritten(): boolean {
    return this.#open.size === 0;
  }

  isDone(hourMs: number): boolean {
    return this.#open.size === 0 && [...this.#hours.keys()].every((each) => each < hourMs);
  }

  toWrite(most: number): readonly LogLine[] {
    const lines: LogLine[] = [];
    for (const line of this.#open) {
      if (lines.length === most) break;
      lines.push(line);
    }
    return lines;
  }

  rowOf(line: LogLine, pass: number): LogLineRow {
    const { id, hourMs, entityId, wasStored } = line;
    const refusals = refusalsOf(line);
    line.sent = line.next;
    const resource = refusals.at(-1)?.refusal.resource ?? "";
    return { id, hourMs, entityId, resource, version: pass, mustExist: wasStored, refusals };
  }

  replied(line: LogLine, reply: RowReply): void {
    if (reply === "unknown") return;
    // With what came meanwhile it stands behind the others.
    this.#open.delete(line);
    if (reply === "gone") this.#beginAnew(line);
    else {
      line.stored = line.sent;
      line.wasStored = true;
    }
    if (line.stored < line.next) this.#open.add(line);
  }

  forgetBefore(hourMs: number): void {
    for (const [each, lines] of this.#hours) {
      if (each >= hourMs) continue;
      for (const [entityId, line] of lines) {
        if (this.#open.has(line)) continue;
        lines.delete(entityId);
        this.#size--;
      }
      if (lines.size === 0) this.#hours.delete(each);
    }
  }

  clear(): void {
    this.#hours.clear();
    this.#open.clear();
    this.#size = 0;
  }

  #begun(hourMs: number, entityId: string): LogLine | undefined {
    if (this.#size >= LOG_RULES.linesMax) this.forgetBefore(hourMs);
    if (this.#size >= LOG_RULES.linesMax) return undefined;
    const line: LogLine = {
      ...{ id: this.#newId(), hourMs, entityId, first: [], last: [] },
      ...{ next: 0, sent: 0, stored: 0, wasStored: false },
    };
    const lines = this.#hours.get(hourMs) ?? new Map<string, LogLine>();
    this.#hours.set(hourMs, lines);
    lines.set(entityId, line);
    this.#size++;
    return line;
  }

  /** The entity was deleted with its rows: what is unconfirmed goes into another row. */
  #beginAnew(line: LogLine): void {
    const isLeft = ({ number }: NumberedRefusal) => number >= line.stored;
    const left = refusalsOf(line).filter(isLeft);
    line.id = this.#newId();
    line.wasStored = false;
    line.first = left.slice(0, LOG_END);
    line.last = left.slice(LOG_END).slice(-LOG_END);
  }
}

function refusalsOf({ first, last }: LogLine): readonly NumberedRefusal[] {
  return [...first, ...last];
}
