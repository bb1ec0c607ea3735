import type { AuditEvent } from "../../src/domain/config/audit.ts";
import type { ItemWrite } from "../../src/ports/item-store.ts";

/** What one token stands for. */
export interface TokenUse {
  readonly namespaceId: string;
  readonly token: string;
  readonly writes: readonly ItemWrite[];
  readonly event: AuditEvent | undefined;
}

/** The tokens of the transactions of the last ten minutes. */
export class ConditionalTokens {
  /** In the order in which they were done. */
  readonly #done = new Map<string, { readonly atMs: number; readonly what: string }>();

  /** Whether this very transaction was done less than ten minutes ago. Throws when the token was another's. */
  knows(use: TokenUse, nowMs: number): boolean {
    for (const [token, { atMs }] of this.#done) {
      if (atMs > nowMs - TOKENS_KEPT_MS) break;
      this.#done.delete(token);
    }
    const done = this.#done.get(use.token);
    if (done === undefined) return false;
    if (done.what === shown(use)) return true;
    throw new Error(
      `The token "${use.token}" stood for another transaction ${nowMs - done.atMs} ms ago; ` +
        "repeat a transaction as it was, or give the new one a token of its own.",
    );
  }

  remember(use: TokenUse, nowMs: number): void {
    this.#done.set(use.token, { atMs: nowMs, what: shown(use) });
  }
}

const TOKENS_KEPT_MS = 10 * 60_000;

/** All of a transaction that a store is sent; traces are not. */
function shown({ namespaceId, writes, event }: TokenUse): string {
  const sent = [namespaceId, writes.map((write) => ({ ...write, trace: undefined })), event];
  return JSON.stringify(sent, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));
}
