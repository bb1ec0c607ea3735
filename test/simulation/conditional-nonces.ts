import type { Item, ItemKey } from "../../src/ports/item-store.ts";
import { type Part, slotWritten } from "./conditional-item-rules.ts";
import type { Journal } from "./journal.ts";

/**
 * A write that was lost is known by its nonce. Where another process has written its own there in the meantime, the same
 * write may land twice: then it was paid for twice, and nobody can know. By writes of its own no process forgets that.
 */
export class Nonces {
  readonly #journal: Journal;
  /** Who wrote each nonce, and whether that had been reported as unknown before. */
  readonly #writers = new Map<unknown, { readonly id: string; readonly isLate: boolean }>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** What is wrong with the nonce of a write that takes or debits. */
  problems(key: ItemKey, parts: readonly Part[], before: Item | undefined, after: Item): string[] {
    // A write for nobody only closes an hour or brings limits: the epoch that it moves on is enough to know it by.
    if (parts.every(({ amounts }) => amounts.length === 0) || parts.some(({ kind }) => kind === "credit")) return [];
    const slot = slotWritten(before, after);
    if (slot === undefined) return ["it was written with a nonce that was there already"];
    const problems: string[] = [];
    const over = this.#writers.get(before?.[slot]);
    for (const { asked } of parts) {
      if (asked === undefined) continue;
      const signature = `${key.shard} ${after[slot]}`;
      const isAgain = asked.nonces.has(signature);
      asked.nonces.add(signature);
      this.#writers.set(after[slot], { id: asked.process.id, isLate: asked.isOver });
      if (!isAgain) continue;
      this.#journal.count("paid twice");
      asked.operation?.uncertain.add(key.bucket.id);
      // Once a write was reported as unknown, its process does not look for it any more: neither this one, nor an earlier one
      // that landed after all and covered this one's nonce.
      if (over?.id === asked.process.id && !over.isLate && !asked.isOver)
        problems.push(`${over.id} paid twice, and wrote over its own nonce in between`);
    }
    return problems;
  }
}
