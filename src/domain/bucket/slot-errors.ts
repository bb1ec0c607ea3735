import { ValidationError } from "../names/errors.ts";
import type { BucketKey } from "./bucket-key.ts";

export function topUpOfSlots(limit: string, { entityId, resource }: BucketKey): ValidationError {
  return new ValidationError(
    "top_up_concurrent",
    `"${limit}" of ${entityId} on ${resource} says how many are at once and has no balance to fill; raise the limit instead.`,
  );
}

export function adjustOfSlots(
  limit: string,
  { entityId, resource }: Pick<BucketKey, "entityId" | "resource">,
): ValidationError {
  return new ValidationError(
    "adjust_concurrent",
    `"${limit}" of ${entityId} on ${resource} says how many are at once, which an adjustment cannot exceed; ` +
      "take more slots with lease.consume, which may be refused.",
  );
}

export function holdNeeded(
  limit: string,
  { entityId, resource }: Pick<BucketKey, "entityId" | "resource">,
): ValidationError {
  return new ValidationError(
    "hold_needed",
    `"${limit}" of ${entityId} on ${resource} says how many are at once, and holdMs is 0: slots are held, and not charged at once. Give a holdMs of 1000 or more, or none.`,
  );
}
