import type { Amount } from "../../domain/amounts.ts";
import type { BucketKey } from "../../domain/bucket-key.ts";
import type { BucketState } from "../../domain/bucket-state.ts";
import type { Held, WriteReply } from "../../ports/bucket-store.ts";
import type { Debited } from "../../ports/lease-change.ts";
import {
  atGiveBack,
  atWrite,
  countedOf,
  credited,
  debitAnswer,
  debited,
  type RuleContext,
  standing,
  toldBy,
} from "../../stored/bucket-rules.ts";
import type { ThresholdListeners } from "../../stored/threshold-listeners.ts";
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
    const before = atWrite(standing(this.#stateOf(held.bucket), held, context), context);
    const state = debited(before, held, amounts, context.nowMs);
    if (state === undefined) return { kind: "tooDeep" };
    this.#put(held.bucket, state);
    this.#count(held, amounts, 1);
    const told = toldBy({ before, after: state, amounts }, held, context);
    if (told !== undefined) this.#writes.push(() => this.#buckets.thresholds.tell(told));
    return debitAnswer(state, held, amounts, context);
  }

  credit(held: Held, amounts: readonly Amount[]): WriteReply {
    const context = this.#context;
    const before = this.#stateOf(held.bucket);
    // Also what comes too late for its period, or for a bucket that was full and is forgotten: it was not used.
    if (before !== undefined || this.#buckets.find(held.bucket) !== undefined) this.#count(held, amounts, -1);
    if (before === undefined) return { kind: "gone" };
    if (held.bypass) return { kind: "applied", state: before };
    const state = credited(atGiveBack(before, context), held, amounts, context.nowMs);
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
    this.#writes.push(() =>
      usage.count(this.#buckets.cellOf(bucket), countedOf(amounts, bypass), sign, this.#context.nowMs),
    );
  }
}
