import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { overdrawnOf } from "../../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { byPeriod, isOfOnePeriod, isSlotPin, type SlotPin, type Ticket } from "../../domain/bucket/give-back.ts";
import { slotsOf } from "../../domain/bucket/slot-time.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { BesideBuckets } from "../../domain/charge/caller-usage.ts";
import { levelName } from "../../domain/charge/status.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { holdMsOf } from "../../domain/limits/kinds/concurrent.ts";
import { isHard, type Limit } from "../../domain/limits/limit.ts";
import type { Held, PlacedBucket, TakenAnswer, TakenInPlace, TokensLeft } from "../../ports/bucket-store.ts";
import type { ChainLink } from "../acquire/chain-link.ts";
import { type Demand, demandOf } from "../acquire/request.ts";
import { type Availability, availabilityOf } from "../limiter/question.ts";

/** A take for a request on one of its resources. */
export interface LeasePart {
  readonly entityId: string;
  readonly resource: string;
  readonly demands: readonly Demand[];
  /** The answer to each demand with amounts; empty if the store was not reached. */
  readonly taken: readonly TakenAnswer[];
  /** True if a shadow limit would have refused it. Nothing was taken of that limit. */
  readonly isShadowed: boolean;
  /** The clock reading of the take. */
  readonly takenAtMs: number;
  /** What of it is counted beside the buckets. Undefined: they count all of it, or the store was not reached. */
  readonly beside: BesideBuckets | undefined;
}

/** A take from one bucket. Its lists are made when they are read: most leases are settled before that. */
export class SinglePart implements LeasePart {
  readonly takenAtMs: number;
  readonly beside: BesideBuckets | undefined;
  readonly #link: ChainLink;
  readonly #take: readonly Amount[];
  readonly #answer: TakenInPlace;
  /** The tokens left by this take, if later takes share the answer. */
  readonly #left: TokensLeft | undefined;
  readonly #leftOfSecond: number | undefined;

  // Single arguments: an object would be allocated for every take.
  constructor(
    link: ChainLink,
    take: readonly Amount[],
    answer: TakenInPlace,
    takenAtMs: number,
    beside: BesideBuckets | undefined,
  ) {
    this.takenAtMs = takenAtMs;
    this.beside = beside;
    this.#link = link;
    this.#take = take;
    this.#answer = answer;
    const { shared } = answer;
    this.#left = shared?.tokensLeft();
    this.#leftOfSecond = shared?.secondLeft();
  }

  get entityId(): string {
    return this.#link.bucket.entityId;
  }

  get resource(): string {
    return this.#link.bucket.resource;
  }

  get hasSlots(): boolean {
    return isOfSlots(this.#answer.ticket);
  }

  get asTaken(): TakenPart {
    return { link: this.#link, take: this.#take, ticket: this.#answer.ticket, holdMs: undefined };
  }

  get isShadowed(): boolean {
    return this.#answer.shadowed.length > 0;
  }

  get demands(): readonly Demand[] {
    return [demandOf(this.#link, this.#take, false)];
  }

  get taken(): readonly TakenAnswer[] {
    const { kind, ticket, shadowed, shared } = this.#answer;
    if (shared === undefined || this.#left === undefined) return [this.#answer];
    return [{ kind, ticket, shadowed, state: shared.stateWith(this.#left, this.#leftOfSecond) }];
  }
}

/** True if slots were taken, which have to be given back. */
export function hasSlots(part: LeasePart): boolean {
  if (part instanceof SinglePart) return part.hasSlots;
  const { taken } = part;
  for (let i = 0; i < taken.length; i++) if (isOfSlots((taken[i] as TakenAnswer).ticket)) return true;
  return false;
}

/** The amounts that were taken of a bucket, with their ticket. */
export interface TakenPart {
  readonly link: ChainLink;
  readonly take: readonly Amount[];
  readonly ticket: Ticket;
  /** The hold of slots that the request names, if any. */
  readonly holdMs: number | undefined;
}

function takenIn(part: LeasePart): readonly TakenPart[] {
  if (part instanceof SinglePart) return [part.asTaken];
  return answersOf(part).flatMap((answer, i) => {
    const { link, take, holdMs } = part.demands[i] as Demand;
    return answer === undefined ? [] : [{ link, take, ticket: answer.ticket, holdMs }];
  });
}

/** Slots to give back: one list of amounts for each of `helds`. */
interface SlotsTaken {
  readonly helds: readonly Held[];
  readonly amounts: readonly (readonly Amount[])[];
}

/** The slots that were taken for a lease. */
export function slotsTaken(part: LeasePart): SlotsTaken {
  if (part instanceof SinglePart && isOfOnePeriod(part.asTaken.ticket)) return slotsOfOne(part.asTaken);
  const shares = takenIn(part).flatMap((one) => byPeriod(one.ticket, one.take).map((share) => ({ ...one, ...share })));
  return {
    helds: shares.map(({ link, ticket }) => heldOf(link, ticket)),
    amounts: shares.map(({ ticket, amounts }) => slotsOf(ticket, amounts)),
  };
}

function slotsOfOne({ link, take, ticket }: TakenPart): SlotsTaken {
  return { helds: [heldOf(link, ticket)], amounts: [slotsOf(ticket, take)] };
}

/** The shortest time for which slots are held without a renewal; `Infinity` if none are. */
export function shortestHoldMs(part: LeasePart): number {
  let shortestMs = Number.POSITIVE_INFINITY;
  for (const { link, ticket, holdMs } of takenIn(part)) {
    for (const pin of ticket.pins) {
      if (isSlotPin(pin)) shortestMs = Math.min(shortestMs, slotHoldMs(pin, link.set.limits, holdMs, part.takenAtMs));
    }
  }
  return Math.max(0, shortestMs);
}

/** The time for which slots are held after a confirmation, by the limits they were taken under. */
export function slotHoldMs(
  { limit: name, endMs }: SlotPin,
  limits: readonly Limit[],
  ownMs: number | undefined,
  confirmedMs: number,
): number {
  let ms = Math.min(ownMs ?? Number.POSITIVE_INFINITY, endMs - confirmedMs);
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as Limit;
    if (limit.name === name) ms = Math.min(ms, holdMsOf(limit));
  }
  return ms;
}

/** True if the limit refuses. A limit that is no longer known by its name does. */
export function isHardIn(limits: readonly Limit[], name: string): boolean {
  const limit = limits.find((one) => one.name === name);
  return limit === undefined || isHard(limit);
}

/** A level of a lease as the store needs it for a give-back or a debit. */
export function heldOf({ bucket, set, origin, access, place }: ChainLink, ticket: Ticket): Held & PlacedBucket {
  return { bucket, set, origin, ticket, bypass: access === "bypass", place };
}

function isOfSlots({ pins }: Ticket): boolean {
  for (let i = 0; i < pins.length; i++) if (isSlotPin(pins[i])) return true;
  return false;
}

/** The answer to each demand; undefined for a demand without amounts, or if the store was not reached. */
export function answersOf<Answer>({
  demands,
  taken,
}: {
  readonly demands: readonly Pick<Demand, "take">[];
  readonly taken: readonly Answer[];
}): readonly (Answer | undefined)[] {
  let next = 0;
  return demands.map(({ take }) => (take.length === 0 ? undefined : taken[next++]));
}

/** The tokens left at every level right after the take, the caller first. */
export function remainingIn(part: LeasePart): readonly Availability[] {
  return answersOf(part).flatMap((answer, i) =>
    answer === undefined ? [] : availabilityOf(part.demands[i] as Demand, answer.state, part.takenAtMs),
  );
}

/** The bucket of each demand right after the take; undefined without amounts. */
export function seenIn(part: LeasePart): (BucketState | undefined)[] {
  return answersOf(part).map((answer) => answer?.state);
}

/** The shadow limits that would have refused each demand. */
export function shadowedIn(part: LeasePart): (readonly string[])[] {
  return answersOf(part).map((answer) => answer?.shadowed ?? []);
}

/** The position of a bucket in the chain of a lease: its level, and whether it belongs to the totals. */
export interface BucketPosition {
  readonly level: number;
  readonly isTotal: boolean;
}

/** The positions of the buckets of one resource, in their order. */
export function positionsOf(buckets: readonly Pick<BucketKey, "entityId" | "resource">[]): readonly BucketPosition[] {
  const levels = [...new Set(buckets.map(({ entityId }) => entityId))];
  return buckets.map(({ entityId, resource }) => ({
    level: levels.indexOf(entityId),
    isTotal: resource === TOTAL_RESOURCE,
  }));
}

/** The name of a limit of a lease: `day`, `day^1` one level up, with an asterisk and a slash in front for totals. */
export function nameAt(name: string, { level, isTotal }: BucketPosition): string {
  return `${isTotal ? `${TOTAL_RESOURCE}/` : ""}${levelName(name, level)}`;
}

/** Names of limits by level as a lease tells them. */
export function namesAt(part: LeasePart, names: readonly (readonly string[])[]): readonly string[] {
  if (names.every((some) => some.length === 0)) return [];
  const positions = positionsOf(part.demands.map(({ bucket }) => bucket));
  return names.flatMap((some, i) => some.map((name) => nameAt(name, positions[i] as BucketPosition)));
}

/** Names of the soft limits of a bucket that are below zero. */
export function overdrawnAt(state: BucketState, position: BucketPosition, nowMs: number): readonly string[] {
  return overdrawnIn(state, nowMs).map((name) => nameAt(name, position));
}

export function overdrawnIn(state: BucketState, nowMs: number): readonly string[] {
  const all = state.limits.map(({ name }) => ({ limit: name, milli: 0 }));
  return overdrawnOf(state, all, nowMs);
}
