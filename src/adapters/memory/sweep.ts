import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import { mayForget, type RuleContext } from "../../stored/bucket-rules.ts";
import type { BucketCell, NamespaceData } from "./data.ts";
import { dropCountedHours, dropHours } from "./hour-usage.ts";

/** From the beginning of one walk to that of the next. */
const WALK_EVERY_MS = HOUR_MS / 4;
/** Buckets are not worth forgetting while there are no more than this. */
const FEW_CELLS = 256;
/** Cells looked at by each call while a walk is under way: some ten microseconds. */
const CELLS_PER_CALL = 64;

/** The rows of a call that has to do with cells. */
interface SweptRows {
  readonly context: RuleContext;
  countEnded(cell: BucketCell, next: Pick<BucketState, "epochMs">): void;
}

/**
 * Walks over the cells of a namespace, a few with each call, and drops what nobody needs any more: buckets that equal missing
 * ones, and usage that is old enough. It goes by the clock of the calls and needs no timer, so a limiter keeps no process
 * alive; between two walks it costs a call two comparisons.
 */
export class MemorySweep {
  readonly #data: NamespaceData;
  readonly #usageKeepMs: number;
  readonly #rowsAt: (nowMs: number) => SweptRows;
  #cells: Iterator<BucketCell> | undefined;
  #forgets = false;
  /** No walk begins in [`#begunMs`, `#nextMs`). A clock that was put back begins one. */
  #begunMs = Number.POSITIVE_INFINITY;
  #nextMs = Number.NEGATIVE_INFINITY;

  constructor(data: NamespaceData, usageKeepMs: number | undefined, rowsAt: (nowMs: number) => SweptRows) {
    this.#data = data;
    this.#usageKeepMs = usageKeepMs ?? 0;
    this.#rowsAt = rowsAt;
  }

  run(nowMs: number): void {
    if (this.#cells === undefined && nowMs < this.#nextMs && nowMs >= this.#begunMs) return;
    this.#walk(nowMs);
  }

  #walk(nowMs: number): void {
    if (this.#cells === undefined) {
      this.#begunMs = nowMs;
      this.#nextMs = nowMs + WALK_EVERY_MS;
      this.#cells = this.#data.buckets.values();
      this.#forgets = this.#data.buckets.size > FEW_CELLS;
    }
    const rows = this.#rowsAt(nowMs);
    for (let i = 0; i < CELLS_PER_CALL; i++) {
      const { value: cell, done } = this.#cells.next();
      if (done) {
        this.#cells = undefined;
        // After the cells: what one of them still has stays in the lists.
        dropCountedHours(this.#data.countedHours, this.#usageKeepMs, nowMs);
        return;
      }
      this.#look(cell, rows);
    }
  }

  #look(cell: BucketCell, rows: SweptRows): void {
    const { nowMs } = rows.context;
    const { state, key } = cell;
    if (this.#forgets && state !== undefined && mayForget(state, key, rows.context)) {
      // No write comes any more that would count them.
      rows.countEnded(cell, { epochMs: nowMs });
      cell.state = undefined;
      cell.owned = undefined;
    }
    dropHours(cell, this.#usageKeepMs, nowMs);
    if (cell.state === undefined && cell.hours === undefined) this.#data.buckets.delete(cell.key.id);
  }
}
