import { isAskedFor, OTHER_KEY, type RefusalCount, type RefusalKey } from "../../domain/charge/refusal-count.ts";
import type { LoggedRefusal, LogQuery, PlacedRefusal } from "../../domain/charge/refusal-log.ts";
import { hourOf, windowStartMs } from "../../domain/charge/usage.ts";
import type { Random } from "../../ports/system.ts";
import type { RefusalLogStore, RefusalQuery, RefusalStore } from "../../ports/usage-store.ts";
import { Book, type BookUser } from "../book/book.ts";
import { LineRows } from "../book/line-rows.ts";
import { type LineRules, Lines, unsentOf } from "../book/lines.ts";
import { LOG_RULES, LogLines } from "./refusal-log.ts";

/** The limit that a sum is of. */
export type RefusedBy = Pick<RefusalKey, "limit" | "level" | "total">;

/** The most refused are written; the others are added up as the rest, so that memory and writes are bounded for any number of ids. */
export const REFUSAL_LINES: LineRules<RefusedBy> = {
  linesMax: 1_000,
  rowsPerWrite: 100,
  order: (a, b) => unsentOf(b) - unsentOf(a),
  beyond: "rest",
  inRest: () => ({ text: textOf(OTHER_KEY), about: OTHER_KEY }),
};

interface RefusalPorts {
  readonly refusals: RefusalStore;
  readonly refusalLog: RefusalLogStore;
}

/** The refused requests of one namespace that this process has counted, and the single ones that it keeps. */
export class RefusalBook {
  readonly #store: RefusalStore;
  readonly #lines: Lines<RefusedBy>;
  readonly #log: LogLines;
  readonly #book: Book;

  constructor({ refusals: store, refusalLog }: RefusalPorts, random: Random) {
    this.#store = store;
    this.#lines = new Lines(() => random.id(), REFUSAL_LINES);
    this.#log = new LogLines(() => random.id());
    const rows = new LineRows(this.#lines, REFUSAL_LINES, (lines, nowMs) =>
      store.write(
        lines.map(({ sums, ...row }) => ({ ...row, counts: sums.map(({ about, count }) => ({ ...about, count })) })),
        nowMs,
      ),
    );
    const logged = new LineRows(this.#log, LOG_RULES, (some, nowMs) =>
      refusalLog.write(
        some.map(({ resource: _, ...row }) => row),
        nowMs,
      ),
    );
    this.#book = new Book(store.writeEveryMs, [rows, logged]);
  }

  get isKept(): boolean {
    return this.#store.isKept;
  }

  isIdle(nowMs: number): boolean {
    return this.#book.isIdle(nowMs);
  }

  /** `isLogged`: it is kept by itself, too. */
  count(refused: LoggedRefusal, isLogged: boolean, user: BookUser): void {
    const { atMs, entityId, resource, limit, level, total } = refused;
    const about = { limit, level, total };
    this.#lines.add({ hourMs: hourOf(atMs), entityId, resource }, textOf(about), about, 1);
    if (isLogged) this.#log.add(refused);
    this.#book.counted(user);
  }

  close(what: "limiter" | "store", user: BookUser): Promise<void> {
    return this.#book.close(what, user);
  }

  /** Reads a page while no write is under way. `own` are the unwritten refusals. */
  reading<Reply>(query: RefusalQuery, read: (own: readonly RefusalCount[]) => Promise<Reply>): Promise<Reply> {
    return this.#book.reading(() => read(this.#unwritten(query)));
  }

  /** Single refusals that may not be in the store yet. */
  unwrittenLog(query: LogQuery): readonly PlacedRefusal[] {
    return this.#log.unwritten(query);
  }

  #unwritten(query: RefusalQuery): readonly RefusalCount[] {
    const { window, fromMs, toMs } = query;
    return this.#lines.all().flatMap(({ hourMs, entityId, resource, sums }): RefusalCount[] => {
      const startMs = windowStartMs(window, hourMs);
      if (startMs < fromMs || startMs >= toMs) return [];
      return [...sums.values()].flatMap(({ about, count, sent }): RefusalCount[] => {
        const key = { entityId, resource, ...about };
        // A row that was sent may be stored: for a while its refusals are missing rather than counted twice.
        if (count === sent || !isAskedFor(key, query)) return [];
        return [{ ...key, window, windowStartMs: startMs, count: count - sent }];
      });
    });
  }
}

function textOf({ limit, level, total }: RefusedBy): string {
  return `${limit}\n${level}\n${total}`;
}
