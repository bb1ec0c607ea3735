import type { ItemKey, ItemWrite } from "../../ports/item-store.ts";
import type { Image } from "../item/codec.ts";
import { laterOf, type Seen } from "../process/bucket-cache.ts";
import type { End, Ended, Event, ReadAction, SheetAction, Turn, WriteAction } from "../process/machine.ts";
import { OUTRUN_AT_ONCE_MAX } from "../process/retry-policy.ts";

/*
 * A give-back to one shard, as a machine without I/O.
 *
 *   ┌───────┐ failed  ┌──────────┐ failed: again, by the image it showed; from the fifth on after a pause
 *   │ guess │ ──────▶ │ verified │ ◀───┐
 *   └───────┘         └──────────┘ ────┘
 *       │ applied           │ applied, gone: settled
 *       ▼                   ▼
 *   settled   applied       the tokens are back
 *             gone          there is no such bucket any more
 *             outgrown      it is not the place any more: the shards were split or joined, or others have filled this one
 *             unavailable   unknown: the answer was lost. It may have been applied, so it is never sent again.
 *                           no: every answer proved that nothing was written, until the time was used up.
 *
 * A give-back has no nonce, so there is no ambiguous phase: a lost answer ends it, unless it comes late. What was refused (throttled, a conflict,
 * not reachable) certainly was not written: the driver sends it again until the time is used up.
 */
export type CreditPhase =
  /** The cache, or nothing at all, will do: an addition needs no image. */
  | { readonly at: "guess" }
  | { readonly at: "verified"; readonly seen: Seen }
  /** The store could not be read, or others were faster again and again: wait, then go on with `seen`. */
  | { readonly at: "pausing"; readonly seen: Seen | undefined }
  | { readonly at: "settled"; readonly result: CreditResult };

export type CreditResult =
  | { readonly kind: "applied"; readonly image: Image }
  | { readonly kind: "gone" }
  | { readonly kind: "outgrown" }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

export interface CreditProgress {
  readonly phase: CreditPhase;
  /** The number of writes that found the item changed. */
  readonly outruns: number;
  /** Why it could not be read; undefined if others were only faster. */
  readonly cause: unknown;
}

export interface CreditPlan {
  readonly key: ItemKey;
  readonly readingMs: number;
  readonly needsImage: boolean;
  /** True if the shard, as the image shows it, can still take the amounts. */
  isPlace(image: Image): boolean;
  /** The closed hour that must be on its sheet first. */
  sheetFor(image: Image): SheetAction | undefined;
  writeFor(image: Image | undefined): ItemWrite;
}

interface CreditFacts extends Turn {
  readonly cached: Seen | undefined;
}

export type CreditAction = ReadAction | WriteAction | SheetAction | { readonly do: "pause" };

export const START_CREDIT: CreditProgress = { phase: { at: "guess" }, outruns: 0, cause: undefined };

export function creditEnded({ phase }: CreditProgress): Ended<CreditResult> | undefined {
  return phase.at === "settled" ? phase : undefined;
}

export function nextCredit(
  progress: CreditProgress,
  facts: CreditFacts,
  plan: CreditPlan,
): CreditAction | End<CreditResult> {
  const { phase } = progress;
  const { key, readingMs, needsImage } = plan;
  if (phase.at === "settled") return { do: "end", result: phase.result };
  if (facts.over !== undefined) {
    const cause =
      progress.cause ?? new Error("The bucket changed at each attempt to give back until the time was used up.");
    return { do: "end", result: { kind: "unavailable", applied: "no", cause } };
  }
  if (phase.at === "pausing") return { do: "pause" };
  const seen = seenBy(phase, facts.cached);
  if (seen?.image === undefined && phase.at === "verified") {
    return { do: "end", result: { kind: key.shard === 0 ? "gone" : "outgrown" } };
  }
  const image = seen?.image;
  const read: ReadAction = { do: "read", keys: [key], consistent: true, atMs: readingMs, sets: undefined };
  if (image === undefined && needsImage) return read;
  if (image !== undefined && !plan.isPlace(image)) return { do: "end", result: { kind: "outgrown" } };
  const sheet = image === undefined ? undefined : plan.sheetFor(image);
  // The image may be old: the entity may have been deleted since, and its usage with it.
  if (sheet !== undefined) return phase.at === "verified" ? sheet : read;
  return { do: "write", write: plan.writeFor(image), atMs: readingMs, set: undefined };
}

export function onCredit(progress: CreditProgress, action: CreditAction, event: Event): CreditProgress {
  const { phase } = progress;
  switch (action.do) {
    case "pause": {
      const seen = phase.at === "pausing" ? phase.seen : undefined;
      return { ...progress, phase: seen === undefined ? { at: "guess" } : { at: "verified", seen } };
    }
    case "read": {
      if (event.kind === "unread")
        return { ...progress, phase: { at: "pausing", seen: undefined }, cause: event.cause };
      const [seen] = event.kind === "read" ? event.seen : [];
      return seen === undefined ? progress : { ...progress, phase: { at: "verified", seen } };
    }
    case "write":
      return onWrite(progress, event);
    default:
      return progress;
  }
}

function onWrite(progress: CreditProgress, event: Event): CreditProgress {
  const settled = (result: CreditResult): CreditProgress => ({ ...progress, phase: { at: "settled", result } });
  switch (event.kind) {
    case "applied":
      return settled({ kind: "applied", image: event.seen.image as Image });
    case "failed": {
      const { seen } = event;
      const outruns = progress.outruns + 1;
      const pauses = outruns > OUTRUN_AT_ONCE_MAX && seen.image !== undefined;
      return { phase: { at: pauses ? "pausing" : "verified", seen }, outruns, cause: undefined };
    }
    case "refused":
      return settled({ kind: "unavailable", applied: "no", cause: event.cause });
    case "unknown":
      return settled({ kind: "unavailable", applied: "unknown", cause: event.cause });
    default:
      return progress;
  }
}

// A cached image of an eventually consistent read may be older than the take itself.
function seenBy(phase: CreditPhase, cached: Seen | undefined): Seen | undefined {
  const known = cached?.eventuallyConsistent ? undefined : cached;
  return phase.at === "verified" ? laterOf(phase.seen, known) : known;
}
