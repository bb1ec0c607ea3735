import type { Amount } from "../domain/amounts.ts";
import { type BucketState, findLimit } from "../domain/bucket-state.ts";
import { isOfPeriod, type PeriodPin, type TakeMark } from "../domain/give-back.ts";
import type { ItemKey, ItemWrite, TracePart } from "../ports/item-store.ts";
import { namesOf, RF, SHARD_COUNT, VU, WCU } from "./attributes.ts";
import { type Image, numberOf } from "./codec.ts";
import { blankIntent, type Env } from "./intent.ts";
import { HUGE_MILLI, TOP_MILLI } from "./moves.ts";
import { broughtTo, epochAfter, toldAnew, writeAnew } from "./rebase.ts";
import { WriteBuilder } from "./write-builder.ts";

/** Something that comes back to one shard. */
export interface GiveBack {
  readonly readingMs: number;
  readonly amounts: readonly Amount[];
  readonly mark: TakeMark;
  /** Of how many shards the bucket was when something was taken: split since, it comes back to all of them. */
  readonly shardCount: number;
  readonly parts: readonly TracePart[];
}

/**
 * The write that gives back. It needs no image, no epoch and no cap: an addition is right at any epoch, and what rises over
 * the brim is cut off by the next take. What it needs is that the limit is in the period that something was taken in, and
 * that no boundary has been passed unseen, lest what comes back now is clipped by a window of before.
 *
 * With an image, limits that the amounts no longer belong to are left out: only their usage is taken back.
 */
export function creditForm(key: ItemKey, image: Image | undefined, back: GiveBack, env: Env): ItemWrite {
  if (image !== undefined && isPastBoundary(image, back.readingMs)) return creditAnew(image, back, env);
  const { readingMs, amounts, mark, parts } = back;
  const builder = new WriteBuilder().whereUnless(VU, ">", readingMs);
  builder.whereUnless(SHARD_COUNT, "=", image?.shardCount ?? back.shardCount);
  let isLeftOut = false;
  for (const { limit, milli } of amounts) {
    const names = namesOf(limit);
    if (image !== undefined && findLimit(image.state, limit) === undefined) {
      isLeftOut = true;
      continue;
    }
    builder.add(names.tc, -milli);
    if (image !== undefined && !belongs(image.state, limit, back, env)) {
      isLeftOut = true;
      continue;
    }
    const pin = pinOf(mark, limit);
    // Nothing was taken from a session that has not begun.
    if (pin !== undefined && pin.windowStartMs === undefined && !Number.isFinite(pin.untilMs)) continue;
    addTokens(builder, image, limit, milli);
    if (env.rules.creditPins) pinPeriod(builder, limit, pin);
    if (env.shared && image !== undefined) capCredit(builder, image, limit, milli, env);
  }
  // What does not belong there now may belong there again, once the limit is of another kind.
  if (isLeftOut && image !== undefined) builder.where(RF, "=", image.state.epochMs);
  builder.add(namesOf(WCU).tc, 1000).add(namesOf(WCU).tk, -1000);
  return builder.update(key, "exists", { form: "credit", readingMs, parts, spare: [] });
}

// Capacities may be as large as exact numbers go, and what comes back stands on top of them until it is cut off.
function addTokens(builder: WriteBuilder, image: Image | undefined, limit: string, milli: number): void {
  const { tk } = namesOf(limit);
  const mostMilli = TOP_MILLI - milli;
  const held = image === undefined ? undefined : findLimit(image.state, limit);
  if (held !== undefined && held.tokensMilli > mostMilli) {
    builder.where(tk, ">", mostMilli).set(tk, TOP_MILLI);
  } else if (milli > HUGE_MILLI) builder.where(tk, "<=", mostMilli).add(tk, milli);
  else builder.present(tk).add(tk, milli);
}

/** Whether time has done something else than drip since the item was written. */
function isPastBoundary({ item, state }: Image, readingMs: number): boolean {
  const vu = numberOf(item, VU);
  return readingMs >= state.validUntilMs || (vu !== undefined && vu <= readingMs);
}

function creditAnew(image: Image, back: GiveBack, env: Env): ItemWrite {
  const { readingMs, amounts, parts } = back;
  const atMs = epochAfter(image.state, readingMs, env);
  const counted = amounts.map(({ limit, milli }) => ({ limit, milli: -milli }));
  const intent = { ...blankIntent(readingMs), counted, parts };
  const anew = (state: BucketState) => broughtTo(state, undefined, readingMs, atMs, env);
  const told = toldAnew(image.state, anew, readingMs, atMs, env);
  const moves = amounts.flatMap(({ limit, milli }) =>
    belongs(told.state, limit, back, env) ? [{ limit, milli: -milli, mustFit: false }] : [],
  );
  const step = writeAnew(image, told, { ...intent, moves }, env);
  if (step.kind !== "write") throw new RangeError("Nothing is taken by a give-back; nothing can be short.");
  return step.write;
}

function belongs(state: BucketState, limit: string, { mark, readingMs }: GiveBack, { rules }: Env): boolean {
  const held = findLimit(state, limit);
  if (held === undefined) return false;
  return !rules.creditPins || isOfPeriod(held, mark, Math.max(readingMs, state.epochMs));
}

function pinOf({ pins }: TakeMark, limit: string): PeriodPin | undefined {
  return pins.find((pin) => pin.limit === limit);
}

// An item that meets these is in the period of the take: an epoch before its end, no reset by hand since, the same window.
// The rule itself need not be pinned, for whoever changes it counts that as a reset.
function pinPeriod(builder: WriteBuilder, limit: string, pin: PeriodPin | undefined): void {
  const { ra, rn, ws } = namesOf(limit);
  if (pin === undefined) {
    builder.where(ra, ">", 0);
    return;
  }
  builder.where(ra, "=", 0);
  if (pin.resets === 0) builder.absent(rn);
  else builder.where(rn, "=", pin.resets);
  if (pin.windowStartMs !== undefined) builder.where(ws, "=", pin.windowStartMs);
  else builder.absent(ws).where(RF, "<", pin.untilMs);
}

// The original spends what is stored, also over the brim. So what rises over it is marked, to be cut before it is spent.
function capCredit(builder: WriteBuilder, { item, state }: Image, limit: string, milli: number, env: Env): void {
  const held = findLimit(state, limit);
  if (held === undefined || !env.rules.sharedCreditMarks) return;
  const { tk, cp } = namesOf(limit);
  const mostMilli = held.terms.capacityMilli - milli;
  if (held.tokensMilli <= mostMilli) builder.asSeen(cp, item).asSeen(SHARD_COUNT, item).where(tk, "<=", mostMilli);
  else builder.set(VU, 0);
}
