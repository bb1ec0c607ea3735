import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { OperationReply, Operation as StoreOperation } from "../../src/ports/bucket-store.ts";

const KEPT_MS = 3 * 24 * 3_600_000;

/** What operators bought and reset, by bucket and key: each key is good for once in three days. */
export class Purchases {
  readonly #done = new Map<string, { readonly entityId: string; readonly atMs: number; readonly amounts: string }>();

  /** Notes what was done; answers what is wrong with the reply. */
  note({ bucket, nowMs, idempotencyKey }: StoreOperation, { repeated, amounts }: OperationReply): string[] {
    for (const [id, { atMs }] of this.#done) if (atMs + KEPT_MS <= nowMs) this.#done.delete(id);
    const id = `${bucket.id}\n${idempotencyKey}`;
    const before = this.#done.get(id);
    const told = shown(amounts);
    if (before === undefined) {
      this.#done.set(id, { entityId: bucket.entityId, atMs: nowMs, amounts: told });
      return repeated ? [`the key ${idempotencyKey} is told to be used, and was not`] : [];
    }
    if (!repeated) return [`the key ${idempotencyKey} was good for a second time`];
    return before.amounts === told ? [] : [`a repeated purchase tells ${told}, not ${before.amounts}`];
  }

  forget(entityId: string): void {
    for (const [id, done] of this.#done) if (done.entityId === entityId) this.#done.delete(id);
  }
}

function shown(amounts: readonly Amount[]): string {
  return amounts.map(({ limit, milli }) => `${limit}:${milli}`).join();
}
