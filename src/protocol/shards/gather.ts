import { divFloor } from "../../bucket/integers.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { fits, withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import { type BucketState, findLimit, takeBy, wholeOf } from "../../domain/bucket/bucket-state.ts";
import { joinedTicket, type PeriodShare, type Ticket } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { checkAtomic } from "../../domain/charge/charge-errors.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { isHard } from "../../domain/limits/limit.ts";
import { floorMilli } from "../../domain/limits/limit-numbers.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { given } from "../../domain/names/given.ts";
import type { Answer, Claim } from "../../ports/bucket-store.ts";
import type { ItemWrite } from "../../ports/item-store.ts";
import { installWrite } from "../config/apply.ts";
import type { Doubt } from "../config/config-readings.ts";
import type { ProtocolContext } from "../context.ts";
import { type Drawn, isWhole, type Plan, type Whole } from "../decide/transact.ts";
import type { Image } from "../item/codec.ts";
import { type TakeListener, takenOf } from "../marks/mark.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import type { CallTime } from "../process/call.ts";
import { RETRY } from "../process/retry-policy.ts";
import { admit } from "../take/admission.ts";
import { createForm, formFor } from "../take/forms.ts";
import type { Env, Move, Step } from "../take/intent.ts";
import { intentOf, type Job, jobOfClaim, leaveOf, mustReadConfig } from "../take/job.ts";
import { ticketOfJob } from "../take/ticket.ts";
import { sheetBefore, sheetedBy } from "../usage/sheets.ts";
import { roomIn } from "./split.ts";
import { stateOfShards, transactPlan } from "./whole.ts";

/** The amount of a limit that a job must leave in the whole bucket; 0 if it has no floor, or the limit is soft. */
function floorOfWhole(states: readonly BucketState[], limit: string, job: Job, calendar: Calendar): number {
  const leavePercent = leaveOf(job);
  if (leavePercent === 0) return 0;
  const held = findLimit(wholeOf(states, calendar), limit);
  return held === undefined || held.limit.soft ? 0 : floorMilli(held.terms.capacityMilli, leavePercent);
}

/**
 * Bounds the moves of one shard for a floor. A floor is one of the whole bucket, but a condition is about one shard. So every
 * shard is written, or at least checked, in the transaction: each may have lost its part of what lies above the floor since it
 * was read, and no more.
 */
function boundMoves(
  moves: readonly Move[],
  { states, at, job }: { readonly states: readonly BucketState[]; readonly at: number; readonly job: Job },
  calendar: Calendar,
): readonly Move[] {
  return moves.map((move) => {
    const { limit, milli } = move;
    const rooms = states.map((state) => roomIn(state, limit, job.readingMs));
    const total = rooms.reduce((all, room) => all + room, 0);
    const asked = job.amounts.reduce((sum, one) => (one.limit === limit ? sum + one.milli : sum), 0);
    const spareMilli = total - asked - floorOfWhole(states, limit, job, calendar);
    const least = (rooms[at] as number) - divFloor(Math.max(0, spareMilli), rooms.length);
    // A shard that gives something must also have it.
    return { ...move, floors: [{ afterMilli: milli > 0 ? Math.max(milli, least) : least, leavePercent: 0 }] };
  });
}

/**
 * Takes all claims in one transaction: for callers that want no moment in which only some are taken, and for a claim that fits a
 * bucket as a whole but none of its shards. Everything that fits the whole bucket is granted.
 */
export function takeTogether(
  context: ProtocolContext,
  claims: readonly Claim[],
  { nowMs, untilMs }: CallTime,
  listener: TakeListener,
): Promise<readonly Answer[]> {
  const unavailable = (cause: unknown) => claims.map((): Answer => ({ kind: "unavailable", cause }));
  const plan: Plan<readonly Answer[]> = {
    buckets: claims.map(({ bucket }) => bucket),
    readingMs: nowMs,
    untilMs,
    policy: RETRY.takeTogether,
    record: undefined,
    draw: (wholes) => draw(context, claims, wholes, nowMs),
    gaveUp: (wholes, cause) => {
      if (cause !== undefined) return unavailable(cause);
      return claims.map((claim, i): Answer => {
        const whole = wholes[i];
        if (whole === undefined || !isWhole(whole)) return { kind: "unseen" };
        return { kind: "contended", state: wholeState(context, claim, whole, nowMs) };
      });
    },
    unknown: unavailable,
  };
  const taken = transactPlan(context, plan, isCached(context, plan.buckets) ? "guess" : "reading");
  return taken.then((answers) => {
    for (const [i, claim] of claims.entries()) {
      const answer = answers[i];
      if (answer?.kind !== "taken") continue;
      // A transaction shows no items: its computed result stands for them.
      listener.look(claim, { amounts: takenOf(claim.take, answer.ticket), readingMs: nowMs }, answer.state);
    }
    return answers;
  });
}

function isCached({ caches }: ProtocolContext, buckets: readonly BucketKey[]): boolean {
  return buckets.every((bucket) => {
    const cache = caches.of(bucket);
    return cache.shardCount === 1 && cache.seen(0) !== undefined;
  });
}

/** A claim on a bucket as it stands. */
interface Asked {
  readonly job: Job;
  readonly whole: Whole;
  readonly state: BucketState;
  readonly configConfirmed: boolean;
}

function draw(
  context: ProtocolContext,
  claims: readonly Claim[],
  wholes: readonly Whole[],
  nowMs: number,
): Drawn<readonly Answer[]> {
  const asked = claims.map((claim, i): Asked => {
    const whole = wholes[i] as Whole;
    const state = wholeState(context, claim, whole, nowMs);
    return { job: jobOfClaim(claim, nowMs), whole, state, configConfirmed: false };
  });
  const end = (
    kindOf: (i: number) => "contended" | "configSuspect" | "short" | "skipped",
    installs: readonly ItemWrite[],
  ): Drawn<readonly Answer[]> => {
    return { kind: "result", installs, result: asked.map(({ state }, i): Answer => ({ kind: kindOf(i), state })) };
  };
  // Slots are held in one item, and shadows decide by the whole bucket. The next request joins the shards first.
  if (asked.some((one) => isOfOneItem(context, one))) return end(() => "contended", []);
  const doubts = asked.map((one) => doubtIn(context, one));
  if (doubts.includes("configSuspect")) {
    return end((i) => (doubts[i] === "configSuspect" ? "configSuspect" : "skipped"), []);
  }
  const known = asked.map((one, i) => ({ ...one, configConfirmed: doubts[i] === "confirmed" }));
  const short = known.map((one) => isShort(context, one));
  if (short.includes(true)) {
    // Changed limits reach a bucket also with a refused claim.
    const installs = known.flatMap((one) => installsFor(context, one));
    return end((i) => (short[i] ? "short" : "skipped"), installs);
  }
  const sheets = wholes.flatMap((whole) => sheetsBefore(context, whole, nowMs));
  if (sheets.length > 0) return { kind: "install", installs: sheets };
  const writes: ItemWrite[] = [];
  const answers: Answer[] = [];
  for (const [i, one] of known.entries()) {
    const taken = gather(context, one);
    // Only a moment's rounding lies between what fits the whole and what its shards give.
    if (taken === undefined) return end((at) => (at === i ? "short" : "skipped"), []);
    writes.push(...taken.writes);
    answers.push({ kind: "taken", state: taken.state, ticket: taken.ticket, shadowed: taken.ticket.shadowed });
  }
  // A claim on a bucket in shards may take from several.
  const [first] = claims;
  if (first !== undefined) {
    checkAtomic(first.bucket, { items: writes.length, itemsMax: context.env.dialect.atomicItemsMax });
  }
  return { kind: "transact", writes, event: undefined, result: answers };
}

/** The shards as they stand for the job, with its limits installed. */
function statesFor({ env }: ProtocolContext, { whole, job, configConfirmed }: Asked): readonly BucketState[] {
  const { readingMs } = job;
  return whole.images.map((image) => admit(image, [job], { readingMs, configConfirmed }, env).state);
}

/** The shards' own limits count: they may know a change that the claim does not. */
function isOfOneItem(context: ProtocolContext, asked: Asked): boolean {
  const { of, amounts } = asked.job;
  if (of.bypass || asked.whole.images.length < 2) return false;
  return statesFor(context, asked).some((state) =>
    amounts.some(({ limit: name, milli }) => {
      const limit = findLimit(state, name)?.limit;
      return limit !== undefined && (limit.shadow === true || (rulesOf(limit).holdsSlots && milli > 0));
    }),
  );
}

/** True if the shards of a bucket cannot give it together, each limit by itself. */
function isShort(context: ProtocolContext, asked: Asked): boolean {
  const { job, whole, state } = asked;
  if (job.of.bypass) return false;
  if (whole.images.length < 2) return !fits(state, job.amounts, job.readingMs, leaveOf(job));
  return sharesOf(context, job, statesFor(context, asked)) === undefined;
}

interface Gathered {
  readonly writes: readonly ItemWrite[];
  readonly ticket: Ticket;
  /** The bucket after the take. */
  readonly state: BucketState;
}

function gather(context: ProtocolContext, asked: Asked): Gathered | undefined {
  const { env, nonces } = context;
  const { job, configConfirmed } = asked;
  const { cache, images } = asked.whole;
  const { readingMs } = job;
  // No nonce: the store recognizes a transaction by its token, and a take under way beside it uses the one in the slot.
  const how = { readingMs, nonce: undefined, guesses: undefined, configConfirmed, ignoreImageShortage: false };
  if (images.length === 0) {
    const key = { bucket: cache.key, shard: 0 };
    const step = createForm(key, job.of, intentOf([job], { ...how, birth: nonces.next(), sheeted: undefined }), env);
    if (step.kind === "short") return undefined;
    return { writes: [step.write], ticket: ticketOfStep(step, job, job.amounts, env), state: step.state };
  }
  const states = statesFor(context, asked);
  const shares = sharesOf(context, job, states);
  if (shares === undefined) return undefined;
  const isBound = images.length > 1 && leaveOf(job) > 0 && !job.of.bypass;
  const own = given({ holdMs: job.of.holdMs });
  const writes: ItemWrite[] = [];
  const parts: PeriodShare[] = [];
  const after: BucketState[] = [];
  for (const [i, image] of images.entries()) {
    const share = shares[i] ?? [];
    const before = states[i] as BucketState;
    const left = (amounts: readonly Amount[]) => (job.of.bypass ? undefined : takeBy(before, amounts, readingMs, own));
    const amounts = isBound ? job.amounts.flatMap(({ limit }) => shareOf(share, limit, before)) : share;
    if (amounts.length === 0) {
      after.push(before);
      continue;
    }
    const options = { ...how, birth: undefined, sheeted: sheetedBy(cache.sheets[image.key.shard]) };
    const intent = intentOf([{ ...job, amounts }], options);
    const usage = { ...intent.usage, requests: writes.length === 0 ? 1 : 0 };
    const moves = isBound ? boundMoves(intent.moves, { states, at: i, job }, env.calendar) : intent.moves;
    const step = formFor(image, { ...intent, usage, moves }, env);
    if (step.kind === "short") return undefined;
    writes.push(step.write);
    const ticket = ticketOfStep(step, job, share, env);
    const taken = withoutShadowed(share, ticket.shadowed);
    after.push(left(taken) ?? before);
    if (share.length > 0) parts.push({ ticket, amounts: taken });
  }
  return { writes, ticket: joinedTicket(parts), state: wholeOf(after, env.calendar) };
}

/** A shard that contributes nothing gets a condition check only. Limits without a floor are skipped. */
function shareOf(shares: readonly Amount[], limit: string, state: BucketState): readonly Amount[] {
  const share = shares.find((one) => one.limit === limit);
  if (share !== undefined) return [share];
  const held = findLimit(state, limit);
  return held === undefined || isHard(held.limit) ? [{ limit, milli: 0 }] : [];
}

/** `amounts`: the part of the job that the step takes. */
function ticketOfStep(
  { state, sides }: Extract<Step, { kind: "write" }>,
  job: Job,
  amounts: readonly Amount[],
  env: Env,
): Ticket {
  const part = { ...job, amounts };
  return ticketOfJob(part, { written: state, readingMs: job.readingMs, by: { jobs: [part], sides } }, env);
}

/** The part of each shard in each limit: the fullest first, so that few are written. */
function sharesOf(
  { env }: ProtocolContext,
  job: Job,
  states: readonly BucketState[],
): readonly (readonly Amount[])[] | undefined {
  const { readingMs } = job;
  const shares = states.map((): Amount[] => []);
  for (const { limit, milli } of job.amounts) {
    const rooms = states.map((state, i) => ({ i, room: roomIn(state, limit, readingMs) }));
    rooms.sort((a, b) => b.room - a.room);
    // Shards may have different limits for a while: one whose limit refuses nothing gives everything, the others give what they
    // have.
    const isUnbound = ({ i }: { readonly i: number }) => {
      const held = findLimit(states[i] as BucketState, limit);
      return job.of.bypass || (held !== undefined && !isHard(held.limit));
    };
    const unbound = rooms.find(isUnbound);
    if (unbound !== undefined) {
      shares[unbound.i]?.push({ limit, milli });
      continue;
    }
    // The other shards make up for the debt of one.
    const total = rooms.reduce((all, { room }) => all + room, 0);
    if (total - floorOfWhole(states, limit, job, env.calendar) < milli) return undefined;
    let left = milli;
    for (const { i, room } of rooms) {
      const amount = Math.min(left, Math.max(0, room));
      if (amount > 0 || (milli === 0 && i === rooms[0]?.i)) shares[i]?.push({ limit, milli: amount });
      left -= amount;
      if (left === 0) break;
    }
    if (left > 0) return undefined;
  }
  return shares;
}

function sheetsBefore({ env }: ProtocolContext, { cache, images }: Whole, readingMs: number): ItemWrite[] {
  return images.flatMap((image) => {
    const sheet = sheetBefore(image, readingMs, cache.sheets[image.key.shard], env);
    return sheet === undefined ? [] : [sheet.write];
  });
}

function installsFor(context: ProtocolContext, { job, whole, configConfirmed }: Asked): ItemWrite[] {
  const { readingMs } = job;
  const { bucket, set, origin } = job.of;
  return whole.images.flatMap((image) => {
    if (!admit(image, [job], { readingMs, configConfirmed }, context.env).installsLimits) return [];
    return installWrite(context, image, { bucket, set, origin, readingMs, configConfirmed }) ?? [];
  });
}

function doubtIn({ env, readings }: ProtocolContext, { whole: { cache, images }, job }: Asked): Doubt {
  if (images.length === 0) return mustReadConfig(job.of, job.kind) ? "configSuspect" : "none";
  // Ask every shard: one read of configuration then answers them all.
  const doubts = images.map((image) => {
    const { eventuallyConsistent = false } = cache.seen(image.key.shard) ?? {};
    return readings.doubtOf(cache, { image, eventuallyConsistent }, [job], env);
  });
  if (doubts.includes("configSuspect")) return "configSuspect";
  return doubts.includes("confirmed") ? "confirmed" : "none";
}

export function wholeState(
  { env }: ProtocolContext,
  claim: Claim,
  { images }: Pick<Whole, "images">,
  nowMs: number,
): BucketState {
  const jobs = [jobOfClaim(claim, nowMs)];
  const options = { readingMs: nowMs, configConfirmed: false };
  if (images.length === 0) return admit(undefined, jobs, options, env).state;
  const states = images.map((image) => admit(image, jobs, options, env).state);
  return wholeOf(states, env.calendar);
}

/** True if a state is the whole bucket's. It may be from before its shards were joined, or before it was split. */
export function isWholeOf({ shardCount }: BucketCache, { limits }: BucketState): boolean {
  return shardCount === 1 && limits.every(({ part }) => part === undefined);
}

/** The whole bucket, by the image of one shard and the cached others. */
export function wholeAround({ caches, env }: ProtocolContext, image: Image): BucketState {
  if (image.shardCount === 1) return image.state;
  const images = caches.of(image.key.bucket).images();
  const isThis = ({ key, shardCount }: Image) => key.shard === image.key.shard && shardCount === image.shardCount;
  const latest = (images.length === 0 ? [image] : images).map((one) => (isThis(one) ? image : one));
  return stateOfShards(latest, env.calendar);
}
