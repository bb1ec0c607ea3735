import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import type { ThresholdListeners } from "../../domain/bucket/mark-keeper.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import type { Held, RenewReply, WriteReply } from "../../ports/bucket-store.ts";
import type { Debited } from "../../ports/lease-change.ts";
import {
  atGiveBack,
  atWrite,
  countedOf,
  countedOfCredit,
  countedOfTime,
  credited,
  debitAnswer,
  debited,
  heldCounts,
  type RuleContext,
  renewedSlots,
  type SlotsBack,
  standingOfLease,
  toldBy,
} from "../../stored/bucket-rules.ts";
import type { BucketCell } from "./data.ts";
import type { UsageCounter } from "./hour-usage.ts";

/** What a draft needs of the buckets of its namespace. */
export interface DraftedBuckets {
  /** Undefined where no usage is kept. */
  readonly usage: UsageCounter | undefined;
  find(key: BucketKey): BucketCell | undefined;
  /** The cell of a bucket, made where there is none. */
  cellOf(key: BucketKey): BucketCell;
  contextAt(nowMs: number): RuleContext;
  readonly thresholds: ThresholdListeners;
}

/** Debits and credits that are made together: each is worked out on what those before it left; `commit` writes all of them. */
export class BucketDraft {
  readonly #buckets: DraftedBuckets;
  readonly #context: RuleContext;
  readonly #states = new Map<string, BucketState>();
  readonly #writes: (() => void)[] = [];

  constructor(buckets: DraftedBuckets, nowMs: number) {
    this.#buckets = buckets;
    this.#context = buckets.contextAt(nowMs);
  }

  debit(held: Held, amounts: readonly Amount[]): Debited {
    const context = this.#context;
    const seen = this.#stateOf(held.bucket);
    const before = atWrite(standingOfLease(seen, held, context), context);
    const state = debited(before, held, amounts, context.nowMs);
    if (state === undefined) return { kind: "tooDeep" };
    this.#countAs(held.bucket, countedOfTime(seen, before), 1);
    this.#put(held.bucket, state);
    this.#countAs(held.bucket, countedOf(amounts, held.bypass), 1);
    const told = toldBy({ before, after: state, amounts }, held, context);
    if (told !== undefined) this.#writes.push(() => this.#buckets.thresholds.tell(told));
    return debitAnswer(state, held, amounts, context);
  }

  credit(held: Held, amounts: readonly Amount[], slots: SlotsBack): WriteReply {
    const context = this.#context;
    const { bucket, bypass } = held;
    const before = this.#stateOf(bucket);
    const due = before === undefined || bypass ? before : atGiveBack(before, bucket, context);
    if (due !== undefined) this.#countAs(bucket, countedOfTime(before, due), 1);
    // Also what comes too late for its period, or for a bucket that was full and is forgotten: it was not used.
    if (due !== undefined || this.#buckets.find(bucket) !== undefined) {
      this.#countAs(bucket, countedOfCredit(due, held, amounts, slots, context.nowMs), -1);
    }
    if (due === undefined) return { kind: "gone" };
    if (bypass) return { kind: "applied", state: due };
    const state = credited(due, held, amounts, context.nowMs);
    this.#put(bucket, state);
    return { kind: "applied", state };
  }

  renew(held: Held, amounts: readonly Amount[]): RenewReply {
    const before = this.#stateOf(held.bucket);
    if (before === undefined) return { kind: "lost" };
    const due = atGiveBack(before, held.bucket, this.#context);
    const renewed = renewedSlots(due, held, amounts, this.#context.nowMs);
    // Nothing is written: holds that ended meanwhile are counted by whoever writes next.
    if (renewed === undefined) return { kind: "lost" };
    this.#countAs(held.bucket, [...countedOfTime(before, due), ...heldCounts(renewed.times)], 1);
    this.#put(held.bucket, renewed.state);
    return { kind: "renewed", ticket: renewed.ticket };
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

  #countAs(bucket: BucketKey, amounts: readonly CountedAmount[], sign: 1 | -1): void {
    const { usage } = this.#buckets;
    // Nothing makes no entry in the usage of an hour.
    if (usage === undefined || amounts.every(({ milli }) => milli === 0)) return;
    this.#writes.push(() => usage.count(this.#buckets.cellOf(bucket), amounts, sign, this.#context.nowMs));
  }
}
