import type { Retention } from "../domain/config/retention.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { CountStore } from "../ports/record-store.ts";
import { lastHourOverMs, OPERATIONS_KEPT_MS } from "../stored/keeping.ts";

/** Of each kind, in one step: a transaction of a few milliseconds. */
export const STEP_ROWS = 200;

/** Deletes what is kept for a time and is too old: usage, refusals, audit events, leases and keys that are forgotten, operations. */
export class RecordSweep {
  readonly #store: CountStore;
  readonly #retention: Retention;

  constructor(store: CountStore, retention: Retention) {
    this.#store = store;
    this.#retention = retention;
  }

  /** Some of it; answers how many rows went. */
  step(nowMs: number): MaybePromise<number> {
    const { usageKeepMs, auditKeepMs } = this.#retention;
    return this.#store.expire({
      nowMs,
      // A process that counts none leaves what others count to them.
      usageUntilMs: usageKeepMs === undefined ? undefined : lastHourOverMs(nowMs, usageKeepMs),
      auditUntilMs: nowMs - auditKeepMs,
      operationsUntilMs: nowMs - OPERATIONS_KEPT_MS,
      limitMax: STEP_ROWS,
    });
  }

  /** All of it. */
  async toEnd(nowMs: number): Promise<number> {
    let rows = 0;
    for (;;) {
      const deleted = await this.step(nowMs);
      if (deleted === 0) return rows;
      rows += deleted;
    }
  }
}
