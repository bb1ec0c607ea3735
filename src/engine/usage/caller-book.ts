import {
  type CallerCounts,
  type CallerSumKey,
  callerCursor,
  compareUsage,
  GRANTED,
  REQUESTS_NAME,
  sumName,
  usagePositionOf,
} from "../../domain/charge/caller-usage.ts";
import { BILLED_WRITE_EVERY_MS } from "../../domain/charge/refusal-count.ts";
import { HOUR_MS, hourOf, windowStartMs } from "../../domain/charge/usage.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { Random } from "../../ports/system.ts";
import type { CallerStore, CallerSum, UsageQuery } from "../../ports/usage-store.ts";
import { Book, type BookPart, type BookUser } from "../book/book.ts";
import { LineRows } from "../book/line-rows.ts";
import { type LineRules, Lines } from "../book/lines.ts";

/** Every caller is written by name, the least recently written first; only what memory has no room for becomes the rest. */
const CALLER_LINES: LineRules<CallerSumKey> = {
  linesMax: 10_000,
  rowsPerWrite: 1_000,
  order: (a, b) => a.sentIn - b.sentIn,
  beyond: "later",
  inRest: (about) => ({ text: sumName(about), about }),
};

const GRANTED_LINES: LineRules<CallerSumKey> = { ...CALLER_LINES, linesMax: 1_000 };
const GRANTED_SUM: CallerSumKey = { name: REQUESTS_NAME, isAlone: false };
/** Where each write is paid for, the numbers of granted requests are written in every so many passes. */
const GRANTED_PASSES_BILLED = 10;

/** The port of a store that keeps no usage of callers: nothing is written, and there is nothing to show. */
export const UNKEPT: CallerStore = {
  isKept: false,
  writeEveryMs: BILLED_WRITE_EVERY_MS,
  write: (rows) => rows.map(() => "stored"),
  query: () => ({ items: [] }),
};

interface CallerPlace {
  readonly hourMs: number;
  readonly entityId: string;
  readonly resource: string;
}

/** What the callers of one namespace used in this process beside the buckets, and how many requests were granted at all. */
export class CallerBook {
  readonly #store: CallerStore;
  readonly #callers: Lines<CallerSumKey>;
  readonly #granted: GrantedPart;
  readonly #book: Book;

  constructor(store: CallerStore, random: Random) {
    this.#store = store;
    const newId = () => random.id();
    this.#callers = new Lines(newId, CALLER_LINES);
    this.#granted = new GrantedPart(store, newId);
    this.#book = new Book(store.writeEveryMs, [rowsOf(this.#callers, CALLER_LINES, store), this.#granted]);
  }

  isIdle(nowMs: number): boolean {
    return this.#book.isIdle(nowMs);
  }

  /** `count`: whole tokens, or requests. */
  add(place: CallerPlace, sum: CallerSumKey, count: number, user: BookUser): void {
    this.#callers.add(place, sumName(sum), sum, count);
    this.#book.counted(user);
  }

  /** A request was granted, whoever counts what it used. */
  granted(resource: string, nowMs: number, user: BookUser): void {
    // A write is due from the first one on.
    if (this.#granted.count(resource, nowMs) === 1) this.#book.countedPatiently(user);
  }

  forget(entityId: string): void {
    this.#callers.forget(entityId);
  }

  close(what: "limiter" | "store", user: BookUser): Promise<void> {
    return this.#book.close(what, user);
  }

  /** A page of the store with the unwritten counts of this process. */
  page(query: UsageQuery, page: PageRequest, read: CallerStore["query"]): Promise<Page<CallerSum>> {
    return this.#book.reading(async () => {
      const own = this.#unwritten(query);
      return withOwn(await read(query, page), own, page);
    });
  }

  get store(): CallerStore {
    return this.#store;
  }

  #unwritten({ window, fromMs, toMs, entityId, resource }: UsageQuery): readonly CallerSum[] {
    return [...this.#callers.all(), ...this.#granted.lines.all()].flatMap((line): CallerSum[] => {
      if (entityId === undefined ? false : line.entityId !== entityId) return [];
      if (resource === undefined ? false : line.resource !== resource) return [];
      const startMs = windowStartMs(window, line.hourMs);
      if (startMs < fromMs || startMs >= toMs) return [];
      // A row that was sent may be stored: for a while its counts are missing rather than counted twice.
      const counts = Array.from(line.sums, ([text, { count, sent }]) => [text, count - sent] as const);
      const open = counts.filter(([, count]) => count !== 0);
      if (open.length === 0) return [];
      const place = { windowStartMs: startMs, entityId: line.entityId, resource: line.resource };
      return [{ ...place, counts: Object.fromEntries(open) }];
    });
  }
}

function rowsOf(lines: Lines<CallerSumKey>, rules: LineRules<CallerSumKey>, store: CallerStore): BookPart {
  return new LineRows(lines, rules, (rows, nowMs) =>
    store.write(
      rows.map(({ sums, ...row }) => ({
        ...row,
        counts: Object.fromEntries(sums.map(({ about, count }) => [sumName(about), count])),
      })),
      nowMs,
    ),
  );
}

/** How many requests were granted at all, by hour and resource. Every take is counted here, so the present hour is one number. */
class GrantedPart implements BookPart {
  readonly isPatient = true;
  readonly #lines: Lines<CallerSumKey>;
  readonly #rows: BookPart;
  readonly #everyPasses: number;
  #resource = "";
  #hourMs = 0;
  #untold = 0;

  constructor(store: CallerStore, newId: () => string) {
    this.#lines = new Lines(newId, GRANTED_LINES);
    this.#rows = rowsOf(this.#lines, GRANTED_LINES, store);
    this.#everyPasses = store.writeEveryMs >= BILLED_WRITE_EVERY_MS ? GRANTED_PASSES_BILLED : 1;
  }

  get lines(): Lines<CallerSumKey> {
    this.#tell();
    return this.#lines;
  }

  /** Answers how many there are since a pass, or a change of the resource. */
  count(resource: string, nowMs: number): number {
    const isSame = resource === this.#resource && nowMs >= this.#hourMs && nowMs < this.#hourMs + HOUR_MS;
    if (!isSame) {
      this.#tell();
      this.#resource = resource;
      this.#hourMs = hourOf(nowMs);
    }
    return ++this.#untold;
  }

  isWritten(): boolean {
    this.#tell();
    return this.#rows.isWritten();
  }

  isDone(nowMs: number): boolean {
    this.#tell();
    return this.#rows.isDone(nowMs);
  }

  async write(user: BookUser, what: "some" | "all", pass: number): Promise<void> {
    this.#tell();
    if (what === "all" || pass % this.#everyPasses === 0) await this.#rows.write(user, what, pass);
  }

  #tell(): void {
    if (this.#untold === 0) return;
    const place = { hourMs: this.#hourMs, entityId: GRANTED, resource: this.#resource };
    this.#lines.add(place, REQUESTS_NAME, GRANTED_SUM, this.#untold);
    this.#untold = 0;
  }
}

/** Adds the unwritten counts of this process that belong on the page. */
function withOwn(stored: Page<CallerSum>, own: readonly CallerSum[], page: PageRequest): Page<CallerSum> {
  const after = usagePositionOf(page.cursor);
  const last = usagePositionOf(stored.cursor);
  const inside = own.filter(
    (one) =>
      (after === undefined || compareUsage(one, after) > 0) && (last === undefined || compareUsage(one, last) <= 0),
  );
  if (inside.length === 0) return stored;
  const sums = new Map<string, CallerSum>();
  for (const one of [...stored.items, ...inside]) {
    const position = callerCursor(one);
    const known = sums.get(position);
    sums.set(position, known === undefined ? one : { ...known, counts: joinedCounts(known.counts, one.counts) });
  }
  const all = [...sums.values()].sort(compareUsage);
  if (all.length <= page.limit) return { ...stored, items: all };
  const items = all.slice(0, page.limit);
  return { items, cursor: callerCursor(items.at(-1) as CallerSum) };
}

function joinedCounts(some: CallerCounts, others: CallerCounts): CallerCounts {
  const sums = new Map(Object.entries(some));
  for (const [name, count] of Object.entries(others)) sums.set(name, (sums.get(name) ?? 0) + count);
  return Object.fromEntries(sums);
}
