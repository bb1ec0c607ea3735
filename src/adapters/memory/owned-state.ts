import { take } from "../../bucket/take.ts";
import type { Amount } from "../../domain/amounts.ts";
import type { BucketState, LimitState } from "../../domain/bucket-state.ts";
import { PLAIN_TICKET } from "../../domain/give-back.ts";
import { knowsMore } from "../../domain/limit-set.ts";
import type { SourcedLimits } from "../../domain/limited-bucket.ts";
import type { SharedState, TakenInPlace, TokensLeft } from "../../ports/in-place-takes.ts";

/** What a cell needs so that takes can write its state in place. */
interface Owner {
  owned: OwnedState | undefined;
}

interface OwnedLimit extends Omit<LimitState, "tokensMilli"> {
  tokensMilli: number;
}

/** What each amount of a take would leave: nothing is written before all of them fit. */
const leftMilli: number[] = [];

/**
 * A state that nobody outside its cell has seen, so that a take can write its tokens in place where it would otherwise make
 * three objects. It is the answer to such takes as well: whoever looks at the state of the answer ends the ownership, and the
 * next take goes by a copy.
 */
export class OwnedState implements TakenInPlace, SharedState {
  readonly kind = "taken";
  readonly ticket = PLAIN_TICKET;
  readonly shadowed = PLAIN_TICKET.shadowed;
  readonly #owner: Owner;
  readonly #state: Omit<BucketState, "limits"> & { readonly limits: readonly OwnedLimit[] };

  constructor(owner: Owner, state: BucketState) {
    this.#owner = owner;
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
    if (limits.length === 1) return (limits[0] as OwnedLimit).tokensMilli;
    // An array that grows by pushing takes room for seventeen.
    if (limits.length === 2) return [(limits[0] as OwnedLimit).tokensMilli, (limits[1] as OwnedLimit).tokensMilli];
    return limits.map(({ tokensMilli }) => tokensMilli);
  }

  /** Does not end the ownership: whoever looks at what remains after each take must not make the next one dearer. */
  stateWith(left: TokensLeft): BucketState {
    const limits = this.#state.limits.map((held, i) => ({
      ...held,
      tokensMilli: typeof left === "number" ? left : (left[i] as number),
    }));
    return { ...this.#state, limits };
  }

  /** Takes every amount, or nothing and answers false. The state must be as `isOwnable` asks. */
  take(amounts: readonly Amount[], nowMs: number): boolean {
    const { limits, epochMs } = this.#state;
    const elapsedMs = nowMs - epochMs;
    if (amounts.length === 1) return takeOne(limits, amounts[0] as Amount, elapsedMs);
    if (amounts.length === 2) return takeTwo(limits, amounts[0] as Amount, amounts[1] as Amount, elapsedMs);
    for (let a = 0; a < amounts.length; a++) {
      const { limit: name, milli } = amounts[a] as Amount;
      const held = limitOf(limits, name, a);
      const left = held === undefined ? 0 : take(held, held.terms, elapsedMs, milli);
      if (left === undefined) return false;
      leftMilli[a] = left;
    }
    for (let a = 0; a < amounts.length; a++) {
      const held = limitOf(limits, (amounts[a] as Amount).limit, a);
      if (held !== undefined) held.tokensMilli = leftMilli[a] as number;
    }
    return true;
  }
}

/** Whether nothing but tokens changes when this claim is taken now: no limit to bring, no boundary passed, no mark to keep. */
export function isOwnable(state: BucketState, { set, origin }: SourcedLimits, nowMs: number): boolean {
  if (!state.plain || state.untouched || nowMs >= state.renewAtMs || state.signature !== set.signature) return false;
  return !knowsMore(origin, state.origin);
}

function takeOne(limits: readonly OwnedLimit[], { limit: name, milli }: Amount, elapsedMs: number): boolean {
  const held = limitOf(limits, name, 0);
  if (held === undefined) return true;
  const left = take(held, held.terms, elapsedMs, milli);
  if (left === undefined) return false;
  held.tokensMilli = left;
  return true;
}

// The names differ, so that neither sees what the other takes.
function takeTwo(limits: readonly OwnedLimit[], first: Amount, second: Amount, elapsedMs: number): boolean {
  const one = limitOf(limits, first.limit, 0);
  const other = limitOf(limits, second.limit, 1);
  const leftOfOne = one === undefined ? 0 : take(one, one.terms, elapsedMs, first.milli);
  if (leftOfOne === undefined) return false;
  const leftOfOther = other === undefined ? 0 : take(other, other.terms, elapsedMs, second.milli);
  if (leftOfOther === undefined) return false;
  if (one !== undefined) one.tokensMilli = leftOfOne;
  if (other !== undefined) other.tokensMilli = leftOfOther;
  return true;
}

/** Looked for where it most often is: amounts are named in the order of the limits. */
function limitOf(limits: readonly OwnedLimit[], name: string, place: number): OwnedLimit | undefined {
  if (place < limits.length && (limits[place] as OwnedLimit).name === name) return limits[place];
  for (let i = 0; i < limits.length; i++) if ((limits[i] as OwnedLimit).name === name) return limits[i];
  return undefined;
}
