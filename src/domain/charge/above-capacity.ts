import { wholeTokens } from "../../bucket/level.ts";
import type { BucketKey } from "../bucket/bucket-key.ts";
import type { LimitState } from "../bucket/limit-state.ts";
import type { Demanded } from "../bucket/search.ts";
import { capacityMaxMilli } from "../limits/limit.ts";
import { ValidationError } from "../names/errors.ts";
import { plainText } from "../names/read-text.ts";

/** The error for an amount that a limit of a bucket, the asker's own or a parent's, can never grant. */
export function aboveCapacity(
  held: LimitState,
  { milli, leavePercent }: Demanded,
  bucket: BucketKey,
  askedBy: string,
): ValidationError {
  const whose = bucket.entityId === askedBy ? "the capacity is" : `its parent ${bucket.entityId} has a capacity of`;
  const boughtMilli = held.quota?.topUpMilli ?? 0;
  const bought = boughtMilli === 0 ? "" : ` and was topped up by ${wholeTokens(boughtMilli)}`;
  const leaving = leavePercent === 0 ? "" : ` with ${leavePercent} % to be left`;
  const never = (entityId: string, resource: string) =>
    `${milli / 1000} of "${held.name}"${leaving} for ${entityId} on ${resource} can never be granted`;
  const leaveLess = leavePercent === 0 ? "" : ", or leave less";
  const most = `${whose} ${wholeTokens(capacityMaxMilli(held.limit))}${bought}`;
  const told = never(plainText(askedBy), plainText(bucket.resource));
  return new ValidationError(
    "amount_above_capacity",
    `${never(askedBy, bucket.resource)}: ${most}. Ask for less${leaveLess}, or raise the limit.`,
    // The holder of a key must not read the capacity of its organisation.
    { publicDetail: `${told}${bucket.entityId === askedBy ? `: ${most}` : ""}. Ask for less${leaveLess}.` },
  );
}
