import type { Item } from "../../src/ports/item-store.ts";
import { namesOf, RF } from "../../src/protocol/item/attributes.ts";
import { type LimitReading, numberIn, readingOf, readingsOf, termsText } from "./readings.ts";
import type { Side } from "./wire.ts";

/** One write on an unsharded bucket, by whomever. */
export interface LedgerWrite {
  readonly side: Side;
  readonly before: Item | undefined;
  readonly after: Item;
  /** When it was applied, by the true clock. */
  readonly atMs: number;
  /** Of ours, the reading of the clock it goes by. */
  readonly readingMs: number;
  readonly isTake: boolean;
}

/** A change of numbers in place: when it was, and the lowest rate that counted until then. */
interface Jump {
  readonly atMs: number;
  readonly rate: number;
}

/** Runs of writes on one limit that drips. */
interface Runs {
  /** Taken and debited less given back, since the runs began. */
  net: number;
  /** The same, without what adjustments of the original took below nothing: time not yet counted may pay for that. */
  netStored: number;
  /** What has dripped in by `atMs`, and what changes in place may have brought. */
  due: number;
  atMs: number;
  rate: number;
  /** Numbers were changed in place, and nobody has cut yet what that may have brought over the brim. */
  jump: Jump | undefined;
  /** The least, over every start with k = 1 so far, of what all runs from it allow `net - due` to be. */
  most: number;
  /** The same of those with k = 2, for `netStored - due`. */
  mostStored: number;
}

/**
 * The promise for dripping limits on a bucket that both write. Over every run of writes from one start to a later take:
 *
 *     taken + debited - given back   <=   k capacities + rate * t + one capacity for each change in place
 *
 * with k = 1 where the run starts with a write of ours, or with one of the original's that moved the epoch (its slow pass, its
 * create): either cuts what is over the brim. k = 2 where it starts with a fast write of the original, which spends stored
 * tokens and leaves the time since the epoch for a later pass; there, what its adjustments take below nothing does not
 * count: that time pays for it. t is longer by what clocks are off and by the age of readings: of the first, and with k = 2 of
 * those that an epoch was moved to, or that something was debited with which was not stored. It is longer, too, by what an epoch
 * runs ahead.
 */
export class PromiseRuns {
  readonly #runs = new Map<string, Runs>();
  readonly #errorMs: number;
  /** The worst that was seen: how much of what a run allows was used. */
  worst = Number.NEGATIVE_INFINITY;

  constructor(errorMs: number) {
    this.#errorMs = errorMs;
  }

  /** What is wrong now that this was written. */
  wrote(bucketId: string, write: LedgerWrite): string[] {
    const problems: string[] = [];
    for (const limit of readingsOf(write.after)) {
      if (limit.isQuota || limit.periodMs === 0) continue;
      const problem = this.#wroteLimit(`${bucketId}\n${limit.name}`, write, limit);
      if (problem !== undefined) problems.push(problem);
    }
    return problems;
  }

  /** The bucket was forgotten before it was full, or nobody can say how it went on. */
  forget(bucketId: string): void {
    for (const id of this.#runs.keys()) if (id.startsWith(`${bucketId}\n`)) this.#runs.delete(id);
  }

  #wroteLimit(id: string, write: LedgerWrite, limit: LimitReading): string | undefined {
    const { side, before, after, atMs, readingMs, isTake } = write;
    const old = readingOf(before, limit.name);
    const rate = limit.refillMilli / limit.periodMs;
    const epochMs = numberIn(after, RF);
    // Of buckets that are told anew several times in a millisecond the epoch runs ahead, by one for each: that time has dripped in.
    const nowMs = Math.max(atMs + this.#errorMs, epochMs);
    let runs = this.#runs.get(id);
    if (runs === undefined || (before !== undefined && old === undefined)) {
      runs = { net: 0, netStored: 0, due: 0, atMs: nowMs, rate, most: LOTS, mostStored: LOTS, jump: undefined };
      this.#runs.set(id, runs);
    }
    runs.due += (nowMs - runs.atMs) * runs.rate;
    runs.atMs = nowMs;
    const moved = before === undefined || numberIn(after, RF) !== numberIn(before, RF);
    if (old !== undefined && termsText(old) !== termsText(limit)) {
      // In place, the time since the epoch counts by the new numbers: at most a capacity, and any debt. Ours rebased it at its reading.
      const lagMs = nowMs - readingMs;
      runs.due += moved
        ? Math.max(0, rate - runs.rate) * Math.max(0, lagMs)
        : Math.max(old.capacityMilli, limit.capacityMilli) + Math.max(0, -limit.tokensMilli);
    }
    // Whoever cuts what the change brought may do it by a clock that is behind: from there on the new rate counts.
    if (moved && runs.jump !== undefined) {
      runs.due += Math.max(0, rate - runs.jump.rate) * Math.max(0, runs.jump.atMs - epochMs);
    }
    if (moved) runs.jump = undefined;
    else if (old !== undefined && termsText(old) !== termsText(limit)) {
      runs.jump = { atMs: nowMs, rate: Math.min(runs.rate, runs.jump?.rate ?? runs.rate) };
    }
    runs.rate = rate;
    // The original adjusts limits that are no longer there; what it counted then is not of this write.
    const net = limit.usedMilli - numberIn(before, namesOf(limit.name).tc);
    // Relative to a reading that is old by now: what dripped in since is on top of what was cut then.
    if (moved) runs.mostStored += Math.max(0, nowMs - epochMs) * rate;
    // So is what a debit of ours took below nothing, as far as time pays for it that its reading had not seen.
    const owed = Math.max(0, -limit.tokensMilli) - Math.max(0, -(old?.tokensMilli ?? 0));
    if (side === "ours" && !moved && owed > 0) runs.mostStored += Math.min(owed, Math.max(0, nowMs - readingMs) * rate);
    const start = startOf({ side, isTake, moved, old, limit, net, readingMs, nowMs, epochMs });
    if (start !== undefined) {
      const dueThen = runs.due - Math.max(0, nowMs - start.fromMs) * rate;
      if (start.k === 1) runs.most = Math.min(runs.most, runs.net - dueThen + start.allowedMilli);
      else runs.mostStored = Math.min(runs.mostStored, runs.netStored - dueThen + start.allowedMilli);
    }
    const stored = Math.max(0, (old?.tokensMilli ?? 0) - Math.max(0, limit.tokensMilli));
    const isAdjusted = side === "theirs" && !isTake && !moved && net > 0;
    const netStored = isAdjusted ? Math.min(net, stored) : net;
    runs.net += runs.jump !== undefined ? netStored : net;
    runs.netStored += netStored;
    if (!isTake || limit.isSoft || net <= 0) return undefined;
    // A slow pass that read more than it wants asks no more when it writes: a debit in between does not keep it out.
    if (side === "theirs" && moved && (old?.tokensMilli ?? 0) < 0) return undefined;
    const over = Math.max(runs.net - runs.due - runs.most, runs.netStored - runs.due - runs.mostStored);
    this.worst = Math.max(this.worst, over / limit.capacityMilli);
    if (over <= SLACK_MILLI) return undefined;
    return `${Math.ceil(over)} millitokens of ${limit.name} (${termsText(limit)}) were taken above the promise`;
  }
}

interface Start {
  readonly k: 1 | 2;
  readonly fromMs: number;
  readonly allowedMilli: number;
}

function startOf(given: {
  readonly side: Side;
  readonly isTake: boolean;
  readonly moved: boolean;
  readonly old: LimitReading | undefined;
  readonly limit: LimitReading;
  readonly net: number;
  readonly readingMs: number;
  readonly nowMs: number;
  readonly epochMs: number;
}): Start | undefined {
  const { side, isTake, moved, old, limit, net, readingMs, nowMs, epochMs } = given;
  const { capacityMilli } = limit;
  if (side === "ours") {
    // A give-back cuts nothing unless it rebases the bucket; nor does what touches another limit only.
    if (net <= 0 && !moved) return undefined;
    return { k: 1, fromMs: Math.min(readingMs, nowMs), allowedMilli: capacityMilli };
  }
  if (moved) {
    // What it leaves over the brim without a word is its own: two credits that met its pass.
    const spilled = Math.max(0, limit.tokensMilli + Math.max(0, net) - capacityMilli);
    return { k: 1, fromMs: Math.min(nowMs, epochMs), allowedMilli: capacityMilli + spilled };
  }
  if (net <= 0 || !isTake) return undefined;
  return { k: 2, fromMs: nowMs, allowedMilli: capacityMilli + Math.max(capacityMilli, old?.tokensMilli ?? 0) };
}

const LOTS = Number.POSITIVE_INFINITY;
/** What is carried below a millitoken, and the inexactness of the sums here. */
const SLACK_MILLI = 3;
