import { acrossBoundaries, assembled, type BucketState, findLimit } from "../../domain/bucket/bucket-state.ts";
import {
  hasSlots,
  isSlotPin,
  pinOf,
  type QuotaPin,
  quotaPinOf,
  type SlotPin,
  type Ticket,
} from "../../domain/bucket/give-back.ts";
import { givenBack } from "../../domain/bucket/holds.ts";
import { heldFor } from "../../domain/bucket/slot-time.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import { HOUR_MS } from "../../domain/charge/usage.ts";
import type { Clause, ItemKey, ItemWrite, TracePart } from "../../ports/item-store.ts";
import { namesOf, RF, RQ, SHARD_COUNT, TTL, UH, VU, WCU } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { epochAfter, rebase, withLimitsAt, writeRebased } from "../take/forms.ts";
import { blankIntent, type Env, type Move, NO_USAGE, type UsageDelta } from "../take/intent.ts";
import { pinEpoch, STORED_MAX_MILLI, UNCHECKED_MAX_MILLI } from "../take/moves.ts";
import { hourNumber, rollTo, usageUntilS } from "../usage/hours.ts";
import { belongs, roomFor } from "./place.ts";

/** A give-back to one shard. */
export interface GiveBack {
  readonly readingMs: number;
  readonly amounts: readonly Amount[];
  readonly ticket: Ticket;
  /** The part of the amounts that the limits must have room for. */
  readonly bounded: readonly Amount[];
  readonly parts: readonly TracePart[];
  /** The request was let through by a bypass: nothing was debited, so only its usage is taken back. */
  readonly bypass: boolean;
  /** Requests to undo, and their overdrafts, 1000 each. */
  readonly requests: number;
  readonly overdrafts: readonly Amount[];
  /** Refusals by shadows to undo, 1000 each. */
  readonly wouldRefuse: readonly Amount[];
  /** Sessions whose window was opened by the request to undo. */
  readonly opened: readonly string[];
  /** The slots were used: usage keeps them. */
  readonly slotsUsed: boolean;
  /** True if usage counts how long slots were held: not if the whole request is undone. */
  readonly countsTime: boolean;
  readonly sheeted: number | undefined;
}

/** The slice of the ticket that holds slots of a limit; undefined if the limit holds no slots. */
function slotPinOf(ticket: Ticket, limit: string): SlotPin | undefined {
  const pin = pinOf(ticket, limit);
  return isSlotPin(pin) ? pin : undefined;
}

/** True if only slots are given back: then boundaries that were passed meanwhile do not matter. */
function isOnlySlots({ amounts, ticket }: Pick<GiveBack, "amounts" | "ticket">): boolean {
  return amounts.length > 0 && amounts.every(({ limit }) => slotPinOf(ticket, limit) !== undefined);
}

/** True if a hold is over by the reading: it has ended by itself, and is counted so. */
export function isOverBy({ amounts, ticket }: Pick<GiveBack, "amounts" | "ticket">, readingMs: number): boolean {
  return amounts.some(({ limit }) => (slotPinOf(ticket, limit)?.endMs ?? Number.POSITIVE_INFINITY) <= readingMs);
}

function isHeldIn(state: BucketState, pin: SlotPin, milli: number): boolean {
  const held = findLimit(state, pin.limit);
  return held !== undefined && hasSlots(held, pin) && givenBack(held.slices, pin, milli) !== undefined;
}

/**
 * Gives slots back into their own slice, or nowhere: it may have ended, and its place may hold other slots. No epoch is needed:
 * place, end and beginning identify the slice. If the image lacks the slice, the write only checks that: a take that landed late
 * may not be in the image yet, and its slot would stay held until its end.
 */
function addSlots(
  builder: WriteBuilder,
  image: Image | undefined,
  { milli, pin }: { readonly milli: number; readonly pin: SlotPin },
  { readingMs, countsTime }: GiveBack,
): void {
  if (image !== undefined && !isHeldIn(image.state, pin, milli)) {
    builder.any(goneFrom(pin, milli));
    return;
  }
  const { tk, rn, hu, ends, held } = namesOf(pin.limit);
  const inSlice = held[pin.place] as string;
  builder.where(ends[pin.place] as string, "=", pin.endMs).where(inSlice, ">=", milli);
  if (pin.resets === 0) builder.absent(rn);
  else builder.where(rn, "=", pin.resets);
  builder.add(tk, milli).add(inSlice, -milli);
  if (countsTime) builder.add(hu, heldFor(pin.limit, milli, readingMs - pin.sinceMs).milli);
}

/** Slots are not held in the slice of their ticket: another slice or none has its place, too little is held, or the limit was reset. */
function goneFrom({ limit, place, endMs, resets }: SlotPin, milli: number): Clause {
  const { rn, ends, held } = namesOf(limit);
  const [end, inSlice] = [ends[place] as string, held[place] as string];
  const anew: Clause =
    resets === 0
      ? [{ name: rn, is: "present" }]
      : [
          { name: rn, is: "absent" },
          { name: rn, is: "<>", value: resets },
        ];
  return [
    { name: end, is: "absent" },
    { name: end, is: "<>", value: endMs },
    { name: inSlice, is: "absent" },
    { name: inSlice, is: "<", value: milli },
    ...anew,
  ];
}

/** The amounts that usage does not keep. */
function uncounted({ amounts, ticket, slotsUsed }: GiveBack): readonly Amount[] {
  return slotsUsed ? amounts.filter(({ limit }) => slotPinOf(ticket, limit) === undefined) : amounts;
}

/** Counts the time that the slots were held, by the state of the bucket. */
function timesBack(state: BucketState, back: GiveBack): readonly CountedAmount[] {
  if (!back.countsTime) return [];
  return back.amounts.flatMap(({ limit, milli }) => {
    const pin = slotPinOf(back.ticket, limit);
    if (pin === undefined || !isHeldIn(state, pin, milli)) return [];
    return [heldFor(limit, milli, Math.max(back.readingMs, state.epochMs) - pin.sinceMs)];
  });
}

/**
 * The write that gives back. It needs no image, no epoch and no upper bound: an addition is right at any epoch, and the next take
 * cuts the overflow off. Its condition says that the limit is still in the period of the take, and that no boundary was passed
 * unseen: otherwise a window that is over would cut what is given back now.
 *
 * With an image, limits that the amounts no longer belong to are left out: only their usage is taken back.
 */
export function creditForm(key: ItemKey, image: Image | undefined, back: GiveBack, env: Env): ItemWrite {
  const { readingMs, amounts, ticket, parts, bypass } = back;
  if (image !== undefined && mustRebase(image, back, env)) return rebasedCredit(image, back, env);
  const builder = new WriteBuilder();
  if (!bypass) {
    // Slots go into their own slice or nowhere, whatever boundary was passed.
    if (!isOnlySlots(back)) {
      if (image === undefined || !isAnnounced(image, env)) builder.whereUnless(VU, ">", readingMs);
      // By the image no boundary was passed, and the mark stays for processes that read configuration.
      else pinEpoch(builder.where(VU, "=", 0), image);
    }
    builder.whereUnless(SHARD_COUNT, "=", image?.shardCount ?? 1);
  }
  let isLeftOut = false;
  for (const { limit, milli } of amounts) {
    const isThere = image === undefined || findLimit(image.state, limit) !== undefined;
    const slots = slotPinOf(ticket, limit);
    // Usage is taken back even if the limit is gone, or the give-back too late for its tokens.
    const isUncounted = isThere || env.dialect.countsByHour;
    if (isUncounted && (slots === undefined || !back.slotsUsed)) builder.add(namesOf(limit).tc, -milli);
    if (bypass) continue;
    if (slots !== undefined) {
      addSlots(builder, image, { milli, pin: slots }, back);
      continue;
    }
    if (!isThere) {
      isLeftOut = true;
      continue;
    }
    if (image !== undefined && !isOfTake(image.state, limit, back, env)) {
      isLeftOut = true;
      continue;
    }
    const pin = quotaPinOf(ticket, limit);
    // Nothing was taken from a session that has not begun.
    if (pin !== undefined && pin.windowStartMs === undefined && !Number.isFinite(pin.untilMs)) continue;
    addTokens(builder, image, limit, milli);
    pinPeriod(builder, limit, pin);
    if (image !== undefined) env.dialect.capCredit(builder, image, { limit, milli });
  }
  // An amount that does not belong now may belong again once the limit has changed. The room depends on the epoch too.
  if (image !== undefined && (isLeftOut || back.bounded.length > 0)) pinEpoch(builder, image);
  if (image !== undefined) for (const [tk, milli] of bounds(image, back, env)) builder.where(tk, "<=", milli);
  if (env.dialect.countsByHour) countBack(builder, image, back, env);
  else if (bypass) for (const { limit } of amounts) builder.present(namesOf(limit).tk);
  builder.add(namesOf(WCU).tc, 1000);
  if (!bypass) builder.add(namesOf(WCU).tk, -1000);
  return builder.update(key, "exists", { form: "credit", readingMs, parts, spare: [] });
}

/**
 * Takes usage other than tokens out of the open hour. The hour of the reading must be open, or a later one: an hour that is over
 * is final. The item must live as long as the usage is kept: a sweep lets it expire early once nothing is counted.
 */
function countBack(builder: WriteBuilder, image: Image | undefined, back: GiveBack, env: Env): void {
  const { readingMs, amounts, bypass, requests, overdrafts, wouldRefuse } = back;
  const hour = hourNumber(readingMs);
  // An earlier hour is still open, because the hour before it could not be put on its sheet.
  if (image !== undefined && readingMs >= image.hourEndMs) pinEpoch(builder, image);
  else builder.where(UH, ">=", hour).whereUnless(TTL, ">=", usageUntilS((hour + 1) * HOUR_MS, env));
  builder.add(RQ, -requests);
  if (bypass) for (const { limit, milli } of amounts) builder.add(namesOf(limit).by, -milli);
  for (const { limit, milli } of overdrafts) builder.add(namesOf(limit).od, -milli);
  for (const { limit, milli } of wouldRefuse) builder.add(namesOf(limit).wr, -milli);
}

/** True if the write must rebase: time did more than drip, an hour is over, or the item would expire too early. */
function mustRebase(image: Image, back: GiveBack, env: Env): boolean {
  const { readingMs } = back;
  const minds = !isOnlySlots(back) || isOverBy(back, readingMs);
  if (!back.bypass && minds && isPastBoundary(image, readingMs, env)) return true;
  if (closable(image.state, back, env).length > 0) return true;
  if (!env.dialect.countsByHour) return false;
  if (rollTo(image, { readingMs, usage: usageOf(back, image.state) }) !== undefined) return true;
  const ttl = numberOf(image.item, TTL);
  const hourEndMs = Math.max(image.hourEndMs, (hourNumber(readingMs) + 1) * HOUR_MS);
  return readingMs < image.hourEndMs && ttl !== undefined && ttl < usageUntilS(hourEndMs, env);
}

function usageOf(back: GiveBack, state: BucketState): UsageDelta {
  const { bypass, requests, overdrafts, wouldRefuse, sheeted } = back;
  const counted = negated(uncounted(back));
  return {
    ...NO_USAGE,
    requests: 0 - requests,
    counters: counted,
    bypassed: bypass ? counted : [],
    overdrafts: negated(overdrafts),
    wouldRefuse: negated(wouldRefuse),
    heldMs: timesBack(state, back),
    sheeted,
  };
}

function negated(amounts: readonly Amount[]): readonly Amount[] {
  return amounts.map(({ limit, milli }) => ({ limit, milli: 0 - milli }));
}

// A capacity may be the largest exact number, and a give-back stands on top of it until it is cut off.
function addTokens(builder: WriteBuilder, image: Image | undefined, limit: string, milli: number): void {
  const { tk } = namesOf(limit);
  const mostMilli = STORED_MAX_MILLI - milli;
  const held = image === undefined ? undefined : findLimit(image.state, limit);
  if (held !== undefined && held.tokensMilli > mostMilli) {
    builder.where(tk, ">", mostMilli).set(tk, STORED_MAX_MILLI);
  } else if (milli > UNCHECKED_MAX_MILLI) builder.where(tk, "<=", mostMilli).add(tk, milli);
  else builder.present(tk).add(tk, milli);
}

/** True if time has done more than drip since the item was written. */
function isPastBoundary(image: Image, readingMs: number, env: Env): boolean {
  const vu = numberOf(image.item, VU);
  if (readingMs >= image.state.validUntilMs) return true;
  return vu !== undefined && vu <= readingMs && !isAnnounced(image, env);
}

/**
 * True if the mark on the item only says that configuration changed. If the item were rebased for it, with changed limits, the
 * change would count from the give-back on.
 */
function isAnnounced({ item }: Image, { dialect }: Env): boolean {
  return item[VU] === 0 && dialect.announcesConfig(item);
}

function rebasedCredit(image: Image, back: GiveBack, env: Env): ItemWrite {
  const { readingMs, amounts, bypass, parts, ticket } = back;
  const at = { readingMs, atMs: epochAfter(image.state, readingMs) };
  const closing = closable(acrossBoundaries(image.state, readingMs, env.calendar), back, env);
  const becomes = (state: BucketState) =>
    withClosed(withLimitsAt(state, { ...at, install: undefined }, env.calendar), closing, env);
  const rebased = rebase(image.state, becomes, { ...at, install: undefined });
  const gone: Clause[] = [];
  const moves = amounts.flatMap(({ limit, milli }): Move[] => {
    if (bypass || closing.includes(limit)) return [];
    const pin = slotPinOf(ticket, limit);
    if (pin === undefined) {
      return isOfTake(rebased.state, limit, back, env) ? [{ limit, milli: -milli, whenShort: "owe" }] : [];
    }
    if (isHeldIn(rebased.state, pin, milli))
      return [{ limit, milli: -milli, whenShort: "owe", slots: [{ pin, milli }] }];
    // A slice that ends with this write is removed by it.
    if (pin.endMs > at.atMs) gone.push(goneFrom(pin, milli));
    return [];
  });
  const intent = { ...blankIntent(readingMs), usage: usageOf(back, rebased.state), moves, parts };
  const step = writeRebased(image, rebased, intent, env);
  if (step.kind !== "write") throw new RangeError("Nothing is taken by a give-back; nothing can be short.");
  const { write } = step;
  const most = bounds(image, back, env).map(([name, value]): Clause => [{ name, is: "<=", value }]);
  // The window stays open if another request has taken from it meanwhile.
  const least = closing.map((limit): Clause => {
    const value = findLimit(image.state, limit)?.tokensMilli ?? 0;
    return [{ name: namesOf(limit).tk, is: ">=", value }];
  });
  return { ...write, when: [...write.when, ...most, ...least, ...gone] };
}

/** Upper bounds for limits in which the give-back must have room. */
function bounds(image: Image, back: GiveBack, { calendar }: Env): (readonly [tk: string, milli: number])[] {
  const { bounded, ticket, readingMs } = back;
  if (bounded.length === 0) return [];
  const now = acrossBoundaries(image.state, readingMs, calendar);
  return bounded.flatMap(({ limit, milli }) => {
    const held = findLimit(image.state, limit);
    const roomMilli = roomFor(now, limit, { ticket, readingMs, calendar });
    if (held === undefined || roomMilli === undefined) return [];
    return [[namesOf(limit).tk, held.tokensMilli + roomMilli - milli] as const];
  });
}

/**
 * Sessions that the undone request opened, and that are full again with this give-back: no other request has used the window, so
 * it is closed, as if it had never been open.
 */
function closable(state: BucketState, back: GiveBack, env: Env): readonly string[] {
  return back.opened.filter((limit) => {
    const held = findLimit(state, limit);
    const milli = back.amounts.find((one) => one.limit === limit)?.milli;
    if (held === undefined || milli === undefined || !isOfTake(state, limit, back, env)) return false;
    const isUsed = held.tokensMilli + milli < held.terms.capacityMilli;
    return !isUsed && held.quota?.topUpMilli === 0 && held.rememberUntilMs === 0;
  });
}

function withClosed(state: BucketState, closing: readonly string[], { calendar }: Env): BucketState {
  if (closing.length === 0) return state;
  const limits = state.limits.map((held) =>
    closing.includes(held.name) && held.quota !== undefined
      ? { ...held, tokensMilli: held.terms.capacityMilli, quota: { ...held.quota, windowStartMs: undefined } }
      : held,
  );
  return assembled({ ...state, limits }, calendar);
}

function isOfTake(state: BucketState, limit: string, { ticket, readingMs }: GiveBack, { calendar }: Env): boolean {
  const held = findLimit(state, limit);
  return held !== undefined && belongs(state, held, { ticket, readingMs, calendar });
}

// An item that meets these is in the period of the take: an epoch before its end, no reset by hand since, the same window. The
// reset rule itself need not be pinned, because a change of it counts as a reset.
function pinPeriod(builder: WriteBuilder, limit: string, pin: QuotaPin | undefined): void {
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
