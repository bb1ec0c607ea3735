import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { overdrawnOf } from "../../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { byPeriod, isOfOnePeriod, isSlotPin, type SlotPin, type Ticket } from "../../domain/bucket/give-back.ts";
import { slotsOf } from "../../domain/bucket/renew-slots.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { levelName } from "../../domain/config/level-names.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { holdMsOf } from "../../domain/limits/kinds/concurrent.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { Held, TakenAnswer } from "../../ports/bucket-store.ts";
import type { PlacedBucket, TakenInPlace, TokensLeft } from "../../ports/in-place-takes.ts";
import type { ChainLink } from "../acquire/config-cache.ts";
import { type Demand, demandOf } from "../acquire/request.ts";
import { type Availability, availabilityOf } from "../limiter/availability.ts";

/** What was taken for a request on one of its resources. */
export interface LeasePart {
  readonly entityId: string;
  readonly resource: string;
  readonly demands: readonly Demand[];
  /** One for each demand that wanted something; none where the store was not reached. */
  readonly taken: readonly TakenAnswer[];
  /** Whether a shadow limit would have refused it; then nothing was taken of that one. */
  readonly isShadowed: boolean;
  /** The reading of the clock by which it was taken. */
  readonly takenAtMs: number;
}

/** What was taken from one bucket. Its lists are made when they are looked at: most leases are settled before that. */
export class SinglePart implements LeasePart {
  readonly takenAtMs: number;
  readonly #link: ChainLink;
  readonly #take: readonly Amount[];
  readonly #answer: TakenInPlace;
  /** Of an answer that later takes share: what this one left. */
  readonly #left: TokensLeft | undefined;
  readonly #leftOfSecond: number | undefined;

  constructor(link: ChainLink, take: readonly Amount[], answer: TakenInPlace, takenAtMs: number) {
    this.takenAtMs = takenAtMs;
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

/** Whether slots were taken that have to be given back. Nearly every ticket is the plain one, and says no at once. */
export function hasSlots(part: LeasePart): boolean {
  if (part instanceof SinglePart) return part.hasSlots;
  const { taken } = part;
  for (let i = 0; i < taken.length; i++) if (isOfSlots((taken[i] as TakenAnswer).ticket)) return true;
  return false;
}

/** What was taken from one bucket, and what gives it back. */
interface TakenPart {
  readonly link: ChainLink;
  readonly take: readonly Amount[];
  readonly ticket: Ticket;
  /** How long the request holds slots, where it says so. */
  readonly holdMs: number | undefined;
}

function takenIn(part: LeasePart): readonly TakenPart[] {
  if (part instanceof SinglePart) return [part.asTaken];
  const asked = part.demands.filter(({ take }) => take.length > 0);
  return part.taken.map(({ ticket }, i) => {
    const { link, take, holdMs } = asked[i] as Demand;
    return { link, take, ticket, holdMs };
  });
}

/** Slots, as they are given back: one list of amounts for each of `helds`. */
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

/** The shortest time that slots of a lease are held for without a renewal; `Infinity` where none are. */
export function shortestHoldMs(part: LeasePart): number {
  let shortestMs = Number.POSITIVE_INFINITY;
  for (const { link, ticket, holdMs } of takenIn(part)) {
    for (const pin of ticket.pins) {
      if (isSlotPin(pin)) shortestMs = Math.min(shortestMs, slotHoldMs(pin, link.set.limits, holdMs, part.takenAtMs));
    }
  }
  return Math.max(0, shortestMs);
}

/** For how long slots are held after they were confirmed, by the limits that they were taken under. */
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

/** A level of the lease as a store needs to see it, and where the store found it. */
export function heldOf({ bucket, set, origin, access, place }: ChainLink, ticket: Ticket): Held & PlacedBucket {
  return { bucket, set, origin, ticket, bypass: access === "bypass", place };
}

function isOfSlots({ pins }: Ticket): boolean {
  for (let i = 0; i < pins.length; i++) if (isSlotPin(pins[i])) return true;
  return false;
}

/** What every level that was asked held right after the take, the entity first. */
export function remainingIn({ demands, taken, takenAtMs }: LeasePart): readonly Availability[] {
  if (taken.length === 0) return [];
  const asked = demands.filter(({ take }) => take.length > 0);
  return asked.flatMap((demand, i) => availabilityOf(demand, taken[i]?.state as BucketState, takenAtMs));
}

/** The bucket of each demand right after the take; undefined where nothing was asked of it. */
export function seenIn({ demands, taken }: LeasePart): (BucketState | undefined)[] {
  let next = 0;
  return demands.map(({ take }) => (take.length === 0 ? undefined : taken[next++]?.state));
}

/** The shadow limits that would have refused each demand. */
export function shadowedIn({ demands, taken }: LeasePart): (readonly string[])[] {
  let next = 0;
  return demands.map(({ take }) => (take.length === 0 ? [] : (taken[next++]?.shadowed ?? [])));
}

/** The position of a bucket in the chain of a lease: how many levels up, and whether it is that of the totals. */
export interface BucketPosition {
  readonly level: number;
  readonly isTotal: boolean;
}

/** The positions of the buckets of a lease on one resource, in their order. */
export function positionsOf(buckets: readonly Pick<BucketKey, "entityId" | "resource">[]): readonly BucketPosition[] {
  const levels = [...new Set(buckets.map(({ entityId }) => entityId))];
  return buckets.map(({ entityId, resource }) => ({
    level: levels.indexOf(entityId),
    isTotal: resource === TOTAL_RESOURCE,
  }));
}

/** The name of a limit of a lease: `day`, `day^1` one level up, `day` of totals after an asterisk and a slash. */
export function nameAt(name: string, { level, isTotal }: BucketPosition): string {
  return `${isTotal ? `${TOTAL_RESOURCE}/` : ""}${levelName(name, level)}`;
}

/** Names of the soft limits of a bucket that are below zero. */
export function overdrawnAt(state: BucketState, position: BucketPosition, nowMs: number): readonly string[] {
  const all = state.limits.map(({ name }) => ({ limit: name, milli: 0 }));
  return overdrawnOf(state, all, nowMs).map((name) => nameAt(name, position));
}
