import type { Answer, CallContext, Claim } from "../../src/ports/bucket-store.ts";
import { ModelBucket } from "../kit/model-bucket.ts";
import { type Buckets, DRIFT, LATE_MAX_MS, type Process } from "./conditional-process.ts";
import type { Journal } from "./journal.ts";
import { shownKey } from "./operation.ts";

/** A take that has not been answered yet. */
export interface Open {
  readonly process: Process;
  readonly claims: readonly Claim[];
  readonly readingMs: number;
  /** By how much its clock had been put back when it began. */
  readonly steppedBackMs: number;
  /** At some moment since it began, not all of it fitted, or nobody can say. */
  wasShort: boolean;
}

/** Judges refusals: whether everything that was asked for was there all the time, and how old it may be what a process goes by. */
export class RefusalWatch {
  readonly #journal: Journal;
  /** The true time. */
  readonly #nowMs: () => number;
  readonly #buckets: Buckets;
  readonly #open = new Set<Open>();
  /** Debits that have not been answered yet. */
  readonly #debits = new Set<{ readonly process: Process; readonly bucketId: string }>();
  /** When each bucket was last written, in true time. */
  readonly #movedMs = new Map<string, number>();

  constructor(journal: Journal, nowMs: () => number, buckets: Buckets) {
    this.#journal = journal;
    this.#nowMs = nowMs;
    this.#buckets = buckets;
  }

  /** A bucket stands differently from now on. */
  moved(bucketId: string): void {
    this.#movedMs.set(bucketId, this.#nowMs());
    for (const open of this.#open) {
      if (!open.wasShort && open.claims.some(({ bucket }) => bucket.id === bucketId)) {
        open.wasShort = !this.#allFit(open.claims, open.readingMs);
      }
    }
  }

  /** A debit begins; answers what to call when it is over. */
  debiting(process: Process, bucketId: string): () => void {
    const debit = { process, bucketId };
    this.#debits.add(debit);
    return () => this.#debits.delete(debit);
  }

  opened(process: Process, claims: readonly Claim[], { nowMs }: CallContext): Open {
    // Whoever waits for another of its process may be refused by what that one saw, before this one began.
    const isAbout = (bucketId: string) => claims.some((claim) => claim.bucket.id === bucketId);
    const before =
      [...this.#debits].some((debit) => debit.process === process && isAbout(debit.bucketId)) ||
      [...this.#open].some(
        (other) => other.process === process && other.claims.some(({ bucket }) => isAbout(bucket.id)),
      );
    // Claims that leave together go by the latest of their readings, and by then another window may have begun.
    const hasWindows = claims.some(({ set }) => set.limits.some(({ schedule }) => schedule !== undefined));
    // And one that has not heard from the store for long reads its clock again.
    const isUnsure = before || hasWindows || !process.isTimeKnown();
    // A reading from before its clock was corrected counts as the latest that can be.
    const readingMs = Math.min(nowMs, process.latestServerMs());
    const { steppedBackMs } = process.clock;
    const wasShort = isUnsure || !this.#allFit(claims, readingMs);
    const open = { process, claims, readingMs, steppedBackMs, wasShort };
    this.#open.add(open);
    return open;
  }

  over(open: Open): void {
    this.#open.delete(open);
  }

  answered(open: Open, reply: readonly Answer[]): void {
    const { claims, process } = open;
    this.#judgeAge(open, reply);
    // Nobody is short of anything where all were aborted.
    const isRefused =
      reply.some(({ kind }) => kind === "short") &&
      reply.every(({ kind }) => kind === "short" || kind === "skipped" || kind === "unseen");
    if (!isRefused || open.wasShort || (process.denyMs > 0 && !this.#isStill(open))) return;
    // Corrected while it asked, it counts as having asked earlier.
    process.clock.now();
    if (process.clock.steppedBackMs !== open.steppedBackMs) return;
    const shown = claims.map(
      ({ bucket, take }, i) => `${shownKey(bucket.id)} ${reply[i]?.kind} ${JSON.stringify(take)}`,
    );
    this.#journal.violation(`refused although everything fits all the time: ${shown.join(", ")}`);
  }

  /** What is refused without being asked was seen within the time that a process may remember it, and says when. */
  #judgeAge({ process, claims, readingMs }: Open, reply: readonly Answer[]): void {
    for (const [i, answer] of reply.entries()) {
      if (answer.kind !== "short" || answer.seenAtMs === undefined) continue;
      this.#journal.count("claims short from memory");
      const ageMs = readingMs - answer.seenAtMs;
      if (ageMs >= 0 && ageMs < process.denyMs) continue;
      const { id } = (claims[i] as Claim).bucket;
      this.#journal.violation(
        `${shownKey(id)} refuses as it was ${ageMs} ms ago, and is remembered for ${process.denyMs}`,
      );
    }
  }

  /** Whether nothing happened to the buckets for longer than a process remembers them, and all of it fitted all the time. */
  #isStill({ process, claims, readingMs }: Open): boolean {
    const ageMs = Math.ceil(process.denyMs * (1 + DRIFT)) + LATE_MAX_MS;
    // Who was slow on the way to the store goes by the memory of when it began.
    const sinceMs = Math.min(this.#nowMs(), process.clock.trueMs(readingMs)) - ageMs;
    const isStill = claims.every(({ bucket }) => (this.#movedMs.get(bucket.id) ?? Number.NEGATIVE_INFINITY) < sinceMs);
    return isStill && this.#allFit(claims, readingMs - ageMs);
  }

  #allFit(claims: readonly Claim[], readingMs: number): boolean {
    return claims.every(({ bucket, set, origin, take, bypass, leavePercent = 0 }) => {
      if (bypass) return true;
      const shards = this.#buckets.shardsOf(bucket.id);
      if (shards.length === 0) {
        return new ModelBucket(set, origin, readingMs, this.#buckets.calendar).surelyFits(
          take,
          readingMs,
          leavePercent,
        );
      }
      const isKnown = shards.every((model) => readingMs < model.nextBoundaryMs && goesBy(model, set.limits));
      // Limits that were lowered and raised again look the same as before, and have cut what was there.
      const isMet = shards.every((model) => (origin.changeNumber ?? Number.NEGATIVE_INFINITY) <= model.metNumber);
      if (!isKnown || !isMet) return false;
      // Slots of a bucket in shards are held once they are joined.
      if (shards.length > 1 && set.limits.some(({ holdMs }) => holdMs !== undefined)) return false;
      return take.every(({ limit, milli }) => {
        const levels = shards.map((model) => model.limit(limit)?.levelMilli(readingMs) ?? 0n);
        const { soft, shadow } = shards[0]?.limit(limit)?.limit ?? {};
        if (soft || shadow) return true;
        // What one owes the others do not pay in thought; rounding is a millitoken each.
        if (levels.some((level) => level < 0n)) return false;
        const brim = shards.reduce((sum, model) => sum + (model.limit(limit)?.brimMilli ?? 0n), 0n);
        const floor = (brim * BigInt(leavePercent) + 99n) / 100n;
        // Slots are whole, and a bucket that has them is.
        const rounding = shards[0]?.limit(limit)?.limit.holdMs === undefined ? 2 * shards.length : 0;
        return levels.reduce((sum, level) => sum + level, 0n) >= BigInt(milli + rounding) + floor;
      });
    });
  }
}

function goesBy(model: ModelBucket, limits: readonly { readonly name: string }[]): boolean {
  return limits.every((limit) => JSON.stringify(model.limit(limit.name)?.limit) === JSON.stringify(limit));
}
