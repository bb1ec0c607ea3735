import type { Amount } from "../domain/amounts.ts";
import type { BucketState } from "../domain/bucket-state.ts";
import type { Holding } from "../domain/holding.ts";

/** An adjustment that certainly is not stored yet. */
export interface PendingDebit {
  /** Which of the levels of the lease it is of. */
  readonly level: number;
  readonly amounts: readonly Amount[];
}

/** What became of the tokens of a lease after they were taken. */
export interface LeaseLedger {
  /** For each level of the lease. */
  readonly held: (readonly Holding[])[];
  /** Adjustments that certainly were not stored yet; settling tries them again. */
  pendingDebits: readonly PendingDebit[];
  /** For each level, adjustments that may be stored: they count as charged, but cannot be given back. */
  readonly uncertain: (readonly Amount[])[];
  /** The bucket of each demand as the take, an adjustment or a consume last left it. */
  readonly seen: (BucketState | undefined)[];
}

/** What is held of the limits of one level. */
export function heldAt({ held }: LeaseLedger, level: number): readonly Amount[] {
  return (held[level] ?? []).flatMap((holding) => holding.held);
}

/**
 * What leads one level of a lease to totals, by limit. What is pending is charged when the lease is settled: where it is too much,
 * it is taken off the pending first. What may be stored is neither charged again nor given back: it may not have been taken.
 */
export function differenceTo(
  ledger: LeaseLedger,
  level: number,
  totals: readonly Amount[],
): { readonly more: readonly Amount[]; readonly less: readonly Amount[] } {
  const more: Amount[] = [];
  const less: Amount[] = [];
  for (const { limit, milli } of totals) {
    const heldMilli = sumOf(heldAt(ledger, level), limit);
    const pending = ledger.pendingDebits.flatMap((one) => (one.level === level ? one.amounts : []));
    const owedMilli = heldMilli + sumOf(pending, limit);
    const charged = owedMilli + sumOf(ledger.uncertain[level] ?? [], limit);
    if (milli > charged) more.push({ limit, milli: milli - charged });
    if (milli >= owedMilli) continue;
    dropPending(ledger, level, { limit, milli: owedMilli - milli });
    if (milli < heldMilli) less.push({ limit, milli: heldMilli - milli });
  }
  return { more, less };
}

/** Drops an amount from the adjustments that a level was never charged for; what is left of the amount is answered. */
export function dropPending(ledger: LeaseLedger, level: number, { limit, milli }: Amount): Amount {
  let left = milli;
  const dropFrom = (amount: Amount): readonly Amount[] => {
    if (amount.limit !== limit) return [amount];
    const dropped = Math.min(left, amount.milli);
    left -= dropped;
    return dropped === amount.milli ? [] : [{ limit, milli: amount.milli - dropped }];
  };
  ledger.pendingDebits = ledger.pendingDebits.flatMap((one) => {
    if (one.level !== level) return [one];
    const amounts = one.amounts.flatMap(dropFrom);
    return amounts.length === 0 ? [] : [{ level, amounts }];
  });
  return { limit, milli: left };
}

function sumOf(amounts: readonly Amount[], limit: string): number {
  return amounts.reduce((sum, amount) => (amount.limit === limit ? sum + amount.milli : sum), 0);
}
