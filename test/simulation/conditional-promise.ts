import type { Limit } from "../../src/domain/limits/limit.ts";
import type { ModelLimit } from "../kit/model.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import type { ModelPeriod } from "../kit/model-period.ts";
import { inForceAt, shareOf } from "../kit/model-terms.ts";
import { calendar } from "./calendar.ts";
import { PARTS, WindowRefill } from "./window-refill.ts";

/** One write on one limit of one bucket, whichever of its shards it went to. */
export interface LimitWrite {
  readonly bucketId: string;
  readonly limit: Limit;
  /** Of a quota: the period of the shard that was written. */
  readonly period: ModelPeriod | undefined;
  readonly kind: "take" | "debit" | "credit";
  readonly milli: number;
  /** As it counts: a reading behind the epoch counts as the epoch. */
  readonly readingMs: number;
  readonly shards: number;
  readonly owedElsewhere: Owed;
  /** When it was applied, by the true clock, and how old its reading was then. */
  readonly atMs: number;
  readonly ageMs: number;
  /** By how much clocks may be off. */
  readonly errorMs: number;
}

/** What the other shards of a bucket owe: that is not paid by the one that is written. */
export interface Owed {
  readonly milli: bigint;
  /** Up to when time has paid for it. */
  readonly atMs: number;
}

/** A take or debit, from which on a run may be counted; or that shards were split or joined. */
interface Spent {
  /** What was net taken before it, in millitokens. */
  readonly before: bigint;
  readonly readingMs: number;
  /** The earliest that its reading can have been made, in true time. */
  readonly trueMs: number;
}

/** Writes of a limit that drips while it stays the same. */
interface Run {
  readonly terms: string;
  readonly refill: WindowRefill;
  readonly spent: Spent[];
  taken: bigint;
  /** The most shards it had. */
  shards: number;
}

interface Period {
  allowed: bigint;
  granted: bigint;
  /** Measured from what the shards held together: each of them rounds by one. */
  rounding: bigint;
  /** The largest capacity that was in force at a take. */
  windowMost: bigint;
}

/** So long before its first take a run may have readings: clocks are off by less. */
const BEFORE_MS = 3_600_000;

/**
 * The promise as it is worded, for whole buckets, whatever happens to their shards: over every run of writes, from one take
 * to a later take.
 */
export class PromiseLedger {
  readonly #runs = new Map<string, Run>();
  readonly #periods = new Map<string, Period>();
  /** Terms last seen, and until when periods are not measured: they changed, or what was there before is not known. */
  /** How many shards a bucket had at most. */
  readonly #shardsMost = new Map<string, number>();
  readonly #quotas = new Map<string, { readonly terms: string; readonly unmeasuredMs: number }>();
  /** Until when a quota may hold less than its period leaves: shards were joined that knew the period by different numbers. */
  readonly #lessUntilMs = new Map<string, number>();
  /** The end of the latest period within which a shard came to another rule for a quota: it had begun the period by the one before. */
  readonly #heardUntilMs = new Map<string, number>();

  /** What is wrong now that this was written; empty when nothing is. */
  wrote(write: LimitWrite): string[] {
    const { limit } = write;
    if (limit.reset !== undefined) return this.#metered(write);
    if (limit.resetAfterMs === undefined && limit.holdMs === undefined && !limit.soft) return this.#dripped(write);
    this.forget(write.bucketId, limit.name);
    return [];
  }

  /** By what a limit of a bucket goes from now on: where that changed, another run begins. */
  goesBy(bucketId: string, limit: Limit, period: ModelPeriod | undefined): void {
    const id = idOf(bucketId, limit.name);
    const terms = JSON.stringify(limit);
    if (this.#runs.get(id)?.terms !== terms) this.#runs.delete(id);
    const quota = this.#quotas.get(id);
    if (limit.reset === undefined || period === undefined) {
      // A calendar quota that comes after this begins in the middle of it, and need not be full.
      this.#quotas.set(id, { terms, unmeasuredMs: quota?.unmeasuredMs ?? Number.NEGATIVE_INFINITY });
      return;
    }
    // One that began with its bucket, or was put on it, was full; what began in the middle of something else was not, and that may have
    // come and gone within one write.
    if (quota === undefined && period.began === "full" && !period.unbounded)
      this.#quotas.set(id, { terms, unmeasuredMs: Number.NEGATIVE_INFINITY });
    else if (quota?.terms !== terms) this.#unmeasured({ bucketId, limit }, period.untilMs);
  }

  /** The shards of a bucket were told anew, at an instant that may lie before the readings of takes by other clocks. */
  reshaped(bucketId: string, atMs: number, trueMs: number): void {
    for (const [id, run] of this.#runs) {
      if (id.startsWith(`${bucketId}\n`)) run.spent.push({ before: run.taken, readingMs: atMs, trueMs });
    }
  }

  /** Shards were joined of which each knew the period of a quota by a number of its own: only what was taken by one of them comes back. */
  joinedApart(bucketId: string, limit: string, untilMs: number): void {
    const id = idOf(bucketId, limit);
    this.#lessUntilMs.set(id, Math.max(untilMs, this.#lessUntilMs.get(id) ?? untilMs));
  }

  /**
   * Limits come to one shard. A quota that it knew by another rule has begun its period by that one, while shards that heard of the new
   * rule in the period before begin this one by it: the bucket has what they hold together when the last of them has come.
   */
  brought<Brought>(bucketId: string, model: ModelBucket, bring: () => Brought): Brought {
    const before = new Map(model.limits.map(({ limit }) => [limit.name, JSON.stringify(limit)]));
    const brought = bring();
    for (const { limit, period } of model.limits) {
      const terms = before.get(limit.name);
      if (period === undefined || terms === undefined || terms === JSON.stringify(limit)) continue;
      const id = idOf(bucketId, limit.name);
      this.#heardUntilMs.set(id, Math.max(period.untilMs, this.#heardUntilMs.get(id) ?? period.untilMs));
    }
    return brought;
  }

  /** What was bought, or given back by an operator: it may be taken once more. */
  gained(bucketId: string, limit: Limit, milli: bigint, period: ModelPeriod | undefined): void {
    this.goesBy(bucketId, limit, period);
    const run = this.#runs.get(idOf(bucketId, limit.name));
    if (run !== undefined) run.taken -= milli;
    if (period !== undefined) this.#period(bucketId, limit, period).allowed += milli;
  }

  /** An operator reset it, or how it went on is not known. */
  forget(bucketId: string, limit: string): void {
    this.#runs.delete(idOf(bucketId, limit));
  }

  /** How a limit stands from now on is not known, nor what was taken in its period. */
  lost(bucketId: string, { limit, period }: ModelLimit): void {
    this.forget(bucketId, limit.name);
    if (period !== undefined) this.#unmeasured({ bucketId, limit }, period.untilMs);
    // A calendar quota that comes after this begins in the middle of it, and need not be full.
    else
      this.#quotas.set(idOf(bucketId, limit.name), {
        terms: JSON.stringify(limit),
        unmeasuredMs: Number.NEGATIVE_INFINITY,
      });
  }

  /** The bucket is gone, and with it what was promised. */
  forgetAll(bucketId: string): void {
    for (const all of [this.#runs, this.#periods, this.#quotas, this.#lessUntilMs, this.#heardUntilMs]) {
      for (const id of all.keys()) if (id.startsWith(`${bucketId}\n`)) all.delete(id);
    }
  }

  /**
   * What is wrong with what the shards of a bucket hold together; empty when nothing is. A calendar quota holds what its period
   * allows, less what was granted in it: neither more nor less, whichever shard was taken from and whichever was given to. Less,
   * where something could not be given back to a shard that was joined.
   */
  conserved(bucketId: string, shards: readonly ModelBucket[]): string[] {
    // Each shard that there was may have rounded by one, also before they were joined.
    const most = Math.max(shards.length, this.#shardsMost.get(bucketId) ?? 1);
    this.#shardsMost.set(bucketId, most);
    return (shards[0]?.limits ?? []).flatMap(({ limit: { name } }) => {
      const limits = shards.flatMap((model) => model.limit(name) ?? []);
      const latest = limits.reduce((a, b) => ((b.period?.untilMs ?? 0) > (a.period?.untilMs ?? 0) ? b : a));
      const due = limits.length < shards.length ? undefined : this.#dueIn(bucketId, latest, limits);
      if (due === undefined) return [];
      const held = limits.reduce(
        (sum, limit, index) => sum + heldIn(limit, latest, { index, count: limits.length }),
        0n,
      );
      const apart = held - due.milli;
      const rounding = BigInt(most) + due.rounding;
      const id = idOf(bucketId, name);
      const lessUntilMs = Math.max(this.#lessUntilMs.get(id) ?? 0, this.#heardUntilMs.get(id) ?? 0);
      const mayBeLess = (latest.period?.untilMs ?? 0) <= lessUntilMs;
      if (apart <= rounding && (apart >= -rounding || mayBeLess)) return [];
      return [`the bucket holds ${held} of ${name} on ${shards.length} shards, and its period leaves ${due.milli}`];
    });
  }

  /** What the period of a limit leaves, where that is measured. */
  #dueIn(
    bucketId: string,
    latest: ModelLimit,
    all: readonly ModelLimit[],
  ): { readonly milli: bigint; readonly rounding: bigint } | undefined {
    const { limit, period } = latest;
    if (limit.reset === undefined || limit.schedule !== undefined || period === undefined) return undefined;
    if (all.some((one) => one.period?.isUncounted)) return undefined;
    const terms = JSON.stringify(limit);
    if (all.some((one) => JSON.stringify(one.limit) !== terms || isBeside(one.period, period))) return undefined;
    const quota = this.#quotas.get(idOf(bucketId, limit.name));
    if (quota === undefined || quota.terms !== terms) return undefined;
    if (period.untilMs <= quota.unmeasuredMs && !this.#measure(bucketId, latest, all)) return undefined;
    const id = idOf(bucketId, limit.name);
    const isHeardWithin = period.untilMs <= (this.#heardUntilMs.get(id) ?? Number.NEGATIVE_INFINITY);
    if (isHeardWithin && this.#measure(bucketId, latest, all)) this.#heardUntilMs.delete(id);
    const known = this.#periods.get(periodId(bucketId, limit, period));
    if (known === undefined) return undefined;
    // What was taken before its capacity was lowered comes back as far as there is room in the whole bucket.
    const brim = BigInt(limit.capacity) * 1000n + all.reduce((sum, one) => sum + one.toppedUpMilli, 0n);
    if (known.allowed - known.granted > brim) known.allowed = known.granted + brim;
    return { milli: known.allowed - known.granted, rounding: known.rounding };
  }

  /**
   * All shards have come to the rule that a quota got within its period: from now on it is measured by what they hold together.
   * False, while one of them has still to come.
   */
  #measure(bucketId: string, { limit, period }: ModelLimit, all: readonly ModelLimit[]): boolean {
    if (period === undefined || all.some((one) => one.period?.untilMs !== period.untilMs)) return false;
    const of = this.#period(bucketId, limit, period);
    of.allowed = of.granted + all.reduce((sum, one) => sum + one.levelMilli(Number.NEGATIVE_INFINITY), 0n);
    of.rounding = BigInt(all.length);
    this.#quotas.set(idOf(bucketId, limit.name), {
      terms: JSON.stringify(limit),
      unmeasuredMs: Number.NEGATIVE_INFINITY,
    });
    return true;
  }

  #dripped(write: LimitWrite): string[] {
    const { bucketId, limit, kind, milli, readingMs, shards, owedElsewhere, atMs, ageMs, errorMs } = write;
    const terms = JSON.stringify(limit);
    const id = idOf(bucketId, limit.name);
    let run = this.#runs.get(id);
    if (run?.terms !== terms) {
      run = { terms, refill: new WindowRefill(limit, readingMs - BEFORE_MS), spent: [], taken: 0n, shards };
      this.#runs.set(id, run);
    }
    run.shards = Math.max(run.shards, shards);
    if (kind === "credit") {
      run.taken -= BigInt(milli);
      return [];
    }
    run.spent.push({ before: run.taken, readingMs, trueMs: atMs - ageMs - errorMs });
    run.taken += BigInt(milli);
    // In debt, nothing is granted to whoever asks for nothing.
    return kind === "debit" || milli === 0 ? [] : overIn(run, limit, owedElsewhere, atMs + errorMs);
  }

  #metered(write: LimitWrite): string[] {
    const { bucketId, limit, period, kind, milli, owedElsewhere, readingMs } = write;
    if (period === undefined) return [];
    const of = this.#period(bucketId, limit, period);
    of.granted += kind === "credit" ? -BigInt(milli) : BigInt(milli);
    if (kind !== "credit") of.windowMost = greater(of.windowMost, inForceAt(limit, readingMs, calendar).capacity);
    this.goesBy(bucketId, limit, period);
    if (period.isUncounted) this.#unmeasured({ bucketId, limit }, period.untilMs);
    const isMeasured = period.untilMs > (this.#quotas.get(idOf(bucketId, limit.name))?.unmeasuredMs ?? period.untilMs);
    // Where windows change what it holds, each shard counts by the one in which it was first taken from.
    const windows = limit.schedule === undefined ? 0n : of.windowMost - BigInt(limit.capacity) * 1000n;
    const over = of.granted - of.allowed - windows - of.rounding - owedElsewhere.milli;
    if (kind !== "take" || milli === 0 || limit.soft || !isMeasured || over <= 0n) return [];
    return [`${over} of ${limit.name} were granted above what its period allows`];
  }

  #unmeasured({ bucketId, limit }: Pick<LimitWrite, "bucketId" | "limit">, untilMs: number): void {
    const id = idOf(bucketId, limit.name);
    const unmeasuredMs = Math.max(untilMs, this.#quotas.get(id)?.unmeasuredMs ?? untilMs);
    this.#quotas.set(id, { terms: JSON.stringify(limit), unmeasuredMs });
  }

  #period(bucketId: string, limit: Limit, of: ModelPeriod): Period {
    const id = periodId(bucketId, limit, of);
    let period = this.#periods.get(id);
    if (period === undefined) {
      period = { allowed: BigInt(limit.capacity) * 1000n, granted: 0n, rounding: 0n, windowMost: 0n };
      this.#periods.set(id, period);
    }
    return period;
  }
}

/** Of the same end, and yet another one. */
function isBeside(period: ModelPeriod | undefined, other: ModelPeriod): boolean {
  return period === undefined || (period.untilMs === other.untilMs && period.byHand !== other.byHand);
}

/** What a shard holds in the period of another: one that has not come to it yet will begin it full. */
function heldIn(
  limit: ModelLimit,
  latest: ModelLimit,
  part: { readonly index: number; readonly count: number },
): bigint {
  if (limit.period?.untilMs === latest.period?.untilMs) return limit.levelMilli(Number.NEGATIVE_INFINITY);
  return shareOf(BigInt(limit.limit.capacity) * 1000n, part);
}

function periodId(bucketId: string, limit: Limit, { untilMs, byHand }: ModelPeriod): string {
  return `${idOf(bucketId, limit.name)}\n${untilMs}\n${byHand}\n${JSON.stringify(limit)}`;
}

function idOf(bucketId: string, limit: string): string {
  return `${bucketId}\n${limit}`;
}

/** Where a run is over the promise that ends now, however far back it is counted. */
function overIn({ spent, taken, shards, refill }: Run, limit: Limit, owed: Owed, trueMs: number): string[] {
  const { name } = limit;
  const last = (spent.at(-1) as Spent).readingMs;
  // What others owe was paid for up to their readings: those lie in the interval, too.
  let [earliest, latest, earliestTrue] = [last, Math.max(last, owed.atMs), trueMs];
  for (let i = spent.length - 1; i >= 0; i--) {
    const one = spent[i] as Spent;
    // The shards of a bucket do not know of each other's readings: of them it holds for the interval that all lie in, also the
    // reading of whoever split or joined them.
    earliest = shards === 1 ? one.readingMs : Math.min(earliest, one.readingMs);
    if (shards > 1) latest = Math.max(latest, one.readingMs);
    earliestTrue = Math.min(earliestTrue, one.trueMs);
    const capacity = refill.capacityMost(earliest, shards === 1 ? earliest : latest);
    const most = (capacity + BigInt(shards) + owed.milli) * PARTS;
    const net = (taken - one.before) * PARTS;
    const over = net - most - (refill.drippedTo(latest) - refill.drippedTo(earliest));
    if (over > 0n) return [`${over / PARTS} millitokens of ${name} were granted above the promise`];
    if (limit.schedule !== undefined) continue;
    const overTrue = net - most - (refill.drippedTo(trueMs) - refill.drippedTo(earliestTrue));
    if (overTrue > 0n) return [`${overTrue / PARTS} of ${name} were granted above the promise in true time`];
  }
  return [];
}

function greater(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
