import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import type { MachineClock } from "./connection.ts";

/** What the simulation knows of one process. */
export interface Process {
  readonly id: string;
  readonly clock: MachineClock;
  /** Never cuts more than needed. */
  readonly exact: boolean;
  /** So long it may refuse from memory. */
  readonly denyMs: number;
  /** By how much its clock may be off. */
  errorMaxMs(): number;
  /** Whether it heard the store's time lately; always, where it does not listen. */
  isTimeKnown(): boolean;
  /** The latest that the store's clock can show, as far as it knows; Infinity where it does not listen. */
  latestServerMs(): number;
  /** Whether its line to the store keeps to the time of a call: then so do the calls that are made of them. */
  readonly isTimely: boolean;
  /** Its calls are answered at once. */
  readonly direct: boolean;
  /** Its buckets, without anybody who watches. */
  readonly buckets: BucketStore;
  /** Resolves when it is gone. */
  readonly gone: Promise<void>;
  isAlive(): boolean;
  /** How often something went wrong on its line. */
  faults(): number;
  /** A call took as long as it may. */
  outwaited(call: string): void;
}

/** What the calls have to know of the buckets. */
export interface Buckets {
  /** The models of all shards of a bucket; none when there is none. */
  shardsOf(bucketId: string): readonly ModelBucket[];
  /** How often the bucket was removed. */
  removals(bucketId: string): number;
  readonly calendar: Calendar;
}

/** Of clocks, with room to spare. */
export const DRIFT = 0.001;

/** A call that was sent within the time has at least a millisecond, and a clock shows whole ones. */
export const LATE_MAX_MS = 3;
