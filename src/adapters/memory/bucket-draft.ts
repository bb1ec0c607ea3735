import type { Amount } from "../../domain/amounts.ts";
import type { BucketKey } from "../../domain/bucket-key.ts";
import { acrossBoundaries, advanced, type BucketState, debitFrom, touched } from "../../domain/bucket-state.ts";
import type { Calendar } from "../../domain/calendar.ts";
import { giveBack, PLAIN_TICKET, ticketOf } from "../../domain/give-back.ts";
import type { SourcedLimits } from "../../domain/limited-bucket.ts";
import type { Held, WriteReply } from "../../ports/bucket-store.ts";
import type { Debited } from "../../ports/lease-change.ts";
import type { BucketCell } from "./data.ts";
import type { UsageCounter } from "./hour-usage.ts";

/** What a draft needs of the buckets of its namespace. */
export interface DraftedBuckets {
  readonly calendar: Calendar;
  /** Undefined where no usage is kept. */
  readonly usage: UsageCounter | undefined;
  find(key: BucketKey): BucketCell | undefined;
  /** The cell of a bucket, made where there is none. */
  cellOf(key: BucketKey): BucketCell;
  /** The bucket as it stands for those limits. */
  standing(state: BucketState | undefined, of: SourcedLimits, nowMs: number): BucketState;
}

/** Debits and credits that are made together: each is worked out on what those before it left; `commit` writes all of them. */
export class BucketDraft {
  readonly #buckets: DraftedBuckets;
  readonly #nowMs: number;
  readonly #states = new Map<string, BucketState>();
  readonly #writes: (() => void)[] = [];

  constructor(buckets: DraftedBuckets, nowMs: number) {
    this.#buckets = buckets;
    this.#nowMs = nowMs;
  }

  debit(held: Held, amounts: readonly Amount[]): Debited {
    const { bucket, bypass } = held;
    const standing = this.#buckets.standing(this.#stateOf(bucket), held, this.#nowMs);
    // The lease may go by limits that were changed since. The change counts from this write on, as it goes by the old ones.
    const before = advanced(standing, this.#nowMs, this.#buckets.calendar);
    const state = bypass ? touched(before) : debitFrom(before, amounts, this.#nowMs);
    if (state === undefined) return { kind: "tooDeep" };
    this.#put(bucket, state);
    this.#count(held, amounts, 1);
    if (bypass) return { kind: "applied", state };
    const ticket = ticketOf(state, amounts, this.#nowMs, this.#buckets.calendar);
    return ticket === PLAIN_TICKET ? { kind: "applied", state } : { kind: "applied", state, ticket };
  }

  credit(held: Held, amounts: readonly Amount[]): WriteReply {
    const before = this.#stateOf(held.bucket);
    // Also what comes too late for its period, or for a bucket that was full and is forgotten: it was not used.
    if (before !== undefined || this.#buckets.find(held.bucket) !== undefined) this.#count(held, amounts, -1);
    if (before === undefined) return { kind: "gone" };
    if (held.bypass) return { kind: "applied", state: before };
    const now = acrossBoundaries(before, this.#nowMs, this.#buckets.calendar);
    const state = giveBack(now, amounts, held.ticket, this.#nowMs);
    this.#put(held.bucket, state);
    return { kind: "applied", state };
  }

  commit(): void {
    for (const write of this.#writes) write();
  }

  #stateOf(bucket: BucketKey): BucketState | undefined {
    const drafted = this.#states.get(bucket.id);
    if (drafted !== undefined) return drafted;
    const cell = this.#buckets.find(bucket);
    // Its state is handed out: from now on it stays as it is.
    if (cell !== undefined) cell.owned = undefined;
    return cell?.state;
  }

  #put(bucket: BucketKey, state: BucketState): void {
    this.#states.set(bucket.id, state);
    this.#writes.push(() => {
      this.#buckets.cellOf(bucket).state = state;
    });
  }

  #count({ bucket, bypass }: Held, amounts: readonly Amount[], sign: 1 | -1): void {
    const { usage } = this.#buckets;
    // Nothing makes no entry in the usage of an hour.
    if (usage === undefined || amounts.every(({ milli }) => milli === 0)) return;
    this.#writes.push(() => usage.count(this.#buckets.cellOf(bucket), amounts, sign, bypass, this.#nowMs));
  }
}
