import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { type Holding, returnsOf, without, withTaken } from "../../domain/lease/holding.ts";
import { consumedOf, notPassed, withPassed } from "../../domain/lease/lease-consumed.ts";
import { onlyShadowed, withoutShadowed } from "../../domain/limits/shadow.ts";
import { LeaseClosed } from "../../domain/names/errors.ts";
import { type LeasePart, seenIn } from "./lease-part.ts";

/** The state of a lease. Only an open one can be changed. `expired`: of a client over HTTP, whose lease is held for a time. */
export type LeaseStatus = "open" | "settled" | "rolledBack" | "expired";

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
  /**
   * For each level, what was asked of shadow limits that would have refused it: it is shown, and neither charged nor given back.
   * Undefined where there are none.
   */
  readonly passed: (readonly Amount[] | undefined)[];
  /** The bucket of each demand as the take, an adjustment or a consume last left it. */
  readonly seen: (BucketState | undefined)[];
  /** Settled, it gave its slots back: those of an adjustment that is answered later have to follow. */
  gaveSlotsBack: boolean;
}

/** The ledger of what was taken, before anything else has happened to it. */
export function ledgerOf(part: LeasePart): LeaseLedger {
  const none = { held: [], pendingDebits: [], uncertain: [], passed: [], gaveSlotsBack: false };
  const ledger: LeaseLedger = { ...none, seen: seenIn(part) };
  let next = 0;
  for (const [level, { take }] of part.demands.entries()) {
    const ticket = take.length === 0 ? PLAIN_TICKET : (part.taken[next++]?.ticket ?? PLAIN_TICKET);
    ledger.held[level] = take.length === 0 ? [] : withTaken([], withoutShadowed(take, ticket.shadowed), ticket);
    notePassed(ledger, level, onlyShadowed(take, ticket.shadowed));
  }
  return ledger;
}

/** What is held of the limits of one level. */
function heldAt({ held }: LeaseLedger, level: number): readonly Amount[] {
  return (held[level] ?? []).flatMap((holding) => holding.held);
}

/** What the lease has used of the limits of one level: what it holds, and what passed by shadows; nothing once it is rolled back. */
function usedAt(ledger: LeaseLedger, level: number, status: LeaseStatus): readonly Amount[] {
  const passed = ledger.passed[level];
  const held = heldAt(ledger, level);
  return passed === undefined || status === "rolledBack" ? held : [...held, ...passed];
}

/** What was charged by measure, in millitokens. `ledger`: undefined where nothing but the take has happened. */
export function consumedIn(
  { demands }: LeasePart,
  ledger: LeaseLedger | undefined,
  status: LeaseStatus,
): ReadonlyMap<string, number> {
  return consumedOf(
    demands.map(({ link, take }, level) => {
      const used = ledger === undefined ? take : usedAt(ledger, level, status);
      return { charged: link.charged, used, passed: ledger?.passed[level] };
    }),
  );
}

/** Notes what passed by shadows when more was taken. */
export function notePassed(ledger: LeaseLedger, level: number, amounts: readonly Amount[]): void {
  if (amounts.length === 0) return;
  ledger.passed[level] = withPassed(ledger.passed[level], amounts);
}

/**
 * The amounts of a change that are charged to a level or given back to it: a limit that the lease passed by is left out, and what it
 * has used of it is noted.
 */
export function chargedOf(
  ledger: LeaseLedger,
  level: number,
  amounts: readonly Amount[],
  change: "more" | "less" | "total",
): readonly Amount[] {
  const passed = ledger.passed[level];
  if (passed === undefined) return amounts;
  ledger.passed[level] = passed.map((before) => {
    const amount = amounts.find(({ limit }) => limit === before.limit);
    if (amount === undefined) return before;
    const { limit, milli } = amount;
    if (change === "more") return { limit, milli: before.milli + milli };
    const left = change === "less" ? before.milli - milli : milli - sumOf(heldAt(ledger, level), limit);
    return { limit, milli: Math.max(0, left) };
  });
  return notPassed(passed, amounts);
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

/** Takes out what is given back of each level, at most what is held. `charges`: for each level. */
export function takeReturns(
  ledger: LeaseLedger,
  charges: readonly (readonly Amount[])[],
): readonly (readonly Holding[])[] {
  const returns = ledger.held.map((holdings, level) => {
    // Adjustments that were never charged are dropped before anything is given back: all levels end alike.
    const due = (charges[level] ?? []).map((amount) => dropPending(ledger, level, amount));
    return returnsOf(holdings, due);
  });
  for (const [level, back] of returns.entries()) ledger.held[level] = without(ledger.held[level] ?? [], back);
  return returns;
}

/** Drops an amount from the adjustments that a level was never charged for; what is left of the amount is answered. */
function dropPending(ledger: LeaseLedger, level: number, { limit, milli }: Amount): Amount {
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

export function closed(status: LeaseStatus): LeaseClosed {
  const leaseStatus = status === "settled" ? "settled" : "rolledBack";
  const how = status === "settled" ? "settled" : "rolled back";
  return new LeaseClosed("lease_closed", `The lease has been ${how}; acquire a new one.`, { leaseStatus });
}
