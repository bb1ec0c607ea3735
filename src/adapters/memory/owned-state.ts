import { takeOrShort } from "../../bucket/take.ts";
import { type BucketState, holdEndMs, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { hasSlots, isSlotPin, PLAIN_TICKET, pinOf, type Ticket, ticketOf } from "../../domain/bucket/give-back.ts";
import { givenBack, type Slice, taken } from "../../domain/bucket/holds.ts";
import { timeOf } from "../../domain/bucket/slot-time.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { countName } from "../../domain/charge/usage.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { isHard } from "../../domain/limits/limit.ts";
import { firstEndMs, knowsMore, type SourcedLimits } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { SharedState, TakenInPlace, TokensLeft } from "../../ports/bucket-store.ts";

/** The cell of a state that takes can write in place. */
interface Owner {
  owned: OwnedState | undefined;
}

interface OwnedLimit extends Omit<LimitState, "tokensMilli" | "slices"> {
  tokensMilli: number;
  slices: readonly Slice[];
}

interface OwnedBucket extends Omit<BucketState, "limits" | "validUntilMs" | "renewAtMs"> {
  readonly limits: readonly OwnedLimit[];
  validUntilMs: number;
  renewAtMs: number;
}

/** The levels that the amounts of a call would leave: nothing is written before all of them fit. */
const leftMilli: number[] = [];
const leftSlices: (readonly Slice[])[] = [];
const NONE: readonly Amount[] = Object.freeze([]);

/**
 * A state that nobody outside its cell has seen, so that a take can write its tokens in place where it would otherwise make
 * three objects. It is the answer to such takes as well: whoever looks at the state of the answer ends the ownership, and the
 * next take goes by a copy. Slices are values all the same, which a take of slots replaces.
 */
export class OwnedState implements TakenInPlace, SharedState {
  readonly kind = "taken";
  readonly ticket = PLAIN_TICKET;
  readonly shadowed = PLAIN_TICKET.shadowed;
  readonly #owner: Owner;
  readonly #state: OwnedBucket;
  readonly #calendar: Calendar;
  readonly #hasSlots: boolean;
  /** The times that the slots of each limit were held which were given back last. */
  #times: { readonly limit: string; milli: number }[] | undefined;

  /** The state must be as `mayBeOwned` asks. */
  constructor(owner: Owner, state: BucketState, calendar: Calendar) {
    this.#owner = owner;
    this.#calendar = calendar;
    this.#hasSlots = !state.plain;
    this.#state = { ...state, limits: state.limits.map((limit) => ({ ...limit })) };
  }

  get state(): BucketState {
    if (this.#owner.owned === this) this.#owner.owned = undefined;
    return this.#state;
  }

  get shared(): SharedState {
    return this;
  }

  tokensLeft(): TokensLeft {
    const { limits } = this.#state;
    if (this.#hasSlots) return slotsLeft(limits);
    return limits.length <= 2 ? (limits[0] as OwnedLimit).tokensMilli : limits.map(({ tokensMilli }) => tokensMilli);
  }

  secondLeft(): number | undefined {
    const { limits } = this.#state;
    return limits.length === 2 && !this.#hasSlots ? (limits[1] as OwnedLimit).tokensMilli : undefined;
  }

  /** Does not end the ownership: whoever looks at what remains after each take must not make the next one dearer. */
  stateWith(left: TokensLeft, ofSecond: number | undefined): BucketState {
    const at = typeof left === "number" ? [left, ofSecond] : left;
    const limits = this.#state.limits.map((held, i) =>
      this.#hasSlots
        ? { ...held, tokensMilli: at[2 * i] as number, slices: at[2 * i + 1] as readonly Slice[] }
        : { ...held, tokensMilli: at[i] as number },
    );
    return { ...this.#state, limits };
  }

  /** Takes every amount, or nothing and answers undefined. The state must be as `isOwnable` asks. */
  take(amounts: readonly Amount[], nowMs: number): TakenInPlace | undefined {
    if (!this.#takeTokens(amounts, nowMs - this.#state.epochMs)) return undefined;
    if (!this.#hasSlots) return this;
    const atMs = Math.max(nowMs, this.#state.epochMs);
    this.#hold(amounts, atMs);
    return new TakenSlots(this, amounts, atMs);
  }

  /**
   * The ticket of a take of slots. It may be made later: the slices of a state that is owned only come and grow, so that each hold is found
   * where it went.
   */
  ticketOf(amounts: readonly Amount[], atMs: number): Ticket {
    return ticketOf(this.#state, amounts, atMs, this.#calendar);
  }

  /**
   * Gives back slots, and answers how long they were held, as usage counts it, for whoever counts at once. Undefined where one of the
   * amounts is no slot that is held, or its time is no number: then nothing is given back. No boundary may be passed.
   */
  giveBack(amounts: readonly Amount[], ticket: Ticket, nowMs: number): readonly Amount[] | undefined {
    const { limits, epochMs } = this.#state;
    const atMs = Math.max(nowMs, epochMs);
    for (let a = 0; a < amounts.length; a++) {
      const { limit: name, milli } = amounts[a] as Amount;
      const held = limitOf(limits, name, a);
      const pin = pinOf(ticket, name);
      if (held === undefined || !isSlotPin(pin) || !hasSlots(held, pin)) return undefined;
      const slices = givenBack(held.slices, pin, milli);
      if (slices === undefined) return undefined;
      leftSlices[a] = slices;
      const time = timeOf(milli, atMs - pin.sinceMs);
      if (typeof time !== "number") return undefined;
      leftMilli[a] = time;
    }
    this.#times ??= limits.map(({ name }) => ({ limit: countName("heldMs", name), milli: 0 }));
    let isCounted = false;
    for (const time of this.#times) time.milli = 0;
    for (let a = 0; a < amounts.length; a++) {
      const { limit: name, milli } = amounts[a] as Amount;
      const i = indexOf(limits, name, a);
      const held = limits[i] as OwnedLimit;
      held.tokensMilli += milli;
      held.slices = leftSlices[a] as readonly Slice[];
      (this.#times[i] as { milli: number }).milli = leftMilli[a] as number;
      isCounted ||= (leftMilli[a] as number) > 0;
    }
    return isCounted ? this.#times : NONE;
  }

  #takeTokens(amounts: readonly Amount[], elapsedMs: number): boolean {
    const { limits } = this.#state;
    if (amounts.length === 1) return takeOne(limits, amounts[0] as Amount, elapsedMs);
    if (amounts.length === 2) return takeTwo(limits, amounts[0] as Amount, amounts[1] as Amount, elapsedMs);
    for (let a = 0; a < amounts.length; a++) {
      const { limit: name, milli } = amounts[a] as Amount;
      const held = limitOf(limits, name, a);
      const left = held === undefined ? 0 : takeOrShort(held, held.terms, elapsedMs, milli);
      if (!Number.isFinite(left)) return false;
      leftMilli[a] = left;
    }
    for (let a = 0; a < amounts.length; a++) {
      const held = limitOf(limits, (amounts[a] as Amount).limit, a);
      if (held !== undefined) held.tokensMilli = leftMilli[a] as number;
    }
    return true;
  }

  /** The slots among amounts that were taken: in which slices they are held. */
  #hold(amounts: readonly Amount[], atMs: number): void {
    const state = this.#state;
    for (let a = 0; a < amounts.length; a++) {
      const { limit: name, milli } = amounts[a] as Amount;
      const held = limitOf(state.limits, name, a);
      if (held?.quota === undefined || milli <= 0) continue;
      const endMs = holdEndMs(held.limit, undefined, atMs);
      held.slices = taken(held.slices, milli, endMs);
      state.validUntilMs = Math.min(state.validUntilMs, endMs);
      state.renewAtMs = Math.min(state.renewAtMs, endMs);
    }
  }
}

/** The answer to a take of slots. Its state and its ticket are made when they are looked at, of what the take left. */
class TakenSlots implements TakenInPlace {
  readonly kind = "taken";
  readonly shadowed = PLAIN_TICKET.shadowed;
  readonly #owned: OwnedState;
  readonly #amounts: readonly Amount[];
  readonly #atMs: number;
  readonly #left: TokensLeft;
  #ticket: Ticket | undefined;

  constructor(owned: OwnedState, amounts: readonly Amount[], atMs: number) {
    this.#owned = owned;
    this.#amounts = amounts;
    this.#atMs = atMs;
    this.#left = owned.tokensLeft();
    this.#ticket = undefined;
  }

  get ticket(): Ticket {
    this.#ticket ??= this.#owned.ticketOf(this.#amounts, this.#atMs);
    return this.#ticket;
  }

  get state(): BucketState {
    return this.#owned.stateWith(this.#left, undefined);
  }
}

/** The answer to a give-back in place: the state that it left, for whoever looks at once. */
export class GivenBackInPlace {
  readonly kind = "applied";
  readonly #owned: OwnedState;

  constructor(owned: OwnedState) {
    this.#owned = owned;
  }

  get state(): BucketState {
    return this.#owned.state;
  }
}

/** True if calls on the state change nothing but tokens and slices: every limit is hard and tells nothing, and drips or has slots. */
export function mayBeOwned(state: BucketState): boolean {
  if (state.untouched) return false;
  if (state.plain) return true;
  const { limits } = state;
  for (let i = 0; i < limits.length; i++) {
    const { limit, quota, slices } = limits[i] as LimitState;
    if (!isHard(limit) || limit.notifyAt) return false;
    if (quota === undefined ? slices.length > 0 : !rulesOf(limit).holdsSlots) return false;
  }
  return true;
}

/** True if nothing else changes when this claim is taken now: no limit to bring, no boundary passed. */
export function isOwnable(state: BucketState, { set, origin }: SourcedLimits, nowMs: number): boolean {
  if (nowMs >= state.renewAtMs || state.signature !== set.signature) return false;
  // A bucket that has no boundary yet at the end of an override gets it by the steps.
  return (
    !knowsMore(origin, state.origin) && !(state.validUntilMs > (firstEndMs(origin, nowMs) ?? Number.POSITIVE_INFINITY))
  );
}

function slotsLeft(limits: readonly OwnedLimit[]): TokensLeft {
  const [one, other] = limits as readonly [OwnedLimit, OwnedLimit];
  if (limits.length === 1) return [one.tokensMilli, one.slices];
  if (limits.length === 2) return [one.tokensMilli, one.slices, other.tokensMilli, other.slices];
  return limits.flatMap(({ tokensMilli, slices }) => [tokensMilli, slices]);
}

function takeOne(limits: readonly OwnedLimit[], { limit: name, milli }: Amount, elapsedMs: number): boolean {
  const held = limitOf(limits, name, 0);
  if (held === undefined) return true;
  const left = takeOrShort(held, held.terms, elapsedMs, milli);
  if (!Number.isFinite(left)) return false;
  held.tokensMilli = left;
  return true;
}

// The names differ, so that neither sees what the other takes.
function takeTwo(limits: readonly OwnedLimit[], first: Amount, second: Amount, elapsedMs: number): boolean {
  const one = limitOf(limits, first.limit, 0);
  const other = limitOf(limits, second.limit, 1);
  const leftOfOne = one === undefined ? 0 : takeOrShort(one, one.terms, elapsedMs, first.milli);
  if (!Number.isFinite(leftOfOne)) return false;
  const leftOfOther = other === undefined ? 0 : takeOrShort(other, other.terms, elapsedMs, second.milli);
  if (!Number.isFinite(leftOfOther)) return false;
  if (one !== undefined) one.tokensMilli = leftOfOne;
  if (other !== undefined) other.tokensMilli = leftOfOther;
  return true;
}

function limitOf(limits: readonly OwnedLimit[], name: string, place: number): OwnedLimit | undefined {
  const at = indexOf(limits, name, place);
  return at < 0 ? undefined : limits[at];
}

/** Looked for where it most often is: amounts are named in the order of the limits. */
function indexOf(limits: readonly OwnedLimit[], name: string, place: number): number {
  if (place < limits.length && (limits[place] as OwnedLimit).name === name) return place;
  for (let i = 0; i < limits.length; i++) if ((limits[i] as OwnedLimit).name === name) return i;
  return -1;
}
