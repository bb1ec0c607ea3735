import { withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import { acrossBoundaries, type BucketState } from "../../domain/bucket/bucket-state.ts";
import { byPeriod, type PeriodShare, PLAIN_TICKET, ticketOf } from "../../domain/bucket/give-back.ts";
import { type Amount, milliOf, sumByLimit } from "../../domain/charge/amounts.ts";
import { MILLI_MAX } from "../../domain/limits/limit-numbers.ts";
import { knowsMore } from "../../domain/limits/limit-set.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { CallContext, CreditContext, Held, Refunded, WriteReply } from "../../ports/bucket-store.ts";
import type { ItemKey, TracePart } from "../../ports/item-store.ts";
import { installLimits } from "../config/apply.ts";
import type { ProtocolContext } from "../context.ts";
import {
  type CreditAction,
  type CreditPlan,
  type CreditProgress,
  type CreditResult,
  creditEnded,
  nextCredit,
  onCredit,
  START_CREDIT,
} from "../decide/credit.ts";
import type { Image } from "../item/codec.ts";
import { canonicalOfSet } from "../item/limit-words.ts";
import { NOT_GIVEN_BACK } from "../process/background-tasks.ts";
import { beginCall } from "../process/call.ts";
import { drive, WaitingCaller } from "../process/drive.ts";
import type { Machine } from "../process/machine.ts";
import { PLACES_MAX, RETRY } from "../process/retry-policy.ts";
import { readWhole, stateOfShards } from "../shards/whole.ts";
import type { Sent } from "../take/job.ts";
import { ticketOfJob } from "../take/ticket.ts";
import { sheetBefore, sheetedBy } from "../usage/sheets.ts";
import { creditForm, type GiveBack, isOverBy } from "./credit.ts";
import { isRightPlace, isUnwrittenSince, lacksQuota, type Placed, placesFor, roomFor, unsplit } from "./place.ts";

/** Shared by all writes of one give-back. */
interface Giving {
  readonly held: Held;
  readonly readingMs: number;
  readonly untilMs: number;
  readonly caller: WaitingCaller;
  readonly slots: Pick<GiveBack, "slotsUsed" | "countsTime">;
}

/** `request`: a write also undoes the request: its count, its overdrafts, and a window that it opened. */
type Undoes = "request" | undefined;

/** Replies for a part of a give-back, and what remains to be undone. */
interface Given {
  readonly replies: readonly WriteReply[];
  readonly undoes: Undoes;
}

/**
 * Gives back by room: the mirror of taking. A ticket says when something was taken, not where, so a give-back is the same for
 * every process, whatever splits and joins came in between.
 *
 * A refused write is tried again for as long as `RETRY.giveBack` says, in the background once the caller's time is over: the
 * caller then gets the outcome `unknown`, so that it does not give back a second time. A lost answer ends it; an answer that
 * comes after the caller's time counts.
 */
export function giveBack(
  context: ProtocolContext,
  held: Held,
  amounts: readonly Amount[],
  asked: CreditContext,
): Promise<WriteReply> {
  const { timeoutMs, undoes, slotsUsed } = asked;
  const calledMs = context.clock.now();
  const caller = new WaitingCaller(calledMs + timeoutMs);
  const untilMs = calledMs + Math.max(timeoutMs, RETRY.giveBack.timeoutMs);
  const slots = { slotsUsed: slotsUsed === true, countsTime: undoes === undefined };
  const giving: Giving = { held, readingMs: beginCall(context, asked).nowMs, untilMs, caller, slots };
  return answeredInTime(context, giving, () => giveAll(context, giving, amounts, undoes));
}

/** Works in the background once the caller's time is over. */
function answeredInTime(
  context: ProtocolContext,
  giving: Giving,
  work: () => Promise<WriteReply>,
): Promise<WriteReply> {
  const { caches, background, returned } = context;
  const { caller } = giving;
  const { bucket } = giving.held;
  const working = caches.holding([bucket], work);
  void caller.left.then(() => {
    const late = working.then(orFault).finally(() => returned({ after: "use", bucket }));
    background.track(late, bucket, "give_back_not_stored", "a give-back could not be stored");
  });
  return Promise.race([working, caller.left.then(stillRetrying)]);
}

/**
 * Gives back without a ticket, at most what is missing. All shards are read first: what they have no room for together is left out, and the
 * rest is written on condition that there still is room for it. A call that is under way when the caller's time is over goes on in the background:
 * the outcome is `unknown` then.
 */
export async function refund(
  context: ProtocolContext,
  of: Refunded,
  amounts: readonly Amount[],
  asked: CallContext,
): Promise<WriteReply> {
  const untilMs = context.clock.now() + asked.timeoutMs;
  const giving: Giving = {
    ...{ held: { ...of, ticket: PLAIN_TICKET, bypass: false }, readingMs: beginCall(context, asked).nowMs, untilMs },
    ...{ caller: new WaitingCaller(untilMs), slots: { slotsUsed: false, countsTime: false } },
  };
  return answeredInTime(context, giving, () => refundAll(context, giving, amounts));
}

async function refundAll(context: ProtocolContext, giving: Giving, amounts: readonly Amount[]): Promise<WriteReply> {
  const { held, readingMs, untilMs, caller } = giving;
  const { calendar } = context.env;
  const read = { readingMs, untilMs, policy: RETRY.giveBack, caller };
  let given: readonly Amount[] = [];
  for (let looks = 0; ; looks++) {
    const left = amounts.map(({ limit, milli }) => ({ limit, milli: milli - milliOf(given, limit) }));
    const wholes = await readWhole(context, [held.bucket], read).catch(notRead);
    if ("kind" in wholes) return afterSome(given, wholes);
    const images = wholes[0]?.images ?? [];
    if (images.length === 0) return { kind: "gone" };
    // The limits in force say what is missing. A bucket that cannot go by them yet is judged by its own. The same limits may be back after
    // others that the bucket has not met, and a write that closes an hour would put those off.
    const { bucket, set, origin } = held;
    const inForce = { bucket, set, origin, readingMs, configConfirmed: false, untilMs, caller };
    const lacksChange = ({ canonical, state }: Image) =>
      canonical !== canonicalOfSet(set) || knowsMore(origin, state.origin);
    if (looks === 0 && images.some(lacksChange)) {
      await installLimits(context, inForce).catch(notRead);
      continue;
    }
    const states = images.map(({ state }) => acrossBoundaries(state, readingMs, calendar));
    const ticket = ticketOf(states[0] as BucketState, left, readingMs, calendar);
    const place = { ticket, readingMs, calendar };
    const due = left.flatMap(({ limit, milli }) => {
      const rooms = states.map((state) => roomFor(state, limit, place) ?? 0);
      const part = Math.min(
        milli,
        rooms.reduce((sum, room) => sum + room, 0),
        MILLI_MAX,
      );
      return part > 0 ? [{ limit, milli: part }] : [];
    });
    if (due.length === 0) return { kind: "applied", state: stateOfShards(images, calendar), given };
    let last: Image | undefined;
    let isOutgrown = false;
    for (const one of placesFor(images, due, place)) {
      const result = await giveTo(context, giving, { ticket, amounts: due }, one, undefined, "verified");
      if (result.kind === "unavailable") return afterSome(given, result);
      if (result.kind === "applied") {
        given = sumByLimit([...given, ...one.amounts]);
        last = result.image;
      } else isOutgrown = true;
    }
    // Nothing is left but what there was no room for.
    if (!isOutgrown && last !== undefined) return { kind: "applied", state: stateAfter(context, last), given };
    if (looks >= REFUND_LOOKS_MAX) return afterSome(given, outrun());
  }
}

/** A shard that others fill and empty again and again is looked at this often. */
const REFUND_LOOKS_MAX = 20;

function outrun(): WriteReply {
  const cause = new Error("Others changed the bucket at each attempt to give back.");
  return { kind: "unavailable", applied: "no", cause };
}

/** The reply where a part was given already: it must not be given again. */
function afterSome(given: readonly Amount[], reply: WriteReply): WriteReply {
  return given.length > 0 && reply.kind === "unavailable" ? { ...reply, applied: "unknown" } : reply;
}

async function giveAll(
  context: ProtocolContext,
  giving: Giving,
  amounts: readonly Amount[],
  undoes: Undoes,
): Promise<WriteReply> {
  const replies: WriteReply[] = [];
  let due = undoes;
  for (const share of byPeriod(giving.held.ticket, amounts).flatMap(inExactParts)) {
    const part = await giveShare(context, giving, share, due);
    replies.push(...part.replies);
    due = part.undoes;
  }
  return joinReplies(replies);
}

/** Each write counts by itself: a shard that has got its part must not get it again because another could not be reached. */
async function giveShare(context: ProtocolContext, giving: Giving, share: PeriodShare, undoes: Undoes): Promise<Given> {
  const replies: WriteReply[] = [];
  let due = undoes;
  let left = share.amounts;
  for (let looks = 0; ; looks++) {
    const places = await findPlaces(context, giving, { ...share, amounts: left }, looks).catch(notRead);
    if ("kind" in places) return { replies: [...replies, places], undoes: due };
    const outgrown: Placed[] = [];
    for (const place of places) {
      const result = await giveTo(context, giving, share, place, due, "guess");
      if (result.kind === "outgrown") {
        outgrown.push(place);
        continue;
      }
      replies.push(result.kind === "applied" ? { kind: "applied", state: stateAfter(context, result.image) } : result);
      // The first write that lands undoes the request. Unknown: it may be undone, so never again.
      if (result.kind === "applied" || isUnknown(result)) due = undefined;
    }
    if (outgrown.length === 0) return { replies, undoes: due };
    left = sumByLimit(outgrown.flatMap(({ amounts }) => amounts));
  }
}

/** Goes by the cache if one shard is known to have room for everything; otherwise all shards are read first. */
async function findPlaces(
  context: ProtocolContext,
  giving: Giving,
  share: PeriodShare,
  looks: number,
): Promise<readonly Placed[] | WriteReply> {
  const { held, readingMs } = giving;
  const { calendar } = context.env;
  const { amounts, ticket } = share;
  const cache = context.caches.of(held.bucket);
  if (looks === 0 && (held.bypass || cache.shardCount === 1)) return [unsplit(amounts)];
  const place = (images: readonly Image[]) => placesFor(images, amounts, { ticket, readingMs, calendar });
  if (looks === 0) {
    const known = place(cache.images());
    const [only] = known;
    if (known.length === 1 && only !== undefined && hasRoomForAll(only)) return known;
  }
  const images = await readShards(context, giving, share, looks);
  if (images.length === 0) return { kind: "gone" };
  if (images.length === 1 && images[0]?.shardCount === 1) return [unsplit(amounts)];
  // Others have filled every place again and again: rather exceed a capacity than give nothing back.
  return looks < PLACES_MAX ? place(images) : place(images).map((one) => ({ ...one, bounded: [] }));
}

/**
 * Reads all shards once; if a quota seems to have no room for what was taken from it, until two reads agree. A store reads one
 * shard after the other: tokens that are taken from a shard after it was read, and given back to one before it is read, leave
 * room on neither. A limit that drips refills that loss.
 */
async function readShards(
  context: ProtocolContext,
  { held, readingMs, untilMs, caller }: Giving,
  { amounts, ticket }: PeriodShare,
  looks: number,
): Promise<readonly Image[]> {
  const of = { ticket, readingMs, calendar: context.env.calendar };
  const policy = RETRY.giveBack;
  let images: readonly Image[] = [];
  for (let reads = looks; ; reads++) {
    const [whole] = await readWhole(context, [held.bucket], { readingMs, untilMs, policy, caller });
    const before = images;
    images = whole?.images ?? [];
    if (!lacksQuota(images, amounts, of)) return images;
    if (reads >= PLACES_MAX || isUnwrittenSince(before, images)) return images;
  }
}

function giveTo(
  context: ProtocolContext,
  { held, readingMs, untilMs, caller, slots }: Giving,
  { ticket }: PeriodShare,
  place: Placed,
  undoes: Undoes,
  from: "guess" | "verified",
): Promise<CreditResult> {
  const { env, caches } = context;
  const { shard, amounts, bounded } = place;
  const { bucket, bypass } = held;
  const key: ItemKey = { bucket, shard };
  const undone = undoes === undefined ? NOTHING_UNDONE : undoneBy(held);
  const { overdrawn, shadowed } = held.ticket;
  const trace = undoes && { undoes: overdrawn, ...given({ shadowed: shadowed.length > 0 ? shadowed : undefined }) };
  const parts: TracePart[] = [{ of: held, kind: "credit", amounts, ...trace }];
  const cache = caches.of(bucket);
  const plan: CreditPlan = {
    key,
    readingMs,
    needsImage:
      from === "verified" ||
      env.dialect.creditNeedsImage ||
      undone.opened.length > 0 ||
      isOverBy({ amounts, ticket }, readingMs),
    isPlace: (image) => bypass || isRightPlace(image, place, { ticket, readingMs, calendar: env.calendar }),
    sheetFor: (image) => sheetBefore(image, readingMs, cache.sheets[shard], env),
    writeFor: (image) => {
      const sheeted = sheetedBy(cache.sheets[shard]);
      const back = { readingMs, amounts, ticket, bounded, parts, bypass, ...undone, ...slots, sheeted };
      return creditForm(key, image, back, env);
    },
  };
  const machine: Machine<CreditProgress, CreditAction, CreditResult> = {
    ended: creditEnded,
    next: (progress, turn) => nextCredit(progress, { ...turn, cached: cache.seen(shard) }, plan),
    on: onCredit,
    untilMs: () => untilMs,
  };
  return drive(machine, START_CREDIT, { policy: RETRY.giveBack, caller }, context);
}

function stateAfter({ caches, env }: ProtocolContext, image: Image): BucketState {
  const images = caches.of(image.key.bucket).images();
  return stateOfShards(images.length === 0 ? [image] : images, env.calendar);
}

type Undone = Pick<GiveBack, "requests" | "overdrafts" | "wouldRefuse" | "opened">;

const NOTHING_UNDONE: Undone = { requests: 0, overdrafts: [], wouldRefuse: [], opened: [] };

function undoneBy({ ticket: { overdrawn, shadowed, opened } }: Held): Undone {
  const onceEach = (limits: readonly string[]) => limits.map((limit) => ({ limit, milli: 1000 }));
  return { requests: 1, overdrafts: onceEach(overdrawn), wouldRefuse: onceEach(shadowed), opened };
}

function isUnknown(result: CreditResult): boolean {
  return result.kind === "unavailable" && result.applied === "unknown";
}

/**
 * A lease that was charged many times, while its bucket refilled, may hold more than one write can add exactly: it comes back in
 * several.
 */
function inExactParts(share: PeriodShare): readonly PeriodShare[] {
  const { ticket, amounts } = share;
  if (amounts.every(({ milli }) => milli <= MILLI_MAX)) return [share];
  const first = amounts.map(({ limit, milli }) => ({ limit, milli: Math.min(milli, MILLI_MAX) }));
  const rest = amounts.flatMap(({ limit, milli }) => (milli > MILLI_MAX ? [{ limit, milli: milli - MILLI_MAX }] : []));
  return [{ ticket, amounts: first }, ...inExactParts({ ticket, amounts: rest })];
}

function hasRoomForAll({ amounts, bounded }: Placed): boolean {
  return amounts.every(({ limit, milli }) => bounded.some((one) => one.limit === limit && one.milli === milli));
}

/** A failed read comes before any write. */
export function notRead(error: unknown): WriteReply {
  if (error instanceof RateLimiterUnavailable) return { kind: "unavailable", applied: "no", cause: error };
  throw error;
}

/** No caller is left to get the reply: report it as a fault. */
function orFault(reply: WriteReply): void {
  if (reply.kind === "unavailable") throw reply.cause;
}

function stillRetrying(): WriteReply {
  const cause = new Error("the give-back is not stored yet; it is retried in the background");
  return { kind: "unavailable", applied: "unknown", cause };
}

/** Joins replies. Work that was done in part must not be repeated as a whole. */
function joinReplies(replies: readonly WriteReply[]): WriteReply {
  const missed = replies.find(({ kind }) => kind === "unavailable");
  const done = replies.find(({ kind }) => kind === "applied");
  if (missed?.kind === "unavailable" && done !== undefined) return { ...missed, applied: "unknown" };
  return missed ?? done ?? { kind: "gone" };
}

/** Gives back a write that was applied after its outcome was reported as unknown: no caller was granted anything for it. */
export function giveBackLate(context: ProtocolContext, { jobs, leaves, sides, intent }: Sent): void {
  const { clock, env, background, returned } = context;
  const written = { written: leaves, readingMs: intent.readingMs, by: { jobs, sides } };
  for (const job of jobs) {
    // A debit is the price of work that was done, whatever outcome its caller got. A late renewal only ends later.
    if (job.kind !== "take") continue;
    const ticket = ticketOfJob(job, written, env);
    const { bucket } = job.of;
    const taken = withoutShadowed(job.amounts, ticket.shadowed);
    const call = { nowMs: clock.now(), timeoutMs: RETRY.giveBack.timeoutMs, undoes: "request" } as const;
    const work = giveBack(context, { ...job.of, ticket }, taken, call)
      .then(orFault)
      .finally(() => returned({ after: "use", bucket }));
    background.track(work, bucket, "give_back_not_stored", NOT_GIVEN_BACK);
  }
}
