import type { LimitSet, SetOrigin } from "../limits/limit-set.ts";
import type { BucketKey } from "./bucket-key.ts";

/** Limits as one process knows them, and where it has them from. */
export interface SourcedLimits {
  readonly set: LimitSet;
  readonly origin: SetOrigin;
}

/** A bucket, and the limits that a request for it goes by; those that the bucket holds may be older or newer. */
export interface LimitedBucket extends SourcedLimits {
  readonly bucket: BucketKey;
}
