import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Item, ItemKey } from "../../src/ports/item-store.ts";
import type { OriginalLine } from "./original-line.ts";
import type { Wants } from "./original-terms.ts";
import { creditWrite, debitWrite, type Refund, trimWrite } from "./original-writes.ts";

export interface LeaseTies {
  readonly line: OriginalLine;
  now(): number;
  readonly calendar: Calendar;
  limits(): readonly Limit[];
}

/** What was admitted, on the shard it was taken from. Nothing waits until the end: each call is written at once. */
export class OriginalLease {
  readonly refused = false;
  readonly key: ItemKey;
  readonly #ties: LeaseTies;
  readonly #taken: Map<string, number>;
  #seen: Item;

  constructor(key: ItemKey, seen: Item, taken: Wants, ties: LeaseTies) {
    this.key = key;
    this.#seen = seen;
    this.#taken = new Map(taken);
    this.#ties = ties;
  }

  /** Whole tokens that the lease has taken and not given back, per limit. */
  get taken(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#taken].map(([name, milli]) => [name, milli / 1000]));
  }

  /** Takes so many whole tokens more of limits that were declared, or gives them back where negative. */
  async adjust(deltas: Readonly<Record<string, number>>): Promise<void> {
    const debits = new Map<string, number>();
    const credits = new Map<string, number>();
    for (const [name, tokens] of Object.entries(deltas)) {
      if (!this.#taken.has(name) || tokens === 0) continue;
      (tokens > 0 ? debits : credits).set(name, Math.abs(tokens) * 1000);
    }
    if (debits.size > 0) await this.#debit(debits);
    if (credits.size > 0) await this.#credit(credits);
  }

  /** Gives back so many whole tokens, whether or not they were taken. */
  async release(amounts: Readonly<Record<string, number>>): Promise<void> {
    await this.adjust(Object.fromEntries(Object.entries(amounts).map(([name, tokens]) => [name, -tokens])));
  }

  /** Gives back all that was taken. */
  async rollback(): Promise<void> {
    await this.release(this.taken);
  }

  async #debit(amounts: Wants): Promise<void> {
    const { kind, item } = await this.#ties.line.writeThrough(debitWrite(this.key, amounts));
    if (kind === "failed") return;
    this.#seen = item;
    this.#count(amounts, 1);
  }

  async #credit(amounts: Wants): Promise<void> {
    this.#count(amounts, -1);
    const credited = await this.#ties.line.writeThrough(creditWrite(this.key, this.#refundOf(amounts)));
    if (credited.item === undefined) return;
    if (credited.kind === "applied") {
      this.#seen = credited.item;
      return;
    }
    const trimmed = await this.#ties.line.writeThrough(trimWrite(this.key, this.#refundOf(amounts)));
    if (trimmed.kind === "applied") {
      this.#seen = trimmed.item;
      return;
    }
    // A quota's period has moved on: what was taken of it went with the old one.
    const others = new Map([...amounts].filter(([name]) => !this.#isQuota(name)));
    if (others.size === 0 || others.size === amounts.size) return;
    const rest = await this.#ties.line.writeThrough(trimWrite(this.key, this.#refundOf(others)));
    if (rest.kind === "applied") this.#seen = rest.item;
  }

  #refundOf(amounts: Wants): Refund {
    const { calendar } = this.#ties;
    return { seen: this.#seen, amounts, limits: this.#ties.limits(), nowMs: this.#ties.now(), calendar };
  }

  #isQuota(name: string): boolean {
    return this.#ties.limits().some((limit) => limit.name === name && limit.reset !== undefined);
  }

  #count(amounts: Wants, sign: 1 | -1): void {
    for (const [name, milli] of amounts) this.#taken.set(name, (this.#taken.get(name) ?? 0) + sign * milli);
  }
}
