import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET } from "../../domain/bucket/give-back.ts";
import { type Amount, milliOf } from "../../domain/charge/amounts.ts";
import type { CallerUse, CountingLevel } from "../../domain/charge/caller-usage.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { type Holding, without } from "../../domain/lease/holding.ts";
import {
  amountsHeld,
  consumedOf,
  type LevelUse,
  NO_USE,
  notPassed,
  passedAfter,
  returnsFrom,
  usedMore,
} from "../../domain/lease/level-use.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { LeaseClosed, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Demand } from "../acquire/request.ts";
import type { StoreClient, Taken } from "../acquire/store-client.ts";
import type { EventPublisher } from "../limiter/event-publisher.ts";
import type { Refusal } from "../refusal/refusal.ts";
import type { CallerUsage } from "../usage/caller-usage.ts";
import type { LaterHold } from "./later-holds.ts";
import type { LeaseHolds } from "./lease-holds.ts";
import { answersOf, type LeasePart, seenIn } from "./lease-part.ts";
import type { Renewals } from "./renewals.ts";

/** The state of a lease. Only an open one can be changed. `expired`: of a client over HTTP, whose lease is held for a time. */
export type LeaseStatus = "open" | "settled" | "rolledBack" | "expired";

/** An adjustment that certainly is not stored yet. */
export interface PendingDebit {
  readonly level: number;
  readonly amounts: readonly Amount[];
}

/** The state of the tokens of a lease after changes. */
export interface LeaseLedger {
  /** The use of each level. */
  readonly levels: LevelUse[];
  /** Adjustments that certainly are not stored; settling tries them again. */
  pendingDebits: readonly PendingDebit[];
  /** For each level, adjustments that may be stored: they count as charged, but cannot be given back. */
  readonly uncertain: (readonly Amount[])[];
  /** The bucket of each demand as the take, an adjustment or a consume last left it. */
  readonly seen: (BucketState | undefined)[];
  /** True once settling gave the slots back: slots of an adjustment that is answered later must follow. */
  gaveSlotsBack: boolean;
  /** What is counted beside the buckets. */
  beside: CallerUse;
}

/** The ledger right after the take. */
export function ledgerOf(part: LeasePart): LeaseLedger {
  const answers = answersOf(part);
  const levels = part.demands.map(({ take }, i) => usedMore(NO_USE, take, answers[i]?.ticket ?? PLAIN_TICKET));
  const beside = part.beside ?? { levels: countingIn(part), bypass: part.demands[0]?.bypass ?? false, amounts: [] };
  return { levels, pendingDebits: [], uncertain: [], seen: seenIn(part), gaveSlotsBack: false, beside };
}

function countingIn({ demands }: LeasePart): readonly CountingLevel[] {
  return demands.map(({ link, bucket }) => ({
    limits: link.charged.limits,
    isTotal: bucket.resource === TOTAL_RESOURCE,
  }));
}

/** The charge by measure, in millitokens. `ledger` is undefined if nothing but the take has happened. */
export function consumedIn(
  { demands }: LeasePart,
  ledger: LeaseLedger | undefined,
  status: LeaseStatus,
): ReadonlyMap<string, number> {
  return consumedOf(
    demands.map(({ link, take }, level) => {
      const use = ledger?.levels[level] ?? usedMore(NO_USE, take, PLAIN_TICKET);
      return { charged: link.charged, use: status === "rolledBack" ? { ...use, passed: undefined } : use };
    }),
  );
}

/**
 * The amounts of a change that are charged to a level (negative: given back to it), or the totals that it comes to. Limits that the lease
 * passed by are left out; their use is recorded.
 */
export function chargedOf(
  ledger: LeaseLedger,
  level: number,
  amounts: readonly Amount[],
  meaning: "difference" | "totals",
): readonly Amount[] {
  const use = ledger.levels[level] as LevelUse;
  const { passed } = use;
  if (passed === undefined) return amounts;
  const used = meaning === "totals" ? [...amountsHeld(use), ...passed] : [];
  const change = amounts.map(({ limit, milli }) => ({ limit, milli: milli - milliOf(used, limit) }));
  ledger.levels[level] = { ...use, passed: passedAfter(passed, change) };
  return notPassed(passed, amounts);
}

/** The amounts that a change charges to a level (`more`) and gives back to it (`less`). */
export interface LevelMove {
  readonly more: readonly Amount[];
  readonly less: readonly Amount[];
}

/**
 * The difference of one level to totals, by limit. Pending debits are charged when the lease is settled, so an excess is taken off
 * them first. Uncertain debits are neither charged again nor given back: they may not have been taken.
 */
export function differenceTo(ledger: LeaseLedger, level: number, totals: readonly Amount[]): LevelMove {
  const more: Amount[] = [];
  const less: Amount[] = [];
  for (const { limit, milli } of totals) {
    const heldMilli = milliOf(amountsHeld(ledger.levels[level] as LevelUse), limit);
    const pending = ledger.pendingDebits.flatMap((one) => (one.level === level ? one.amounts : []));
    const owedMilli = heldMilli + milliOf(pending, limit);
    const charged = owedMilli + milliOf(ledger.uncertain[level] ?? [], limit);
    if (milli > charged) more.push({ limit, milli: milli - charged });
    if (milli >= owedMilli) continue;
    dropPending(ledger, level, { limit, milli: owedMilli - milli });
    if (milli < heldMilli) less.push({ limit, milli: heldMilli - milli });
  }
  return { more, less };
}

/** Removes the amounts to give back from the ledger, at most what is held. `charges` has one entry per level. */
export function takeReturns(
  ledger: LeaseLedger,
  charges: readonly (readonly Amount[])[],
): readonly (readonly Holding[])[] {
  return ledger.levels.map((use, level) => {
    // Debits that were never charged are dropped before anything is given back, so that all levels end alike.
    const due = (charges[level] ?? []).map((amount) => dropPending(ledger, level, amount));
    const returns = returnsFrom(use, due);
    ledger.levels[level] = { ...use, held: without(use.held, returns) };
    return returns;
  });
}

/** Removes all that is held from the ledger. */
export function takeAll(ledger: LeaseLedger): readonly (readonly Holding[])[] {
  ledger.pendingDebits = [];
  return ledger.levels.map((use, level) => {
    ledger.levels[level] = { ...use, held: [] };
    return use.held;
  });
}

/** Drops an amount from the pending debits of a level, and returns the rest. */
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

/** Counts a change of the lease beside the buckets. What ends after a rollback is not counted: all was given back. */
export function countBeside(
  { maker, status }: Pick<LeaseCore, "maker" | "status">,
  part: LeasePart,
  ledger: LeaseLedger,
  change: Parameters<CallerUsage["changed"]>[2],
): void {
  const isLate = status === "rolledBack" && ledger.beside.amounts.every(({ milli }) => milli === 0);
  if (!isLate) ledger.beside = maker.callers.changed(part, ledger.beside, change);
}

export function closed(status: LeaseStatus): LeaseClosed {
  const leaseStatus = status === "settled" ? "settled" : "rolledBack";
  const how = status === "settled" ? "settled" : "rolled back";
  return new LeaseClosed("lease_closed", `The lease has been ${how}; acquire a new one.`, { leaseStatus });
}

type About = Pick<LeasePart, "entityId" | "resource">;

export function adjustmentLost({ entityId, resource }: About): RateLimiterUnavailable {
  return new RateLimiterUnavailable(
    `The adjustment of ${entityId} on ${resource} could not be stored; ` +
      "the work is done, but its actual cost is not charged.",
  );
}

export function noMoreConsumed({ entityId, resource }: About, cause: unknown): RateLimiterUnavailable {
  return new RateLimiterUnavailable(
    `The store is unavailable, so no more was consumed for ${entityId} on ${resource}; the lease holds what it held before.`,
    { cause },
  );
}

/** The parts of a limiter that its leases use. */
export interface LeaseMaker {
  readonly client: StoreClient;
  /** Takes for a `consume`. Throws if the namespace is frozen. */
  takeMore(claims: readonly Demand[], chain: readonly Demand[]): Promise<Taken>;
  readonly calendar: Calendar;
  now(): number;
  /** Decides a `consume` during an outage: a reason (let through), "block" or a refusal. */
  outage(claims: readonly Demand[], reason: string): string | "block" | Refusal;
  readonly publisher: EventPublisher;
  readonly renewals: Renewals;
  /** Counts what no bucket does. */
  readonly callers: Pick<CallerUsage, "changed">;
}

/** The state that all resources of a lease share. */
export interface LeaseCore {
  readonly maker: LeaseMaker;
  status: LeaseStatus;
  /** The totals of `settle` as text, to compare a repeat; undefined without totals. */
  settledWith: string | undefined;
  degradedReason: string | false;
  /** The request's signal, or one made when it is first read. */
  signal: AbortSignal | undefined;
  /** The slots of the lease; made when they are first asked for or renewed. */
  holds: LeaseHolds | undefined;
  /** The schedule of a kept lease until its holds are made. */
  keepsLater: LaterHold | undefined;
}
