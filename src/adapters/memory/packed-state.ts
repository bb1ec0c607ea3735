import { take } from "../../bucket/take.ts";
import type { Amount } from "../../domain/amounts.ts";
import type { BucketState, LimitState } from "../../domain/bucket-state.ts";
import { PLAIN_TICKET, type Ticket } from "../../domain/give-back.ts";
import type { Limit } from "../../domain/limit.ts";
import { knowsMore, type SetOrigin } from "../../domain/limit-set.ts";
import type { SourcedLimits } from "../../domain/limited-bucket.ts";
import type { SharedState, TakenInPlace, TokensLeft } from "../../ports/in-place-takes.ts";

/** What buckets of the same limits have in common: all but the numbers below. */
interface PackedShape {
  readonly signature: string;
  /** Those of the bucket that was packed first; its tokens and remainders are nobody's. */
  readonly limits: readonly LimitState[];
}

/** Where the numbers stand: these three, then tokens and remainder of each limit in turn. */
const EPOCH = 0;
const RENEW_AT = 1;
const VALID_UNTIL = 2;
const HEAD = 3;
const PER_LIMIT = 2;

/**
 * A plain state as numbers beside each other. Of many ids, a take costs what it has to fetch from memory: here two objects, where
 * the state is a dozen. Takes write the tokens in place. It is the answer to such takes as well; the state is made when it is looked at.
 */
export class PackedState implements TakenInPlace, SharedState {
  readonly #numbers: number[];
  readonly #shape: PackedShape;
  readonly #origin: SetOrigin;

  /** The state must be as `mayBePacked` asks. */
  constructor(state: BucketState) {
    this.#numbers = numbersOf(state);
    this.#shape = shapeOf(state);
    this.#origin = state.origin;
  }

  // Not fields: each id would have its own.
  get kind(): "taken" {
    return "taken";
  }

  get ticket(): Ticket {
    return PLAIN_TICKET;
  }

  get shadowed(): readonly string[] {
    return PLAIN_TICKET.shadowed;
  }

  get shared(): SharedState {
    return this;
  }

  get state(): BucketState {
    return this.stateWith(this.tokensLeft());
  }

  tokensLeft(): TokensLeft {
    const numbers = this.#numbers;
    if (numbers.length === HEAD + PER_LIMIT) return numbers[HEAD] as number;
    // An array that grows by pushing takes room for seventeen.
    if (numbers.length === HEAD + 2 * PER_LIMIT) return [numbers[HEAD] as number, numbers[HEAD + PER_LIMIT] as number];
    return this.#shape.limits.map((_, i) => numbers[HEAD + i * PER_LIMIT] as number);
  }

  stateWith(left: TokensLeft): BucketState {
    const numbers = this.#numbers;
    const { signature, limits: shared } = this.#shape;
    const limits = shared.map((held, i) => ({
      ...held,
      tokensMilli: (typeof left === "number" ? left : left[i]) as number,
      remainder: numbers[HEAD + i * PER_LIMIT + 1] as number,
    }));
    return {
      epochMs: numbers[EPOCH] as number,
      limits,
      signature,
      origin: this.#origin,
      validUntilMs: numbers[VALID_UNTIL] as number,
      renewAtMs: numbers[RENEW_AT] as number,
      plain: true,
      untouched: false,
    };
  }

  /** Whether nothing but tokens changes when this claim is taken now: no limit to bring, no boundary passed. */
  standsFor({ set, origin }: SourcedLimits, nowMs: number): boolean {
    if (nowMs >= (this.#numbers[RENEW_AT] as number) || this.#shape.signature !== set.signature) return false;
    return !knowsMore(origin, this.#origin);
  }

  /** Takes every amount, or nothing and answers undefined. It must stand for the claim. */
  take(amounts: readonly Amount[], nowMs: number): TakenInPlace | undefined {
    const elapsedMs = nowMs - (this.#numbers[EPOCH] as number);
    if (amounts.length === 2) return this.#takeTwo(amounts[0] as Amount, amounts[1] as Amount, elapsedMs);
    for (let a = 0; a < amounts.length; a++) {
      const left = this.#leftBy(this.#placeOf(amounts, a), (amounts[a] as Amount).milli, elapsedMs);
      if (left === undefined) return undefined;
      lefts[a] = left;
    }
    for (let a = 0; a < amounts.length; a++) this.#put(this.#placeOf(amounts, a), lefts[a] as number);
    return this;
  }

  // The names differ, so that neither sees what the other takes.
  #takeTwo(first: Amount, second: Amount, elapsedMs: number): TakenInPlace | undefined {
    const one = placeOf(this.#shape.limits, first.limit, 0);
    const other = placeOf(this.#shape.limits, second.limit, 1);
    const leftOfOne = this.#leftBy(one, first.milli, elapsedMs);
    if (leftOfOne === undefined) return undefined;
    const leftOfOther = this.#leftBy(other, second.milli, elapsedMs);
    if (leftOfOther === undefined) return undefined;
    this.#put(one, leftOfOne);
    this.#put(other, leftOfOther);
    return this;
  }

  #placeOf(amounts: readonly Amount[], index: number): number {
    return placeOf(this.#shape.limits, (amounts[index] as Amount).limit, index);
  }

  /** What a take of one limit leaves of it; 0 where there is no such limit, undefined where it does not fit. */
  #leftBy(place: number, milli: number, elapsedMs: number): number | undefined {
    if (place < 0) return 0;
    const at = HEAD + place * PER_LIMIT;
    const balance = { tokensMilli: this.#numbers[at] as number, remainder: this.#numbers[at + 1] as number };
    return take(balance, (this.#shape.limits[place] as LimitState).terms, elapsedMs, milli);
  }

  #put(place: number, tokensMilli: number): void {
    if (place >= 0) this.#numbers[HEAD + place * PER_LIMIT] = tokensMilli;
  }
}

/** What each amount of a call would leave: nothing is written before all of them fit. */
const lefts: number[] = [];

/** Whether takes from such a state change nothing but tokens. */
export function mayBePacked({ plain, untouched, limits, shards, writtenMs }: BucketState): boolean {
  return plain && !untouched && limits.length > 0 && shards === undefined && writtenMs === undefined;
}

// Literals as far as possible: an array that grows takes more room than it needs.
function numbersOf({ epochMs, renewAtMs, validUntilMs, limits }: BucketState): number[] {
  const [one, other] = limits as readonly [LimitState, LimitState];
  if (limits.length === 1) return [epochMs, renewAtMs, validUntilMs, one.tokensMilli, one.remainder];
  if (limits.length === 2) {
    return [epochMs, renewAtMs, validUntilMs, one.tokensMilli, one.remainder, other.tokensMilli, other.remainder];
  }
  return [
    ...[epochMs, renewAtMs, validUntilMs],
    ...limits.flatMap(({ tokensMilli, remainder }) => [tokensMilli, remainder]),
  ];
}

const shapes = new WeakMap<Limit, PackedShape>();

function shapeOf({ signature, limits }: BucketState): PackedShape {
  const [first] = limits as readonly [LimitState];
  const known = shapes.get(first.limit);
  if (known !== undefined && known.signature === signature && areAlike(known.limits, limits)) return known;
  const shape = { signature, limits };
  shapes.set(first.limit, shape);
  return shape;
}

function areAlike(some: readonly LimitState[], others: readonly LimitState[]): boolean {
  return some.length === others.length && some.every((limit, i) => isAlike(limit, others[i] as LimitState));
}

/** In all that is not a number of the bucket, and that a plain limit has. */
function isAlike(a: LimitState, b: LimitState): boolean {
  if (a.limit !== b.limit || a.terms !== b.terms || a.configured !== b.configured || a.part !== b.part) return false;
  return a.rememberUntilMs === b.rememberUntilMs && a.resetsBefore === b.resetsBefore && a.told === b.told;
}

/** Looked for where it most often is: amounts are named in the order of the limits. -1: there is none. */
function placeOf(limits: readonly LimitState[], name: string, place: number): number {
  if (place < limits.length && (limits[place] as LimitState).name === name) return place;
  for (let i = 0; i < limits.length; i++) if ((limits[i] as LimitState).name === name) return i;
  return -1;
}
