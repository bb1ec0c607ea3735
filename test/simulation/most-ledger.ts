import type { Limit } from "../../src/domain/limits/limit.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import { capacityMost } from "../kit/model-terms.ts";

/** What one limit of a bucket goes by, and what was bought for it until its period ends. */
interface Held {
  /** None, where only shards that have not heard of its newest limits have it: a claim brings its own to the others. */
  readonly limit: Limit | undefined;
  readonly toppedUpMilli: bigint;
}

/** A bucket as it stood from an instant on; without limits: it does not exist. */
interface Standing {
  readonly fromMs: number;
  readonly limits: ReadonlyMap<string, Held>;
  /** By these readings what was bought is still there. */
  readonly untilMs: number;
  /** When its limits were read. */
  readonly asOfMs: number;
  /** The newest change of stored limits that it has gone through. */
  readonly metMs: number;
}

/** What was asked of one limit. */
export interface AskedOf {
  readonly bucketId: string;
  readonly limit: string;
  readonly milli: bigint;
  /** What must be left. */
  readonly leavePercent: bigint;
  /** By what it may have been asked: several, where it was not sent, or configuration may have been read since. */
  readonly by: readonly AskedBy[];
}

/** Limits with which something was asked. */
export interface AskedBy {
  /** All of the set. */
  readonly limits: readonly Limit[];
  /** When they were read, where they were sent. */
  readonly asOfMs: number;
  /** When they were last changed, where that is known. */
  readonly changedMs: number | undefined;
  /** Those that the ends of these leave, one after the other: an amount that one of them may hold is not too much for ever. */
  readonly later: readonly (readonly Limit[])[];
}

/** The time in which it was asked: from a true instant up to now, and the latest reading in it. */
export interface AskedWhen {
  readonly sinceMs: number;
  readonly readingMs: number;
}

/**
 * The most that each bucket can hold, and could: by every rule it went by, with what was bought. Only an amount above that is
 * never granted.
 */
export class MostLedger {
  readonly #standings = new Map<string, Standing[]>();
  readonly #shards = new Map<string, readonly ModelBucket[]>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /**
   * A bucket stands differently: by the models of all its shards, none when it is gone. A shard that has not heard of the newest
   * limits does with the next claim, so the bucket goes by those.
   */
  note(bucketId: string, shards: readonly ModelBucket[]): void {
    this.#shards.set(bucketId, shards);
    const limits = new Map<string, Held>();
    const [newest] = shards.toSorted((a, b) => b.origin.asOfMs - a.origin.asOfMs);
    for (const name of new Set(shards.flatMap(({ names }) => names))) {
      const toppedUpMilli = shards.reduce((sum, shard) => sum + (shard.limit(name)?.toppedUpMilli ?? 0n), 0n);
      limits.set(name, { limit: newest?.limit(name)?.limit, toppedUpMilli });
    }
    const untilMs = Math.min(Number.POSITIVE_INFINITY, ...shards.map(({ nextBoundaryMs }) => nextBoundaryMs));
    const asOfMs = Math.max(Number.NEGATIVE_INFINITY, ...shards.map(({ origin }) => origin.asOfMs));
    const metMs = Math.max(Number.NEGATIVE_INFINITY, ...shards.map((shard) => shard.metMs));
    const before = this.#standings.get(bucketId) ?? [];
    this.#standings.set(bucketId, [...before, { fromMs: this.#nowMs(), limits, untilMs, asOfMs, metMs }]);
  }

  /**
   * Whether it was certain, at some moment of that time, that a limit can never grant so much: by what the bucket went by, and
   * perhaps by the limits with which it was asked besides.
   */
  isNever(asked: AskedOf, by: "bucket" | "bucket and claim", { sinceMs, readingMs }: AskedWhen): boolean {
    return this.#during(asked.bucketId, sinceMs).some(({ limits, untilMs, asOfMs, metMs }) => {
      const { limit: held, toppedUpMilli: boughtMilli = 0n } = limits.get(asked.limit) ?? {};
      const toppedUpMilli = readingMs < untilMs ? boughtMilli : 0n;
      const isOver = (limit: Limit) => isAbove(limit, asked, toppedUpMilli);
      return asked.by.some((one) => {
        const own = one.limits.filter(({ name }) => name === asked.limit);
        // A claim whose limits are newer goes by its own, whatever a clock ahead has read; so does one for a bucket that is to be made.
        const isNewer = one.asOfMs >= asOfMs || (one.changedMs ?? Number.NEGATIVE_INFINITY) > metMs;
        const inForce = held === undefined ? own : isNewer ? [...own, held] : [held];
        const isOverThen = one.later.every((limits) =>
          limits.some((limit) => limit.name === asked.limit && isOver(limit)),
        );
        return inForce.some(isOver) && isOverThen && (by === "bucket" || own.some(isOver));
      });
    });
  }

  /** What a bucket in shards holds of a limit as a whole, some of them perhaps in debt; undefined: it is in one piece. */
  sharedMilli(bucketId: string, limit: string, readingMs: number): bigint | undefined {
    const shards = this.#shards.get(bucketId) ?? [];
    if (shards.length < 2) return undefined;
    return shards.reduce((sum, shard) => sum + (shard.limit(limit)?.levelMilli(readingMs) ?? 0n), 0n);
  }

  #during(bucketId: string, sinceMs: number): readonly Standing[] {
    const standings = this.#standings.get(bucketId) ?? [];
    const first = standings.findLastIndex(({ fromMs }) => fromMs < sinceMs);
    return first < 0 ? [NOTHING, ...standings] : standings.slice(first);
  }
}

const NOTHING: Standing = {
  ...{ fromMs: Number.NEGATIVE_INFINITY, limits: new Map() },
  ...{ untilMs: Number.POSITIVE_INFINITY, asOfMs: Number.NEGATIVE_INFINITY, metMs: Number.NEGATIVE_INFINITY },
};

/** Whether a limit holds less than an amount, and what must be left, in each of its windows, with what was bought. */
function isAbove(limit: Limit, { milli, leavePercent }: AskedOf, toppedUpMilli: bigint): boolean {
  const most = capacityMost(limit) + toppedUpMilli;
  return !limit.soft && !limit.shadow && milli + (most * leavePercent + 99n) / 100n > most;
}
