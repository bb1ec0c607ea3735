import { minus } from "../bucket/integers.ts";
import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import { resetLimits, type ToppedUp, toppedUp } from "../domain/bucket/bucket-operations.ts";
import { isIdle, overdrawnOf, shadowedOf, withoutShadowed } from "../domain/bucket/bucket-questions.ts";
import {
  acrossBoundaries,
  advanced,
  type BucketState,
  bornAs,
  boundedBy,
  bringsLimits,
  bucketFor,
  countFrom,
  debitFrom,
  freshBucket,
  takeBy,
  takeFrom,
  touched,
} from "../domain/bucket/bucket-state.ts";
import { giveBack, missingOf, PLAIN_TICKET, type Ticket, ticketOf } from "../domain/bucket/give-back.ts";
import { slotsOf, timeOfEnded, timeOfGivenBack } from "../domain/bucket/slot-time.ts";
import type { Amount, CountedAmount } from "../domain/charge/amounts.ts";
import { countName, HOUR_MS, type UsageCounter } from "../domain/charge/usage.ts";
import { type LevelConfig, levelAt } from "../domain/config/config.ts";
import { changesIn } from "../domain/config/config-versions.ts";
import { asTotals, TOTAL_RESOURCE } from "../domain/config/totals.ts";
import {
  firstEndMs,
  knowsMore,
  type LimitedBucket,
  limitSet,
  type SetOrigin,
  type SourcedLimits,
} from "../domain/limits/limit-set.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { type BucketTake, type Crossed, crossedBy, withMarks } from "../domain/limits/thresholds.ts";
import type { Claim, CreditContext, Held, TakenAnswer } from "../ports/bucket-store.ts";
import type { AppliedWrite } from "../ports/lease-store.ts";

const NONE_SHADOWED: readonly string[] = Object.freeze([]);

/** The time, the configuration and the settings of the store that a call on buckets goes by. */
export interface RuleContext {
  readonly nowMs: number;
  readonly calendar: Calendar;
  /** The generation of configuration, as the store has it at this call. */
  readonly generation: number;
  /** The stored limits of buckets, of that generation; undefined where they cannot have changed. */
  readonly current: Pick<CurrentLimits, "of"> | undefined;
  readonly countsUsage: boolean;
  /** Rows have room for how long slots were held in the hour; absent: that goes to its table with every give-back. */
  readonly hasRoomForHeld?: true;
}

/**
 * The limits that a take goes by. Those of `config` are of the generation that is compared; those of a lease may have been changed since, and
 * such a change counts from the write on at the earliest.
 */
export type LimitsFrom = "config" | "lease";

/** The bucket as it stands for these limits; the same object when nothing was due. */
export function stateFor(state: BucketState | undefined, of: SourcedLimits, context: RuleContext): BucketState {
  const { nowMs, calendar, generation } = context;
  if (state !== undefined) return heldUntilEnd(bucketFor(state, of, nowMs, calendar), of.origin, nowMs);
  // Numbered by the store's generation: what the bucket is made for may be older than a deletion.
  const born = bornAs(freshBucket(of.set, of.origin, nowMs, calendar), countFrom(nowMs, generation));
  return heldUntilEnd(born, of.origin, nowMs);
}

/**
 * The bucket as it stands for a take. One by the limits of a lease goes on with them, but does not pass over the end of an override that the
 * bucket has yet to go through: no later write would find it.
 */
export function stateForTake(
  state: BucketState | undefined,
  of: LimitedBucket,
  limitsFrom: LimitsFrom,
  context: RuleContext,
): BucketState {
  const isPassing = limitsFrom === "lease" && passesOverEnd(state, context.nowMs, of);
  return stateFor(state && (isPassing ? withStoredLimits(state, of.bucket, context) : state), of, context);
}

/** The bucket with a boundary at the next end of an override: whatever is written to it later stops there, and reads what applies then. */
function heldUntilEnd(state: BucketState, origin: SetOrigin, nowMs: number): BucketState {
  const endMs = firstEndMs(origin, nowMs);
  // Whoever knows fewer changes than the bucket has gone through, as by a clock that is behind, knows of ends that are over.
  const isOlder = (origin.changeNumber ?? Number.POSITIVE_INFINITY) < (state.origin.changeNumber ?? 0);
  return endMs === undefined || isOlder ? state : boundedBy(state, endMs);
}

/**
 * True if a boundary is over of a bucket that goes by stored limits: an override may have ended there, or behind it, that the bucket has not
 * gone through.
 */
export function mayHavePassedEnd(state: BucketState | undefined, nowMs: number): boolean {
  return state !== undefined && state.origin.generation !== null && nowMs >= state.validUntilMs;
}

/**
 * True of a take by the limits of a lease that may pass over such an end. One that brings limits of a request does not: the stored ones come
 * back with a request, and with their ends.
 */
export function passesOverEnd(state: BucketState | undefined, nowMs: number, of: SourcedLimits): boolean {
  if (state === undefined || !mayHavePassedEnd(state, nowMs)) return false;
  return of.origin.generation !== null || !bringsLimits(state, of);
}

/**
 * The bucket as a write that is no take finds it: after every change of stored limits that it has not met, each from its instant. One that
 * goes by limits of a request stays as it is: stored ones come back with a request.
 */
export function withStoredLimits(state: BucketState, bucket: BucketKey, context: RuleContext): BucketState {
  const { nowMs, calendar, generation } = context;
  const isRead = state.origin.generation === generation && nowMs < state.validUntilMs;
  if (state.origin.generation === null || isRead) return state;
  const stored = context.current?.of(bucket, generation, nowMs);
  if (stored === undefined) return state;
  const met = knowsMore(stored.origin, state.origin) ? bucketFor(state, stored, nowMs, calendar) : state;
  return heldUntilEnd(acrossBoundaries(met, nowMs, calendar), stored.origin, nowMs);
}

/** The bucket as it stands for the limits of a lease, which may be older than the stored ones. */
function stateForLease(state: BucketState | undefined, of: LimitedBucket, context: RuleContext): BucketState {
  return stateFor(state && withStoredLimits(state, of.bucket, context), of, context);
}

/** The bucket as a write that goes by older limits leaves its epoch: what is changed of limits later counts from it on. */
export function advanceToNow(state: BucketState, { nowMs, calendar }: RuleContext): BucketState {
  return advanced(state, nowMs, calendar);
}

/** The bucket as a write by the limits of a lease finds it. */
export function stateAtWrite(state: BucketState | undefined, of: LimitedBucket, context: RuleContext): BucketState {
  return advanceToNow(stateForLease(state, of, context), context);
}

/** The bucket as something is given back to it. */
export function stateForGiveBack(
  state: BucketState,
  { bucket, origin }: Pick<LimitedBucket, "bucket" | "origin">,
  context: RuleContext,
): BucketState {
  const { nowMs, calendar } = context;
  return heldUntilEnd(acrossBoundaries(withStoredLimits(state, bucket, context), nowMs, calendar), origin, nowMs);
}

/** The last claim before this one that is on the same bucket, by its index: each goes by what the earlier one left. -1: there is none. */
export function earlierOnSame(claims: readonly Claim[], index: number): number {
  const { id } = (claims[index] as Claim).bucket;
  for (let i = index - 1; i >= 0; i--) if ((claims[i] as Claim).bucket.id === id) return i;
  return -1;
}

/** A claim on limits that may be shadows: `take` has only the amounts of limits that do not let it pass by. */
export interface SplitClaim extends Claim {
  /** The shadow limits that would have refused it; absent: none. */
  readonly shadowed?: readonly string[];
}

/** The claim without amounts of shadows that would refuse it; the same object where there are none. */
export function splitShadows(state: BucketState, claim: Claim, nowMs: number): SplitClaim {
  if (state.plain || claim.bypass) return claim;
  const shadowed = shadowedOf(state, claim.take, nowMs, claim.leavePercent);
  return shadowed.length === 0 ? claim : { ...claim, take: withoutShadowed(claim.take, shadowed), shadowed };
}

/** Answers undefined if the claim does not fit. */
export function subtractClaim(state: BucketState, claim: SplitClaim, nowMs: number): BucketState | undefined {
  const { take, bypass, leavePercent, holdMs } = claim;
  if (bypass) return touched(state);
  const isPlain = leavePercent === undefined && holdMs === undefined;
  const after = isPlain ? takeFrom(state, take, nowMs) : takeBy(state, take, nowMs, claim);
  return after === undefined || after.plain ? after : withMarks({ before: state, after, amounts: take, nowMs });
}

/** Answers undefined if the debt would be too deep. */
export function subtractDebit(
  state: BucketState,
  { bypass }: Held,
  amounts: readonly Amount[],
  nowMs: number,
): BucketState | undefined {
  if (bypass) return touched(state);
  const after = debitFrom(state, amounts, nowMs);
  return after && withMarks({ before: state, after, amounts, nowMs });
}

/** The thresholds (`notifyAt`) that a take or a debit has crossed; undefined: none. */
export function thresholdsCrossed(
  take: Omit<BucketTake, "nowMs">,
  { bucket, bypass }: Pick<Claim, "bucket" | "bypass">,
  { nowMs, calendar }: RuleContext,
): readonly Crossed[] | undefined {
  return bypass || take.after.plain ? undefined : crossedBy({ ...take, nowMs }, bucket, calendar);
}

export function addCredit(state: BucketState, held: Held, amounts: readonly Amount[], nowMs: number): BucketState {
  return held.bypass ? state : giveBack(state, amounts, held.ticket, nowMs);
}

/** What a refund makes of a bucket that stands at the reading, and what it gives back. */
export function refunded(
  state: BucketState,
  amounts: readonly Amount[],
  { nowMs, calendar }: RuleContext,
): { readonly state: BucketState; readonly given: readonly Amount[]; readonly ticket: Ticket } {
  const given = missingOf(state, amounts, nowMs);
  const ticket = ticketOf(state, given, nowMs, calendar);
  return { state: giveBack(state, given, ticket, nowMs), given, ticket };
}

/** A purchase. Where one limit has no room for it, none gains anything. */
export function topUpState(
  state: BucketState | undefined,
  of: LimitedBucket,
  amounts: readonly Amount[],
  context: RuleContext,
): ToppedUp {
  return toppedUp(stateAtWrite(state, of, context), amounts, context.nowMs, context.calendar);
}

/** Sets limits to full, all of them when `limits` is undefined. */
export function resetState(
  state: BucketState | undefined,
  of: LimitedBucket,
  limits: readonly string[] | undefined,
  context: RuleContext,
): ToppedUp {
  const before = stateAtWrite(state, of, context);
  return { kind: "toppedUp", state: resetLimits(before, limits, context.nowMs, context.calendar), gained: [] };
}

/** The answer to a claim that left this state. */
export function takenAnswer(state: BucketState, claim: SplitClaim, context: RuleContext): TakenAnswer {
  const { take, bypass, shadowed, holdMs } = claim;
  const ticket = bypass ? PLAIN_TICKET : ticketOf(state, take, context.nowMs, context.calendar, holdMs);
  if (shadowed === undefined) return { kind: "taken", state, ticket, shadowed: NONE_SHADOWED };
  return { kind: "taken", state, ticket: { ...ticket, shadowed }, shadowed };
}

/** The answer to a debit that left this state. */
export function debitAnswer(
  state: BucketState,
  { bypass }: Held,
  amounts: readonly Amount[],
  { nowMs, calendar }: RuleContext,
): AppliedWrite {
  const ticket = bypass ? PLAIN_TICKET : ticketOf(state, amounts, nowMs, calendar);
  return ticket === PLAIN_TICKET ? { kind: "applied", state } : { kind: "applied", state, ticket };
}

/**
 * Usage counts the amounts of a claim that left this state, those that a bypass let pass, the soft limits that it left below zero, and the
 * shadows that would have refused it.
 */
export function usageOfTake(state: BucketState, claim: SplitClaim, nowMs: number): readonly Amount[] {
  const { take, bypass, shadowed } = claim;
  if (bypass) return usageOf(take, bypass);
  const overdrawn = overdrawnOf(state, take, nowMs);
  if (overdrawn.length === 0 && shadowed === undefined) return take;
  return [...take, ...onceEach("overdrafts", overdrawn), ...onceEach("wouldRefuse", shadowed ?? [])];
}

/** One request more for each of the limits. */
function onceEach(counter: UsageCounter, limits: readonly string[]): readonly Amount[] {
  return limits.map((limit) => ({ limit: countName(counter, limit), milli: 1000 }));
}

/** A credit says whether its slots were used, and whether it undoes the whole request. */
export type SlotsBack = Pick<CreditContext, "undoes" | "slotsUsed">;

/**
 * Usage counts these amounts as negative when they are given back to a bucket in this state. Slots that were used stay counted, and the
 * time that they were held comes on top, unless the whole request is undone.
 */
export function usageOfCredit(
  state: BucketState | undefined,
  { ticket, bypass }: Held,
  amounts: readonly Amount[],
  { slotsUsed, undoes }: SlotsBack,
  nowMs: number,
): readonly CountedAmount[] {
  const slots = bypass ? NONE : slotsOf(ticket, amounts);
  if (slots.length === 0) return usageOf(amounts, bypass);
  const counted = slotsUsed ? amounts.filter((amount) => !slots.includes(amount)) : amounts;
  const times = state === undefined || undoes !== undefined ? NONE : timeOfGivenBack(state, slots, ticket, nowMs);
  return [...counted, ...heldUsage(times).map(({ limit, milli }) => ({ limit, milli: minus(milli) }))];
}

/** Times that slots were held, under the name that usage has for them. */
export function heldUsage(times: readonly CountedAmount[]): readonly CountedAmount[] {
  return times.length === 0 ? NONE : times.map(({ limit, milli }) => ({ limit: countName("heldMs", limit), milli }));
}

/** Usage counts holds that ended by themselves between two states. */
export function usageOfEnded(
  before: BucketState | undefined,
  after: Pick<BucketState, "epochMs">,
): readonly CountedAmount[] {
  return heldUsage(timeOfEnded(before, after));
}

const NONE: readonly Amount[] = Object.freeze([]);

/** Usage counts amounts that passed by a bypass a second time, under a name of their own. */
export function usageOf(amounts: readonly Amount[], bypass: boolean): readonly Amount[] {
  if (!bypass) return amounts;
  return [...amounts, ...amounts.map(({ limit, milli }) => ({ limit: countName("bypassed", limit), milli }))];
}

/** A bucket that has been full this long equals a missing one, also for a client whose clock is behind by less. */
export const IDLE_MS = HOUR_MS;

/**
 * A bucket may be forgotten if the next one of its name begins as it would go on. One that has not met a change of limits goes by the change
 * first: it may not be full by that.
 */
export function mayForget(state: BucketState, bucket: BucketKey, context: RuleContext): boolean {
  const isIdleNow = (one: BucketState) => isIdle(one, IDLE_MS, context.nowMs, context.calendar);
  if (!isIdleNow(state)) return false;
  const met = withStoredLimits(state, bucket, context);
  return met === state || isIdleNow(met);
}

/** The store remembers purchases and resets by their keys for this long. */
export const OPERATIONS_KEPT_MS = 30 * 24 * HOUR_MS;

/** The last hour that is no longer kept, by its start: usage is kept from the end of its hour on. */
export function lastHourOverMs(nowMs: number, keepMs: number): number {
  return nowMs - keepMs - HOUR_MS;
}

/** The limits of at most this many buckets are remembered. */
const KNOWN_MAX = 10_000;

/** The stored limits of buckets, for writes that bring none of their own: each is worked out once a generation, and at each end. */
export class CurrentLimits {
  readonly #levelOf: (entityId: string, resource: string) => LevelConfig | undefined;
  readonly #known = new Map<string, KnownLimits>();
  #generation = 0;

  /** `levelOf` answers undefined where there is no such namespace any more. */
  constructor(levelOf: (entityId: string, resource: string) => LevelConfig | undefined) {
    this.#levelOf = levelOf;
  }

  of({ id, entityId, resource }: BucketKey, generation: number, nowMs: number): SourcedLimits | undefined {
    if (generation !== this.#generation || this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#generation = generation;
    const known = this.#known.get(id);
    if (known !== undefined && nowMs < known.untilMs) return known.limits;
    const level = known === undefined ? this.#levelOf(entityId, resource) : known.level;
    const now = level && levelAt(level, nowMs);
    const limits = now && limitsIn(now, resource, generation, nowMs);
    this.#known.set(id, { level: now, untilMs: now?.next?.atMs ?? Number.POSITIVE_INFINITY, limits });
    return limits;
  }
}

/** Limits as they are until an end. */
interface KnownLimits {
  readonly level: LevelConfig | undefined;
  readonly untilMs: number;
  readonly limits: SourcedLimits | undefined;
}

/** The limits of a bucket as a level of configuration has them at a reading of the clock; undefined where its scopes do not go together. */
export function limitsIn(
  level: LevelConfig,
  resource: string,
  generation: number,
  nowMs: number,
): SourcedLimits | undefined {
  const now = levelAt(level, nowMs);
  if (now.problem !== undefined) return undefined;
  const config = resource === TOTAL_RESOURCE ? asTotals(now) : now;
  return { set: limitSet(config.limits), origin: { asOfMs: nowMs, generation, ...changesIn(config, limitSet) } };
}
