import type {
  Batch,
  BatchBucket,
  BatchClaim,
  BatchReply,
  ClaimLevels,
  RequestReply,
  SeenRow,
} from "../ports/batch-store.ts";

/** The amounts that requests of one reading, one behind the other, ask of a bucket. */
interface Step {
  readonly nowMs: number;
  /** Null: nothing is asked of that level. */
  readonly amounts: (number | null)[];
}

/** A bucket of a batch, with what is asked of it. */
export interface Sum {
  /** The place of the bucket in the batch. */
  readonly bucket: number;
  readonly signature: string;
  readonly changeNumber: number;
  readonly requests: number;
  readonly steps: readonly Step[];
}

/** A bucket as a store has judged it. */
export interface JudgedSum {
  /** The row as the batch left it. */
  readonly row: SeenRow;
  /** The tokens before the first step, and after each, one step behind the other; undefined: there is not enough. */
  readonly tokensMilli: readonly (number | null)[] | undefined;
}

/** The answer of a store to a batch that it took together; `short`: somebody has not enough, and nothing was taken. */
interface JudgedTake {
  readonly kind: "applied" | "short";
  readonly repeated: boolean;
  readonly generation: number;
  readonly serverMs: number;
  /** By the place of the bucket in the batch. */
  readonly judged: readonly JudgedSum[];
}

/**
 * A batch of which the amounts are summed by bucket and reading; a store takes all of it, or nothing. Nothing is worked out here: the levels after
 * each reading are those of the store, and within one reading amounts only add up. It is a function of the batch alone.
 */
export class SummedTake {
  readonly #batch: Batch;
  /** By the place of the bucket in the batch. */
  readonly sums: readonly Sum[];

  private constructor(batch: Batch, sums: readonly Sum[]) {
    this.#batch = batch;
    this.sums = sums;
  }

  /** Undefined: the batch has to be judged request by request. */
  static of(batch: Batch): SummedTake | undefined {
    const { buckets, requests } = batch;
    const generation = requests[0]?.generation;
    if (generation === undefined || !buckets.every(isStoredOrNew)) return undefined;
    const sums: GrowingSum[] = new Array(buckets.length);
    for (const request of requests) {
      const { kind, draft, claims, nowMs, isNoted } = request;
      if (kind !== "take" || draft !== undefined || isNoted || request.generation !== generation) return undefined;
      for (const claim of claims) {
        // A claim that is refused leaves the row for the next one on the same bucket; that takes a look at each by itself.
        const isTwice = claims.length > 1 && claims.some((other) => other !== claim && other.bucket === claim.bucket);
        if (!claim.isSummable || isTwice || !isAdded(sums, claim, nowMs)) return undefined;
      }
    }
    // A bucket begins with whoever first takes from it; it is worked out anew for somebody with an earlier reading.
    const isBegun = buckets.every(({ brought }, i) => {
      const sum = sums[i];
      return sum !== undefined && (brought === undefined || begunMs(sum) >= brought.row.epochMs);
    });
    return isBegun ? new SummedTake(batch, sums) : undefined;
  }

  /** Undefined: somebody is short, and several requests have to be judged one by one. */
  replyOf({ kind, repeated, generation, serverMs, judged }: JudgedTake): DoneReply | undefined {
    const { requests } = this.#batch;
    const isApplied = kind === "applied";
    if (!isApplied && requests.length > 1) return undefined;
    const courses = judged.map((one, i) => new LevelCourse(one, this.sums[i] as Sum));
    const courseOf = ({ bucket }: BatchClaim) => courses[bucket] as LevelCourse;
    const replies = requests.map(({ claims, nowMs }): RequestReply => {
      if (isApplied) {
        return { kind: "applied", claims: claims.map((claim) => courseOf(claim).take(claim.amounts, nowMs)) };
      }
      const short = claims.map((claim) => courseOf(claim).isShort);
      return { kind: "short", short, claims: claims.map((claim) => courseOf(claim).levels()) };
    });
    const rows = judged.map(({ row }) => row);
    return { kind: "done", repeated, generation, changes: undefined, serverMs, rows, replies };
  }
}

type DoneReply = Extract<BatchReply, { readonly kind: "done" }>;

interface GrowingSum extends Sum {
  changeNumber: number;
  requests: number;
  readonly steps: Step[];
}

function isStoredOrNew({ brought }: BatchBucket): boolean {
  return brought === undefined || (brought.version === 0 && brought.left.length === 0);
}

/** The reading of the first request that takes from a bucket. */
export function begunMs({ steps }: Sum): number {
  return (steps[0] as Step).nowMs;
}

function isAdded(sums: GrowingSum[], { bucket, signature, changeNumber, amounts }: BatchClaim, nowMs: number): boolean {
  const sum = sums[bucket];
  if (sum === undefined) {
    sums[bucket] = { bucket, signature, changeNumber, requests: 1, steps: [{ nowMs, amounts: [...amounts] }] };
    return true;
  }
  if (sum.signature !== signature) return false;
  sum.requests++;
  sum.changeNumber = Math.max(sum.changeNumber, changeNumber);
  const step = sum.steps.at(-1) as Step;
  if (step.nowMs !== nowMs) {
    sum.steps.push({ nowMs, amounts: [...amounts] });
    return true;
  }
  for (const [k, milli] of amounts.entries()) if (milli !== null) step.amounts[k] = (step.amounts[k] ?? 0) + milli;
  return step.amounts.every((milli) => milli === null || Number.isSafeInteger(milli));
}

/** The levels of a bucket, request by request. */
class LevelCourse {
  readonly #given: readonly (number | null)[] | undefined;
  readonly #steps: readonly Step[];
  readonly #count: number;
  #tokens: number[];
  #step = -1;
  /** The amounts of this step that are still to be taken. */
  #left: (number | null)[] = [];

  constructor({ row, tokensMilli }: JudgedSum, { steps }: Sum) {
    this.#given = tokensMilli;
    this.#steps = steps;
    this.#count = row.tokensMilli.length;
    this.#tokens = (tokensMilli?.slice(0, this.#count) ?? [...row.tokensMilli]) as number[];
  }

  get isShort(): boolean {
    return this.#given === undefined;
  }

  levels(): ClaimLevels {
    return { tokensMilli: [...this.#tokens], windows: undefined, validUntilMs: undefined };
  }

  /** The levels after the next request. What is over the brim is cut off when a limit is first taken from in a step, and then amounts add up. */
  take(amounts: BatchClaim["amounts"], nowMs: number): ClaimLevels {
    if (this.#steps[this.#step]?.nowMs !== nowMs) this.#left = [...(this.#steps[++this.#step] as Step).amounts];
    for (const [k, milli] of amounts.entries()) {
      if (milli === null) continue;
      const left = (this.#left[k] as number) - milli;
      this.#left[k] = left;
      this.#tokens[k] = (this.#given?.[(this.#step + 1) * this.#count + k] as number) + left;
    }
    return this.levels();
  }
}

/** After batches in which somebody was short, at most so many are judged one by one without a try to take them together. */
const UNTRIED_MAX = 16;

/** Remembers how batches of a lane fared that were taken together: where many are refused, the try would mostly be lost. */
export class SummedTries {
  /** The number of batches that are still judged one by one, and of those the next time that somebody is short. */
  #untried = 0;
  #untriedNext = 1;

  /** A repeat has to be remembered, which the general take does. One request alone is answered together also where it is short. */
  isWorthIt({ isRepeat, requests }: Batch): boolean {
    if (isRepeat) return false;
    if (requests.length === 1 || this.#untried === 0) return true;
    this.#untried--;
    return false;
  }

  /** `other`: the answer of the general take, where the batch was not taken together. */
  note({ requests }: Batch, other: BatchReply | undefined): void {
    // Where configuration has moved on, nothing is known of who would have been short.
    if (requests.length === 1 || (other?.kind === "done" && other.changes !== undefined)) return;
    if (other !== undefined) this.#untried = this.#untriedNext;
    this.#untriedNext = other === undefined ? 1 : Math.min(UNTRIED_MAX, 2 * this.#untriedNext);
  }
}
