import { minus } from "../bucket/count.ts";
import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import { overdrawnOf } from "../domain/bucket/bucket-questions.ts";
import {
  acrossBoundaries,
  advanced,
  type BucketState,
  bornAs,
  bucketFor,
  countFrom,
  debitFrom,
  freshBucket,
  takeBy,
  takeFrom,
  touched,
} from "../domain/bucket/bucket-state.ts";
import { giveBack, PLAIN_TICKET, ticketOf } from "../domain/bucket/give-back.ts";
import type { LimitedBucket, SourcedLimits } from "../domain/bucket/limited-bucket.ts";
import { type RenewedSlots, renewSlots, slotsOf } from "../domain/bucket/renew-slots.ts";
import { timeOfEnded, timeOfGivenBack } from "../domain/bucket/slot-time.ts";
import type { Amount, CountedAmount } from "../domain/charge/amounts.ts";
import { countName, type UsageCounter } from "../domain/charge/usage-counters.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import { knowsMore } from "../domain/limits/limit-set.ts";
import { shadowedOf, withoutShadowed } from "../domain/limits/shadow.ts";
import { type BucketTake, type Crossed, crossedBy, withMarks } from "../domain/limits/thresholds.ts";
import type { Claim, CreditContext, Held, TakenAnswer } from "../ports/bucket-store.ts";
import type { AppliedWrite } from "../ports/lease-change.ts";
import type { CurrentLimits } from "./current-limits.ts";

const NONE_SHADOWED: readonly string[] = Object.freeze([]);

/** What a call on buckets goes by. */
export interface RuleContext {
  readonly nowMs: number;
  readonly calendar: Calendar;
  /** The generation of configuration, as the store has it at this call. */
  readonly generation: number;
  /** The stored limits of buckets, of that generation; undefined where nobody can have changed them. */
  readonly current: Pick<CurrentLimits, "of"> | undefined;
}

/**
 * Who plans a take. A plan was made with the limits of the generation that is compared; those of a lease may have been changed
 * since, and such a change counts from the write on at the earliest.
 */
export type Planner = "plan" | "lease";

/** The bucket as it stands for these limits; the same object when nothing was due. */
export function standing(state: BucketState | undefined, of: SourcedLimits, context: RuleContext): BucketState {
  const { nowMs, calendar, generation } = context;
  if (state !== undefined) return bucketFor(state, of, nowMs, calendar);
  // Numbered by the store's generation: what the bucket is made for may be older than a deletion.
  return bornAs(freshBucket(of.set, of.origin, nowMs, calendar), countFrom(nowMs, generation));
}

/**
 * The bucket as a write that is no take finds it: after every change of stored limits that it has not met, each from its instant. One that
 * goes by limits of a request stays as it is: stored ones come back with a request.
 */
export function met(state: BucketState, bucket: BucketKey, context: RuleContext): BucketState {
  const { nowMs, calendar, generation } = context;
  if (state.origin.generation === null || state.origin.generation === generation) return state;
  const stored = context.current?.of(bucket, generation, nowMs);
  return stored !== undefined && knowsMore(stored.origin, state.origin)
    ? bucketFor(state, stored, nowMs, calendar)
    : state;
}

/** The bucket as it stands for the limits of a lease, which may be older than the stored ones. */
export function standingOfLease(state: BucketState | undefined, of: LimitedBucket, context: RuleContext): BucketState {
  return standing(state && met(state, of.bucket, context), of, context);
}

/** The bucket as a write that goes by older limits leaves its epoch: what is changed of limits later counts from it on. */
export function atWrite(state: BucketState, { nowMs, calendar }: RuleContext): BucketState {
  return advanced(state, nowMs, calendar);
}

/** The bucket as something is given back to it. */
export function atGiveBack(state: BucketState, bucket: BucketKey, context: RuleContext): BucketState {
  return acrossBoundaries(met(state, bucket, context), context.nowMs, context.calendar);
}

/** The last claim before this one that is on the same bucket, by its index: each goes by what the earlier one left. -1: there is none. */
export function earlierOnSame(claims: readonly Claim[], index: number): number {
  const { id } = (claims[index] as Claim).bucket;
  for (let i = index - 1; i >= 0; i--) if ((claims[i] as Claim).bucket.id === id) return i;
  return -1;
}

/** A claim of which is known what it passes by: `take` is what it takes of the other limits. */
export interface Decided extends Claim {
  /** The shadow limits that would have refused it; absent: none. */
  readonly shadowed?: readonly string[];
}

/** What a claim asks of a bucket that stands for it: the claim itself, unless a shadow would refuse it. */
export function decided(state: BucketState, claim: Claim, nowMs: number): Decided {
  if (state.plain || claim.bypass) return claim;
  const shadowed = shadowedOf(state, claim.take, nowMs, claim.leavePercent);
  return shadowed.length === 0 ? claim : { ...claim, take: withoutShadowed(claim.take, shadowed), shadowed };
}

/** What a claim leaves of a bucket that stands for it; undefined where it does not fit. */
export function taken(state: BucketState, claim: Decided, nowMs: number): BucketState | undefined {
  const { take, bypass, leavePercent, holdMs } = claim;
  if (bypass) return touched(state);
  const isPlain = leavePercent === undefined && holdMs === undefined;
  const after = isPlain ? takeFrom(state, take, nowMs) : takeBy(state, take, nowMs, claim);
  return after === undefined || after.plain ? after : withMarks({ before: state, after, amounts: take, nowMs });
}

/** What a debit leaves of a bucket at its write; undefined where it would be too deep. */
export function debited(
  state: BucketState,
  { bypass }: Held,
  amounts: readonly Amount[],
  nowMs: number,
): BucketState | undefined {
  if (bypass) return touched(state);
  const after = debitFrom(state, amounts, nowMs);
  return after && withMarks({ before: state, after, amounts, nowMs });
}

/** What a take or a debit that made this of a bucket has to tell; undefined: nothing. */
export function toldBy(
  take: Omit<BucketTake, "nowMs">,
  { bucket, bypass }: Pick<Claim, "bucket" | "bypass">,
  { nowMs, calendar }: RuleContext,
): readonly Crossed[] | undefined {
  return bypass || take.after.plain ? undefined : crossedBy({ ...take, nowMs }, bucket, calendar);
}

/** A renewal: what it makes of a bucket, or undefined where what it renews is held no more. */
export function renewedSlots(
  state: BucketState,
  { ticket, holdMs }: Held,
  amounts: readonly Amount[],
  nowMs: number,
): RenewedSlots | undefined {
  return renewSlots(state, amounts, ticket, { nowMs, holdMs });
}

/** What a bucket is after amounts were given back to it. */
export function credited(state: BucketState, held: Held, amounts: readonly Amount[], nowMs: number): BucketState {
  return held.bypass ? state : giveBack(state, amounts, held.ticket, nowMs);
}

/** The answer to a claim that left this state. */
export function takenAnswer(state: BucketState, claim: Decided, context: RuleContext): TakenAnswer {
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
 * What usage counts of a claim that left this state: its amounts, what passed by a bypass or left a soft limit below zero, and which
 * shadows would have refused it.
 */
export function countedOfTake(state: BucketState, claim: Decided, nowMs: number): readonly Amount[] {
  const { take, bypass, shadowed } = claim;
  if (bypass) return countedOf(take, bypass);
  const overdrawn = overdrawnOf(state, take, nowMs);
  if (overdrawn.length === 0 && shadowed === undefined) return take;
  return [...take, ...onceEach("overdrafts", overdrawn), ...onceEach("wouldRefuse", shadowed ?? [])];
}

/** One request more for each of the limits. */
function onceEach(counter: UsageCounter, limits: readonly string[]): readonly Amount[] {
  return limits.map((limit) => ({ limit: countName(counter, limit), milli: 1000 }));
}

/** How slots come back that are given back. */
export type SlotsBack = Pick<CreditContext, "undoes" | "slotsUsed">;

/**
 * What usage counts, as negative, of amounts that are given back to a bucket as it stands before. Slots that were used stay counted, and
 * how long they were held comes on top, unless the whole request is undone.
 */
export function countedOfCredit(
  state: BucketState | undefined,
  { ticket, bypass }: Held,
  amounts: readonly Amount[],
  { slotsUsed, undoes }: SlotsBack,
  nowMs: number,
): readonly CountedAmount[] {
  const slots = bypass ? NONE : slotsOf(ticket, amounts);
  if (slots.length === 0) return countedOf(amounts, bypass);
  const counted = slotsUsed ? amounts.filter((amount) => !slots.includes(amount)) : amounts;
  const times = state === undefined || undoes !== undefined ? NONE : timeOfGivenBack(state, slots, ticket, nowMs);
  return [...counted, ...heldCounts(times).map(({ limit, milli }) => ({ limit, milli: minus(milli) }))];
}

/** Times that slots were held, under the name that usage has for them. */
export function heldCounts(times: readonly CountedAmount[]): readonly CountedAmount[] {
  return times.length === 0 ? NONE : times.map(({ limit, milli }) => ({ limit: countName("heldMs", limit), milli }));
}

/** What usage counts of time alone: holds that ended by themselves before a bucket stands as it does. */
export function countedOfTime(
  before: BucketState | undefined,
  after: Pick<BucketState, "epochMs">,
): readonly CountedAmount[] {
  return heldCounts(timeOfEnded(before, after));
}

const NONE: readonly Amount[] = Object.freeze([]);

/** What usage counts of amounts that are debited or given back. */
export function countedOf(amounts: readonly Amount[], bypass: boolean): readonly Amount[] {
  if (!bypass) return amounts;
  return [...amounts, ...amounts.map(({ limit, milli }) => ({ limit: countName("bypassed", limit), milli }))];
}
