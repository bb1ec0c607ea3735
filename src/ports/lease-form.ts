import type { BucketState } from "../domain/bucket/bucket-state.ts";
import type { LeaseWrite } from "./lease-write.ts";

/** How a draft that was written down as data is read; handed to a store when it is opened. */
export interface LeaseForm {
  /** What the take would have written down: the same at any time and in any process. */
  writeOf(draft: { readonly leaseId: string | undefined; readonly text: string }, taken: DraftedTake): LeaseWrite;
}

/** What became of the take of a draft. */
export interface DraftedTake {
  /** The reading that it went by. */
  readonly nowMs: number;
  /** The bucket right after it, by the id of the bucket. */
  stateOf(bucketId: string): BucketState;
  /** The shadows that would have refused it, by the id of the bucket. */
  shadowedOf(bucketId: string): readonly string[];
}
