import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import type { Item, ItemKey, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";

/** What became of a write. `contended`: transactions were in the way, again and again. */
export type Written =
  | { readonly kind: "applied"; readonly item: Item }
  | { readonly kind: "failed"; readonly item: Item | undefined }
  | { readonly kind: "contended"; readonly item?: never };

/** What the original's SDK makes of a line: what is not answered is sent again, so one lost answer is two writes. */
export class OriginalLine {
  /** Calls as they were sent, those sent again included. A transaction is one write. */
  readonly counts = { writes: 0, failedWrites: 0, reads: 0 };
  readonly #items: ItemStore;
  #tokens = 0;

  constructor(items: ItemStore) {
    this.#items = items;
  }

  async write(write: ItemWrite): Promise<Written> {
    let cause: unknown;
    let conflicts = 0;
    for (let sent = 0; sent < SENT_MAX; sent++) {
      this.counts.writes++;
      const answer = await this.#items.write(write, CALL);
      if (answer.kind === "applied") return answer;
      if (answer.kind === "failed") {
        this.counts.failedWrites++;
        return answer;
      }
      const isConflict = answer.kind === "refused" && answer.why === "conflict";
      if (isConflict && conflicts++ === CONFLICT_RETRIES) return { kind: "contended" };
      cause = answer.cause;
    }
    throw unavailable("write", cause);
  }

  /** A write that transactions of others delay only for a while. */
  async writeThrough(write: ItemWrite): Promise<Exclude<Written, { readonly kind: "contended" }>> {
    const written = await this.write(write);
    if (written.kind === "contended") throw unavailable("write", new Error("a transaction was in the way"));
    return written;
  }

  /** All or none. It has a token, so that sending it again does not do it twice. */
  async transact(writes: readonly ItemWrite[], clientId: string): Promise<boolean> {
    const options = { token: `${clientId}-${this.#tokens++}`, event: undefined };
    let cause: unknown;
    for (let sent = 0; sent < SENT_MAX; sent++) {
      this.counts.writes++;
      const answer = await this.#items.transact(writes, options, CALL);
      if (answer.kind === "applied") return true;
      if (answer.kind === "failed") {
        this.counts.failedWrites++;
        return false;
      }
      cause = answer.cause;
    }
    throw unavailable("transaction", cause);
  }

  async read(keys: readonly ItemKey[], consistent: boolean): Promise<readonly (Item | undefined)[]> {
    let cause: unknown;
    for (let sent = 0; sent < SENT_MAX; sent++) {
      this.counts.reads++;
      try {
        return await this.#items.read(keys, { consistent }, CALL);
      } catch (error) {
        if (!(error instanceof RateLimiterUnavailable)) throw error;
        cause = error;
      }
    }
    throw unavailable("read", cause);
  }

  /** A round trip to items that this store does not hold: configuration, an index. It takes its time. */
  async readElsewhere(): Promise<void> {
    await this.read([], false);
  }
}

const CALL = { timeoutMs: 5_000 };
const SENT_MAX = 10;
const CONFLICT_RETRIES = 3;

function unavailable(what: string, cause: unknown): RateLimiterUnavailable {
  return new RateLimiterUnavailable(`The original gave up a ${what} after sending it ${SENT_MAX} times.`, { cause });
}
