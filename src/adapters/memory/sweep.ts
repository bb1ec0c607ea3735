import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import type { BucketCell, NamespaceData } from "./data.ts";
import { dropHours } from "./hour-usage.ts";

/** From the beginning of one walk to that of the next. */
const WALK_EVERY_MS = HOUR_MS / 4;
/** So few buckets are not worth forgetting. */
const FEW_CELLS = 256;
/** Cells looked at by each call while a walk is under way: some ten microseconds. */
const CELLS_PER_CALL = 64;

/** Counts holds that ended by themselves before the next state of a cell. */
type CountTime = (cell: BucketCell, next: Pick<BucketState, "epochMs">, nowMs: number) => void;

/**
 * Walks over the cells of a namespace, a few with each call, and drops what nobody needs any more: buckets that equal missing
 * ones, and usage that is old enough. It goes by the clock of the calls and needs no timer, so a limiter keeps no process
 * alive; between two walks it costs a call two comparisons.
 */
export class MemorySweep {
  readonly #data: NamespaceData;
  readonly #usageKeepMs: number;
  readonly #countTime: CountTime;
  readonly #mayForget: (cell: BucketCell, nowMs: number) => boolean;
  #cells: Iterator<BucketCell> | undefined;
  #forgets = false;
  /** No walk begins in [`#begunMs`, `#nextMs`). A clock that was put back begins one. */
  #begunMs = Number.POSITIVE_INFINITY;
  #nextMs = Number.NEGATIVE_INFINITY;

  constructor(
    data: NamespaceData,
    usageKeepMs: number | undefined,
    countTime: CountTime,
    mayForget: (cell: BucketCell, nowMs: number) => boolean,
  ) {
    this.#data = data;
    this.#usageKeepMs = usageKeepMs ?? 0;
    this.#mayForget = mayForget;
    this.#countTime = countTime;
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
      // Lists whose next page nobody asked for.
      this.#data.orders.clear();
    }
    for (let i = 0; i < CELLS_PER_CALL; i++) {
      const { value: cell, done } = this.#cells.next();
      if (done) {
        this.#cells = undefined;
        // After the cells: what one of them still has stays in the lists.
        this.#data.countedHours.drop(this.#usageKeepMs, nowMs);
        return;
      }
      this.#look(cell, nowMs);
    }
  }

  #look(cell: BucketCell, nowMs: number): void {
    if (this.#forgets && this.#mayForget(cell, nowMs)) {
      // No write comes any more that would count them.
      this.#countTime(cell, { epochMs: nowMs }, nowMs);
      cell.state = undefined;
      cell.owned = undefined;
    }
    dropHours(cell, this.#usageKeepMs, nowMs);
    if (cell.state === undefined && cell.hours === undefined) this.#data.buckets.delete(cell.key.id);
  }
}
