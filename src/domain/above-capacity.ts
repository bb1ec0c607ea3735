import { wholeTokens } from "../bucket/level.ts";
import type { BucketKey } from "./bucket-key.ts";
import { ValidationError } from "./errors.ts";
import { capacityMaxMilli } from "./limit.ts";
import type { LimitState } from "./limit-state.ts";

/** The error for an amount that a limit of a bucket, the asker's own or a parent's, can never grant. */
export function aboveCapacity(held: LimitState, milli: number, bucket: BucketKey, askedBy: string): ValidationError {
  const whose = bucket.entityId === askedBy ? "the capacity is" : `its parent ${bucket.entityId} has a capacity of`;
  const boughtMilli = held.quota?.topUpMilli ?? 0;
  const bought = boughtMilli === 0 ? "" : ` and was topped up by ${wholeTokens(boughtMilli)}`;
  const never = `${milli / 1000} of "${held.name}" for ${askedBy} on ${bucket.resource} can never be granted`;
  return new ValidationError(
    "amount_above_capacity",
    `${never}: ${whose} ${wholeTokens(capacityMaxMilli(held.limit))}${bought}. Ask for less, or raise the limit.`,
    // The holder of a key must not read the capacity of its organisation.
    bucket.entityId === askedBy ? {} : { publicDetail: `${never}. Ask for less.` },
  );
}
