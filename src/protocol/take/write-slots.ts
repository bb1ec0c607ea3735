import type { LimitState } from "../../domain/bucket/bucket-state.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { namesOf, RF } from "../item/attributes.ts";
import { numberOf } from "../item/codec.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import type { Env } from "./intent.ts";
import { passedMove } from "./sides.ts";
import { hasSlices, slicesAfter, writeSlices } from "./slots.ts";
import { type LimitWrite, type Written, type WrittenLimit, writeTokens } from "./write-limit.ts";

/** One limit of a write: what is free of it, and, where slots are held, in which slices the others are. */
export function writeLimit(builder: WriteBuilder, asked: LimitWrite, written: Written, env: Env): WrittenLimit {
  const { before, after } = asked.fold;
  const of = after?.limit.shadow && asked.move !== undefined ? passedMove(builder, asked, after, written) : asked;
  if (of === "left" || of === "short") return of;
  // A renewal says itself that it is of slots: where the limit is another kind by now, it is short, and not nothing.
  const isOfSlots =
    asked.move?.slots !== undefined || [before, after].some((one) => one !== undefined && hasSlices(one));
  if (after !== undefined && isOfSlots) return writeSlots(builder, of, after, written, env);
  if (before !== undefined) pinSlices(builder, before);
  return writeTokens(builder, of, written, env);
}

/** Of a limit that is forgotten: how long its slots were held is counted by what was seen of them. */
function pinSlices(builder: WriteBuilder, { name, slices }: LimitState): void {
  const { held } = namesOf(name);
  for (const { place, heldMilli } of slices) builder.where(held[place] as string, "=", heldMilli);
}

function writeSlots(
  builder: WriteBuilder,
  of: LimitWrite,
  after: LimitState,
  written: Written,
  env: Env,
): WrittenLimit {
  const { item, fold, move, refill } = of;
  // A clock behind the epoch takes at the epoch.
  const atMs = Math.max(of.atMs, numberOf(item, RF) ?? of.atMs);
  const slices = slicesAfter(after, move, atMs, written.heldMs);
  // Of a bucket that is in shards nothing is held: they are joined first.
  const isHeld = move !== undefined && move.milli > 0 && rulesOf(after.limit).holdsSlots;
  if (slices === undefined || (isHeld && after.part !== undefined)) return "short";
  const isRenewal = move?.slots !== undefined && move.milli === 0;
  const limit = isRenewal ? unmoved(builder, of, after, written, env) : writeTokens(builder, of, written, env);
  if (typeof limit === "string") return limit;
  writeSlices(builder, { name: limit.name, slices: fold.before?.slices ?? [] }, slices, move);
  return refill === undefined ? { ...limit, slices } : limit;
}

/** Nothing is taken by a renewal; where the epoch moves, time acts on what is free. */
function unmoved(builder: WriteBuilder, of: LimitWrite, after: LimitState, written: Written, env: Env): WrittenLimit {
  return of.refill === undefined ? writeTokens(builder, { ...of, move: undefined }, written, env) : after;
}
