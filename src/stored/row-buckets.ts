import type { ToppedUp } from "../domain/bucket/bucket-operations.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { renewSlots } from "../domain/bucket/slot-time.ts";
import type { Amount, CountedAmount } from "../domain/charge/amounts.ts";
import type { LimitedBucket } from "../domain/limits/limit-set.ts";
import type { Crossed } from "../domain/limits/thresholds.ts";
import type {
  Answer,
  Claim,
  Held,
  OperationReply,
  Refunded,
  RenewReply,
  TakenAnswer,
  WriteReply,
} from "../ports/bucket-store.ts";
import type { AppliedWrite, ChangeReply, Charged, Debited, LeaseMoves } from "../ports/lease-store.ts";
import {
  addCredit,
  advanceToNow,
  debitAnswer,
  earlierOnSame,
  heldUsage,
  type LimitsFrom,
  type RuleContext,
  refunded,
  resetState,
  type SlotsBack,
  type SplitClaim,
  splitShadows,
  stateAtWrite,
  stateForGiveBack,
  stateForTake,
  subtractClaim,
  subtractDebit,
  takenAnswer,
  thresholdsCrossed,
  topUpState,
  usageOf,
  usageOfCredit,
  usageOfTake,
} from "./bucket-rules.ts";

interface Placed {
  /** That of the bucket. */
  readonly id: string;
}

/** A call makes this of a bucket that stands for it, and usage counts these amounts. */
export interface RowChange {
  readonly state: BucketState;
  readonly amounts: readonly CountedAmount[];
  /** -1: the amounts are given back. */
  readonly sign: 1 | -1;
  readonly requests: 0 | 1;
}

/**
 * The buckets of one namespace for one call, in a store that keeps a bucket as one row. No other call comes between: the store runs in
 * one thread, or the call is inside a transaction. A call puts all its rows or, where it throws, none.
 */
export interface Rows<Place extends Placed> {
  readonly context: RuleContext;
  /** The place of a bucket. `replaced`: what is there may be unreadable, and counts as missing then. */
  place(of: Pick<Claim, "bucket" | "link">, needs?: "replaced"): Place;
  /** Undefined: there is no such bucket. */
  state(place: Place): BucketState | undefined;
  /** Writes a bucket that stands like this for the call, with what the call makes of it. The store counts holds that ended meanwhile. */
  put(place: Place, standing: BucketState, change?: RowChange): void;
  /** Counts amounts that are given back to a bucket that is forgotten. */
  countForgotten(place: Place, amounts: readonly CountedAmount[]): void;
  /** Tells of thresholds once what was put is committed. */
  tell(crossed: readonly Crossed[]): void;
}

/** All claims or none. */
export function takeAll<Place extends Placed>(
  rows: Rows<Place>,
  claims: readonly Claim[],
  limitsFrom: LimitsFrom,
): readonly Answer[] {
  if (claims.length === 1) {
    const claim = claims[0] as Claim;
    return [takeOne(rows, claim, limitsFrom) ?? refuse(rows, rows.place(claim), claim, limitsFrom, "short")];
  }
  const places = claims.map((claim) => rows.place(claim));
  const takes: RowTake[] = [];
  for (let i = 0; i < claims.length; i++) {
    const earlier = takes[earlierOnSame(claims, i)];
    const state = earlier === undefined ? rows.state(places[i] as Place) : (earlier.after ?? earlier.standing);
    takes.push(takeFrom(state, claims[i] as Claim, limitsFrom, rows.context));
  }
  if (!takes.every(isGranted)) {
    return claims.map((claim, i) =>
      refuse(rows, places[i] as Place, claim, limitsFrom, takes[i]?.after === undefined ? "short" : "skipped"),
    );
  }
  for (const [i, take] of takes.entries()) putTake(rows, places[i] as Place, take);
  for (const { claim, standing, after } of takes) tell(rows, claim, claim.take, standing, after);
  return takes.map(({ claim, after }) => takenAnswer(after, claim, rows.context));
}

/** Answers undefined if the claim does not fit; then nothing was written. */
export function takeOne<Place extends Placed>(
  rows: Rows<Place>,
  asked: Claim,
  limitsFrom: LimitsFrom,
): TakenAnswer | undefined {
  const place = rows.place(asked);
  const take = takeFrom(rows.state(place), asked, limitsFrom, rows.context);
  if (!isGranted(take)) return undefined;
  const { claim, standing, after } = take;
  putTake(rows, place, take);
  tell(rows, claim, claim.take, standing, after);
  return takenAnswer(after, claim, rows.context);
}

export function debit<Place extends Placed>(rows: Rows<Place>, held: Held, amounts: readonly Amount[]): Debited {
  const { context } = rows;
  const place = rows.place(held);
  const standing = stateAtWrite(rows.state(place), held, context);
  const state = subtractDebit(standing, held, amounts, context.nowMs);
  if (state === undefined) return { kind: "tooDeep" };
  rows.put(place, standing, { state, amounts: usageOf(amounts, held.bypass), sign: 1, requests: 0 });
  tell(rows, held, amounts, standing, state);
  return debitAnswer(state, held, amounts, context);
}

/** Amounts that are given back were not used, also if they come too late for their period, or for a bucket that is forgotten. */
export function credit<Place extends Placed>(
  rows: Rows<Place>,
  held: Held,
  amounts: readonly Amount[],
  slots: SlotsBack,
): WriteReply {
  const { context } = rows;
  const place = rows.place(held);
  const standing = giveBackState(rows, place, held);
  const counted = usageOfCredit(standing, held, amounts, slots, context.nowMs);
  if (standing === undefined) {
    rows.countForgotten(place, counted);
    return { kind: "gone" };
  }
  const state = addCredit(standing, held, amounts, context.nowMs);
  rows.put(place, standing, { state, amounts: counted, sign: -1, requests: 0 });
  return { kind: "applied", state };
}

/** Gives back without a ticket, at most what is missing. */
export function refund<Place extends Placed>(rows: Rows<Place>, of: Refunded, amounts: readonly Amount[]): WriteReply {
  const { context } = rows;
  const place = rows.place(of);
  const seen = rows.state(place);
  if (seen === undefined) return { kind: "gone" };
  const standing = stateAtWrite(seen, of, context);
  const { state, given } = refunded(standing, amounts, context);
  if (given.length > 0) rows.put(place, standing, { state, amounts: given, sign: -1, requests: 0 });
  return { kind: "applied", state, given };
}

/** A renewal that is lost writes nothing: the next write counts holds that ended meanwhile. */
export function renew<Place extends Placed>(rows: Rows<Place>, held: Held, amounts: readonly Amount[]): RenewReply {
  const { nowMs } = rows.context;
  const place = rows.place(held);
  const standing = giveBackState(rows, place, held);
  const renewed = standing && renewSlots(standing, amounts, held.ticket, { nowMs, holdMs: held.holdMs });
  if (standing === undefined || renewed === undefined) return { kind: "lost" };
  const { state, ticket, times } = renewed;
  rows.put(place, standing, { state, amounts: heldUsage(times), sign: 1, requests: 0 });
  return { kind: "renewed", ticket };
}

export function topUp<Place extends Placed>(
  rows: Rows<Place>,
  of: LimitedBucket,
  amounts: readonly Amount[],
): OperatedRow {
  const place = rows.place(of);
  return operate(rows, place, topUpState(rows.state(place), of, amounts, rows.context));
}

/** All limits when undefined: then it does not matter what the bucket held, nor whether that can be read. */
export function reset<Place extends Placed>(
  rows: Rows<Place>,
  of: LimitedBucket,
  limits: readonly string[] | undefined,
): OperatedRow {
  const place = rows.place(of, limits === undefined ? "replaced" : undefined);
  return operate(rows, place, resetState(rows.state(place), of, limits, rows.context));
}

/** The result of an operation, before it is remembered by its key: `amounts` is what each limit gained. */
export type OperatedRow =
  | { readonly kind: "done"; readonly amounts: readonly Amount[] }
  | Extract<OperationReply, { readonly kind: "tooLarge" }>;

function operate<Place extends Placed>(rows: Rows<Place>, place: Place, operated: ToppedUp): OperatedRow {
  if (operated.kind === "tooLarge") return operated;
  rows.put(place, operated.state);
  return { kind: "done", amounts: operated.gained };
}

/** The result of the moves of a lease, or why the change is not made. Only the rows of `short` may be kept. */
type Moved =
  | { readonly kind: "moved"; readonly charged: Charged; readonly credited: readonly WriteReply[] }
  | Extract<ChangeReply, { readonly kind: "short" | "lost" | "tooDeep" }>;

export function moveAll<Place extends Placed>(rows: Rows<Place>, moves: LeaseMoves): Moved {
  if (moves.kind === "take") {
    const answers = takeAll(rows, moves.claims, "lease");
    if (!areTaken(answers)) return { kind: "short", answers };
    return { kind: "moved", charged: { kind: "take", taken: answers }, credited: [] };
  }
  if (moves.kind === "renew") {
    const renewed: RenewReply[] = [];
    for (const renewal of moves.renewals) {
      const reply = renew(rows, renewal.held, renewal.amounts);
      if (reply.kind === "lost" && !renewal.isOptional) return { kind: "lost", renewal };
      renewed.push(reply);
    }
    return { kind: "moved", charged: { kind: "renew", renewed }, credited: [] };
  }
  const debited: AppliedWrite[] = [];
  for (const movement of moves.debits) {
    const reply = debit(rows, movement.held, movement.amounts);
    if (reply.kind === "tooDeep") return { kind: "tooDeep", debit: movement };
    debited.push(reply);
  }
  const credited = moves.credits.map((one) => credit(rows, one.held, one.amounts, one));
  return { kind: "moved", charged: { kind: "difference", debited }, credited };
}

export function areTaken(answers: readonly Answer[]): answers is readonly TakenAnswer[] {
  return answers.every(({ kind }) => kind === "taken");
}

/** Rows that see what was put before them; the store sees all of it with `commit`, and none of it without. */
export function draftRows<Place extends Placed>(rows: Rows<Place>): Rows<Place> & { commit(): void } {
  const states = new Map<string, BucketState>();
  const writes: (() => void)[] = [];
  return {
    context: rows.context,
    place: (of, needs) => rows.place(of, needs),
    state: (place) => states.get(place.id) ?? rows.state(place),
    put: (place, standing, change) => {
      states.set(place.id, change?.state ?? standing);
      writes.push(() => rows.put(place, standing, change));
    },
    countForgotten: (place, amounts) => {
      writes.push(() => rows.countForgotten(place, amounts));
    },
    tell: (crossed) => {
      writes.push(() => rows.tell(crossed));
    },
    commit: () => {
      for (const write of writes) write();
    },
  };
}

/** A claim on a bucket that stands for it, without what passes by its shadows; `after` is undefined where it does not fit. */
interface RowTake {
  readonly claim: SplitClaim;
  readonly standing: BucketState;
  readonly after: BucketState | undefined;
}

function takeFrom(seen: BucketState | undefined, asked: Claim, limitsFrom: LimitsFrom, context: RuleContext): RowTake {
  const state = stateForTake(seen, asked, limitsFrom, context);
  const standing = limitsFrom === "config" ? state : advanceToNow(state, context);
  const claim = splitShadows(standing, asked, context.nowMs);
  return { claim, standing, after: subtractClaim(standing, claim, context.nowMs) };
}

function isGranted(take: RowTake): take is RowTake & { readonly after: BucketState } {
  return take.after !== undefined;
}

function putTake<Place extends Placed>(
  rows: Rows<Place>,
  place: Place,
  { claim, standing, after }: RowTake & { readonly after: BucketState },
): void {
  const { countsUsage, nowMs } = rows.context;
  const amounts = countsUsage ? usageOfTake(after, claim, nowMs) : claim.take;
  rows.put(place, standing, { state: after, amounts, sign: 1, requests: 1 });
}

/** Changed limits count from the moment they reach the bucket, granted or refused. A bucket that is missing stays so: refusals fill no store. */
function refuse<Place extends Placed>(
  rows: Rows<Place>,
  place: Place,
  claim: Claim,
  limitsFrom: LimitsFrom,
  kind: "short" | "skipped",
): Answer {
  const seen = rows.state(place);
  const state = stateForTake(seen, claim, limitsFrom, rows.context);
  if (seen !== undefined && state !== seen) rows.put(place, state);
  return { kind, state };
}

function tell(
  rows: Pick<Rows<Placed>, "context" | "tell">,
  of: Pick<Claim, "bucket" | "bypass">,
  amounts: readonly Amount[],
  before: BucketState,
  after: BucketState,
): void {
  const crossed = thresholdsCrossed({ before, after, amounts }, of, rows.context);
  if (crossed !== undefined) rows.tell(crossed);
}

function giveBackState<Place extends Placed>(rows: Rows<Place>, place: Place, held: Held): BucketState | undefined {
  const state = rows.state(place);
  return state === undefined || held.bypass ? state : stateForGiveBack(state, held, rows.context);
}
