import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { fits } from "../../domain/bucket/bucket-questions.ts";
import { type BucketState, findLimit, type LimitState, takeBy, wholeOf } from "../../domain/bucket/bucket-state.ts";
import { joinedTicket, type PeriodShare, PLAIN_TICKET, type Ticket, ticketOf } from "../../domain/bucket/give-back.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { checkAtomic } from "../../domain/charge/atomic.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { isHard } from "../../domain/limits/limit.ts";
import { withoutShadowed } from "../../domain/limits/shadow.ts";
import type { Answer, Claim, TakeContext } from "../../ports/bucket-store.ts";
import type { ItemWrite } from "../../ports/item-store.ts";
import { installWrite } from "../config/apply.ts";
import type { Doubt } from "../config/config-readings.ts";
import type { ProtocolContext } from "../context.ts";
import { type Drawn, isWhole, type Plan, type Whole } from "../decide/transact.ts";
import type { Image } from "../item/codec.ts";
import { type TakeListener, takenOf } from "../marks/mark.ts";
import type { BucketCache } from "../process/bucket-cache.ts";
import { RETRY } from "../process/retry-policy.ts";
import { admit } from "../take/admission.ts";
import { createForm } from "../take/create.ts";
import { leaveOf } from "../take/floors.ts";
import { formFor } from "../take/forms.ts";
import type { Env, Step } from "../take/intent.ts";
import { intentOf, type Job, jobOfClaim, mustReadConfig } from "../take/job.ts";
import { passedAt } from "../take/passed.ts";
import { sheetBefore, sheetedBy } from "../usage/sheets.ts";
import { boundMoves, floorOfWhole } from "./floor-bounds.ts";
import { roomIn } from "./split.ts";
import { rethrown, transactPlan } from "./whole.ts";

/**
 * Takes all claims in one transaction: for callers that want no moment in which only some are taken, and for a claim that
 * fits a bucket as a whole but none of its shards. Whatever fits the whole bucket is granted.
 */
export function takeTogether(
  context: ProtocolContext,
  claims: readonly Claim[],
  { nowMs, untilMs }: Pick<TakeContext, "nowMs"> & { readonly untilMs: number },
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
    unread: rethrown,
  };
  const taken = transactPlan(context, plan, isCached(context, plan.buckets) ? "guess" : "reading");
  return taken.then((answers) => looked(listener, claims, answers, nowMs));
}

/** A transaction shows no items: what it left is what was worked out for it. */
function looked(
  listener: TakeListener,
  claims: readonly Claim[],
  answers: readonly Answer[],
  nowMs: number,
): readonly Answer[] {
  for (const [i, claim] of claims.entries()) {
    const answer = answers[i];
    if (answer?.kind !== "taken") continue;
    listener.look(claim, { amounts: takenOf(claim.take, answer.ticket), readingMs: nowMs }, answer.state);
  }
  return answers;
}

/** Whether something is cached of every bucket, and none of them is split. */
function isCached({ caches }: ProtocolContext, buckets: readonly BucketKey[]): boolean {
  return buckets.every((bucket) => {
    const cache = caches.of(bucket);
    return cache.shardCount === 1 && cache.seen(0) !== undefined;
  });
}

function draw(
  context: ProtocolContext,
  claims: readonly Claim[],
  wholes: readonly Whole[],
  nowMs: number,
): Drawn<readonly Answer[]> {
  const jobs = claims.map((claim) => jobOfClaim(claim, nowMs));
  const states = claims.map((claim, i) => wholeState(context, claim, wholes[i] as Whole, nowMs));
  // Slots are held in one item, and shadows decide by all that there is. The next request joins the shards first.
  if (jobs.some((job, i) => isOfOneItem(context, wholes[i] as Whole, job))) {
    return { kind: "result", installs: [], result: states.map((state): Answer => ({ kind: "contended", state })) };
  }
  const doubts = jobs.map((job, i) => doubtIn(context, wholes[i] as Whole, job));
  if (doubts.includes("configSuspect")) {
    const answers = states.map(
      (state, i): Answer => ({ kind: doubts[i] === "configSuspect" ? "configSuspect" : "skipped", state }),
    );
    return { kind: "result", installs: [], result: answers };
  }
  const short = jobs.map((job, i) =>
    isShort(context, wholes[i] as Whole, states[i] as BucketState, job, doubts[i] === "confirmed"),
  );
  if (short.includes(true)) {
    // Limits that changed reach a bucket also with a claim that is refused.
    const installs = jobs.flatMap((job, i) => installsFor(context, wholes[i] as Whole, job, doubts[i] === "confirmed"));
    const answers = states.map((state, i): Answer => ({ kind: short[i] ? "short" : "skipped", state }));
    return { kind: "result", installs, result: answers };
  }
  const sheets = wholes.flatMap((whole) => sheetsBefore(context, whole, nowMs));
  if (sheets.length > 0) return { kind: "install", installs: sheets };
  const writes: ItemWrite[] = [];
  const answers: Answer[] = [];
  for (const [i, job] of jobs.entries()) {
    const taken = gathered(context, wholes[i] as Whole, job, nowMs, doubts[i] === "confirmed");
    if (taken === undefined) {
      // Only a moment's rounding lies between what fits the whole and what its shards give.
      const refused = states.map((state, at): Answer => ({ kind: at === i ? "short" : "skipped", state }));
      return { kind: "result", installs: [], result: refused };
    }
    writes.push(...taken.writes);
    answers.push({ kind: "taken", state: taken.state, ticket: taken.ticket, shadowed: taken.ticket.shadowed });
  }
  // Of a bucket in shards a claim may take from several.
  const [first] = claims;
  if (first !== undefined) {
    checkAtomic(first.bucket, { items: writes.length, itemsMax: context.env.dialect.atomicItemsMax });
  }
  return { kind: "transact", writes, event: undefined, result: answers };
}

/** By the limits that its shards would go by: they may have heard of a change that the claim has not. */
function isOfOneItem({ env }: ProtocolContext, { images }: Whole, job: Job): boolean {
  const { of, amounts, readingMs } = job;
  if (of.bypass || images.length < 2) return false;
  const isOne = ({ limit }: LimitState, milli: number) =>
    limit.shadow === true || (rulesOf(limit).holdsSlots && milli > 0);
  return images.some((image) => {
    const { state } = admit(image, [job], { readingMs, configConfirmed: false }, env);
    return amounts.some(({ limit, milli }) => {
      const held = findLimit(state, limit);
      return held !== undefined && isOne(held, milli);
    });
  });
}

/** Of a bucket in shards: whether they cannot give it together, each limit by itself. */
function isShort(
  context: ProtocolContext,
  { images }: Whole,
  state: BucketState,
  job: Job,
  configConfirmed: boolean,
): boolean {
  if (job.of.bypass) return false;
  if (images.length < 2) return !fits(state, job.amounts, job.readingMs, leaveOf(job));
  return sharesOf(context, images, job, job.readingMs, configConfirmed) === undefined;
}

interface Gathered {
  readonly writes: readonly ItemWrite[];
  readonly ticket: Ticket;
  /** The bucket after it. */
  readonly state: BucketState;
}

function gathered(
  context: ProtocolContext,
  { cache, images }: Whole,
  job: Job,
  readingMs: number,
  configConfirmed: boolean,
): Gathered | undefined {
  const { env, nonces } = context;
  // No nonce: the store knows a transaction again by its token, and a take under way beside it goes by the one in the slot.
  const how = { readingMs, nonce: undefined, guesses: undefined, configConfirmed, ignoreImageShortage: false };
  if (images.length === 0) {
    const key = { bucket: cache.key, shard: 0 };
    const step = createForm(key, job.of, intentOf([job], { ...how, birth: nonces.next(), sheeted: undefined }), env);
    if (step.kind === "short") return undefined;
    return { writes: [step.write], ticket: ticketOfStep(step, job, job.amounts, env), state: step.state };
  }
  const shares = sharesOf(context, images, job, readingMs, configConfirmed);
  if (shares === undefined) return undefined;
  const states = images.map((image) => admit(image, [job], { readingMs, configConfirmed }, env).state);
  const isBound = images.length > 1 && leaveOf(job) > 0 && !job.of.bypass;
  const { holdMs } = job.of;
  const own = holdMs === undefined ? {} : { holdMs };
  const writes: ItemWrite[] = [];
  const parts: PeriodShare[] = [];
  const after: BucketState[] = [];
  for (const [i, image] of images.entries()) {
    const given = shares[i] ?? [];
    const before = states[i] as BucketState;
    const left = (amounts: readonly Amount[]) => (job.of.bypass ? undefined : takeBy(before, amounts, readingMs, own));
    const amounts = isBound ? job.amounts.flatMap(({ limit }) => shareOf(given, limit, before)) : given;
    if (amounts.length === 0) {
      after.push(before);
      continue;
    }
    const options = { ...how, birth: undefined, sheeted: sheetedBy(cache.sheet(image.key.shard)) };
    const intent = intentOf([{ ...job, amounts }], options);
    const usage = { ...intent.usage, requests: writes.length === 0 ? 1 : 0 };
    const moves = isBound ? boundMoves(intent.moves, { states, at: i, job }, env.calendar) : intent.moves;
    const step = formFor(image, { ...intent, usage, moves }, env);
    if (step.kind === "short") return undefined;
    writes.push(step.write);
    const ticket = ticketOfStep(step, job, given, env);
    const taken = withoutShadowed(given, ticket.shadowed);
    after.push(left(taken) ?? before);
    if (given.length > 0) parts.push({ ticket, amounts: taken });
  }
  return { writes, ticket: joinedTicket(parts), state: wholeOf(after, env.calendar) };
}

/** Of a shard that gives nothing: nothing, and the write is only a condition. Of what has no floor nothing is asked, nor counted twice. */
function shareOf(given: readonly Amount[], limit: string, state: BucketState): readonly Amount[] {
  const share = given.find((one) => one.limit === limit);
  if (share !== undefined) return [share];
  const held = findLimit(state, limit);
  return held === undefined || isHard(held.limit) ? [{ limit, milli: 0 }] : [];
}

function ticketOfStep(
  { state, sides }: Extract<Step, { kind: "write" }>,
  { of, readingMs }: Job,
  amounts: readonly Amount[],
  env: Env,
): Ticket {
  if (of.bypass) return PLAIN_TICKET;
  const shadowed = passedAt(sides, 0);
  const ticket = ticketOf(state, withoutShadowed(amounts, shadowed), readingMs, env.calendar, of.holdMs);
  if (sides.overdrafts.length + shadowed.length === 0) return ticket;
  return { ...ticket, overdrawn: sides.overdrafts.map(({ limit }) => limit), shadowed };
}

/** What each shard gives of each limit: the fullest first, so that few are written. */
function sharesOf(
  { env }: ProtocolContext,
  images: readonly Image[],
  job: Job,
  readingMs: number,
  configConfirmed: boolean,
): readonly (readonly Amount[])[] | undefined {
  const states = images.map((image) => admit(image, [job], { readingMs, configConfirmed }, env).state);
  const shares = images.map((): Amount[] => []);
  for (const { limit, milli } of job.amounts) {
    const rooms = states.map((state, i) => ({ i, room: roomIn(state, limit, readingMs) }));
    rooms.sort((a, b) => b.room - a.room);
    // Shards may go by different limits for a while: one that refuses nothing there gives whatever is asked, the others what they have.
    const isUnbound = ({ i }: { readonly i: number }) => {
      const held = findLimit(states[i] as BucketState, limit);
      return job.of.bypass || (held !== undefined && !isHard(held.limit));
    };
    const unbound = rooms.find(isUnbound);
    if (unbound !== undefined) {
      shares[unbound.i]?.push({ limit, milli });
      continue;
    }
    // What one shard owes the others have to make up for.
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

/** Closed hours that would be overwritten by a take with this reading. */
function sheetsBefore({ env }: ProtocolContext, { cache, images }: Whole, readingMs: number): ItemWrite[] {
  return images.flatMap((image) => {
    const sheet = sheetBefore(image, readingMs, cache.sheet(image.key.shard), env);
    return sheet === undefined ? [] : [sheet.write];
  });
}

function installsFor(context: ProtocolContext, { images }: Whole, job: Job, configConfirmed: boolean): ItemWrite[] {
  const { readingMs } = job;
  const { bucket, set, origin } = job.of;
  return images.flatMap((image) => {
    if (!admit(image, [job], { readingMs, configConfirmed }, context.env).installsLimits) return [];
    return installWrite(context, image, { bucket, set, origin, readingMs, configConfirmed }) ?? [];
  });
}

function doubtIn({ env, readings }: ProtocolContext, { cache, images }: Whole, job: Job): Doubt {
  if (images.length === 0) return mustReadConfig(job.of, job.kind) ? "configSuspect" : "none";
  // Of every shard: one read of configuration then answers them all.
  const doubts = images.map((image) => {
    const { eventuallyConsistent = false } = cache.seen(image.key.shard) ?? {};
    return readings.doubtOf(cache, { image, eventuallyConsistent }, [job], env);
  });
  if (doubts.includes("configSuspect")) return "configSuspect";
  return doubts.includes("confirmed") ? "confirmed" : "none";
}

/** The bucket as it stands for a claim, all shards together. */
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

/** Whether a state is the whole bucket's. It may be from before its shards were joined, or before it was split. */
export function isWholeOf({ shardCount }: BucketCache, { limits }: BucketState): boolean {
  return shardCount === 1 && limits.every(({ part }) => part === undefined);
}

/** The whole bucket, by the image of one of its shards and what is cached of the others. */
export function wholeAround({ caches, env }: ProtocolContext, image: Image): BucketState {
  if (image.shardCount === 1) return image.state;
  const images = caches.of(image.key.bucket).images();
  const isThis = ({ key, shardCount }: Image) => key.shard === image.key.shard && shardCount === image.shardCount;
  const states = (images.length === 0 ? [image] : images).map((one) => (isThis(one) ? image : one).state);
  return wholeOf(states, env.calendar);
}
