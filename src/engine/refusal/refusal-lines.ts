import { OTHER, OTHER_KEY, type RefusalKey } from "../../domain/charge/refusal-count.ts";
import type { RowReply } from "../../ports/refusal-store.ts";

/** What was counted under one limit of one level. */
interface LineCount extends Pick<RefusalKey, "limit" | "level" | "total"> {
  /** Since the line was begun. */
  count: number;
  /** Of them, what may be in the store. */
  sent: number;
  /** Of them, what certainly is. */
  stored: number;
}

/** One entity on one resource in one hour: a row of the store, as long as this process remembers it. */
export interface RefusalLine {
  /** Of the row. */
  id: string;
  readonly hourMs: number;
  readonly entityId: string;
  readonly resource: string;
  readonly counts: Map<string, LineCount>;
  /** What is known of its row. `unsure`: it was sent, and no answer has come (yet). */
  standing: "new" | "stored" | "unsure";
}

/**
 * So many lines are remembered. One that was written can be forgotten, and goes on in another row; of those that were not, the
 * least refused are added to the rest, so that any number of different ids takes no more memory than this.
 */
const LINES_MAX = 1_000;

/** The lines of a book. Nothing in here waits: what is counted is always one state. */
export class RefusalLines {
  readonly #newId: () => string;
  readonly #lines = new Map<string, RefusalLine>();

  constructor(newId: () => string) {
    this.#newId = newId;
  }

  all(): readonly RefusalLine[] {
    return [...this.#lines.values()];
  }

  count(key: RefusalKey, hourMs: number): void {
    this.#add(key, hourMs, 1);
  }

  /** Whether everything is in the store. */
  isWritten(): boolean {
    for (const line of this.#lines.values()) if (isOpen(line)) return false;
    return true;
  }

  /** Whether everything is in the store and no line goes on. */
  isDone(hourMs: number): boolean {
    for (const line of this.#lines.values()) if (isOpen(line) || line.hourMs >= hourMs) return false;
    return true;
  }

  /**
   * What is written next: lines of which no answer came are sent again before any others, so that they stay few; then the most
   * refused. What is left over is added to the rest, unless it has a next time to be written by its name.
   */
  toWrite(most: number, what: "some" | "all"): readonly RefusalLine[] {
    const open = this.all().filter((line) => isOpen(line));
    const named = open.filter((line) => !isRest(line));
    const unsure = named.filter(({ standing }) => standing === "unsure");
    const others = named.filter(({ standing }) => standing !== "unsure").sort((a, b) => unsentOf(b) - unsentOf(a));
    const room = Math.max(0, most - unsure.length);
    if (unsure.length === 0 || what === "all") for (const line of others.slice(room)) this.#toRest(line);
    return [...unsure, ...others.slice(0, room), ...this.all().filter((line) => isRest(line) && isOpen(line))];
  }

  /** It is on its way to the store with all it has. */
  sent(line: RefusalLine): void {
    line.standing = "unsure";
    for (const one of line.counts.values()) one.sent = one.count;
  }

  replied(line: RefusalLine, reply: RowReply): void {
    if (reply === "unknown") return;
    if (reply === "stored") {
      line.standing = "stored";
      for (const one of line.counts.values()) one.stored = one.sent;
      return;
    }
    // Its entity was deleted, and what was stored went with it: what was not goes into another row.
    line.id = this.#newId();
    line.standing = "new";
    for (const [name, one] of line.counts) {
      one.count -= one.stored;
      one.sent = 0;
      one.stored = 0;
      if (one.count === 0) line.counts.delete(name);
    }
  }

  /** Lines of hours that are over, as far as they are written. */
  forgetBefore(hourMs: number): void {
    for (const [key, line] of this.#lines) if (line.hourMs < hourMs && !isOpen(line)) this.#lines.delete(key);
  }

  clear(): void {
    this.#lines.clear();
  }

  #add({ entityId, resource, limit, level, total }: RefusalKey, hourMs: number, count: number): void {
    const key = `${hourMs}\n${entityId}\n${resource}`;
    const line = this.#lines.get(key) ?? this.#begin(key, { hourMs, entityId, resource });
    const name = `${limit}\n${level}\n${total}`;
    const known = line.counts.get(name);
    if (known === undefined) line.counts.set(name, { limit, level, total, count, sent: 0, stored: 0 });
    else known.count += count;
  }

  #begin(key: string, about: Pick<RefusalLine, "hourMs" | "entityId" | "resource">): RefusalLine {
    if (this.#lines.size >= LINES_MAX && about.entityId !== OTHER) this.#makeRoom();
    const line: RefusalLine = { ...about, id: this.#newId(), counts: new Map(), standing: "new" };
    this.#lines.set(key, line);
    return line;
  }

  #makeRoom(): void {
    for (const [key, line] of this.#lines) if (!isOpen(line)) this.#lines.delete(key);
    if (this.#lines.size <= LINES_MAX / 2) return;
    const least = this.all()
      .filter((line) => !isRest(line) && line.standing !== "unsure")
      .sort((a, b) => unsentOf(a) - unsentOf(b));
    for (const line of least.slice(0, LINES_MAX / 2)) this.#toRest(line);
  }

  /** Adds what is not in the store to the rest of its hour, and forgets the line. */
  #toRest(line: RefusalLine): void {
    const unsent = unsentOf(line);
    this.#lines.delete(keyOf(line));
    if (unsent > 0) this.#add(OTHER_KEY, line.hourMs, unsent);
  }
}

/** Whether its row was certainly in the store once: it is there still, unless its entity was deleted. */
export function wasStored({ counts }: RefusalLine): boolean {
  for (const { stored } of counts.values()) if (stored > 0) return true;
  return false;
}

function keyOf({ hourMs, entityId, resource }: RefusalLine): string {
  return `${hourMs}\n${entityId}\n${resource}`;
}

function isRest({ entityId }: RefusalLine): boolean {
  return entityId === OTHER;
}

/** Whether something of it may not be in the store. */
function isOpen(line: RefusalLine): boolean {
  return line.standing === "unsure" || unsentOf(line) > 0;
}

function unsentOf({ counts }: RefusalLine): number {
  let unsent = 0;
  for (const { count, sent } of counts.values()) unsent += count - sent;
  return unsent;
}
