import type { Amount } from "../domain/amounts.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import { type BucketState, findLimit, fits, takeFrom, wholeOf } from "../domain/bucket-state.ts";
import { markOf } from "../domain/give-back.ts";
import type { Answer, Claim, TakeContext } from "../ports/bucket-store.ts";
import type { ItemKey, ItemWrite, TransactionAnswer } from "../ports/item-store.ts";
import { nonceSlot } from "./attributes.ts";
import type { Image } from "./codec.ts";
import { createForm, formFor } from "./forms.ts";
import type { Intent } from "./intent.ts";
import { bringing, intentOf, type Job, walk } from "./job.ts";
import type { BucketMemory } from "./memory.ts";
import type { RoundsContext } from "./rounds.ts";
import { roomIn } from "./split.ts";
import type { ShardTicket, TicketPart } from "./ticket.ts";

const LOOKS_MAX = 4;
const ATTEMPTS_MAX = 8;
const SENDS_MAX = 4;
const BACKOFF_MS = 8;

/** A bucket with all its shards; none when there is no such bucket. */
export interface Whole {
  readonly memory: BucketMemory;
  readonly images: readonly Image[];
}

/** All shards of buckets, as they stand now. A bucket that is just being split is looked at again. */
export async function readWhole(
  context: RoundsContext,
  buckets: readonly BucketKey[],
  at: { readonly readingMs: number; readonly timeoutMs: number },
): Promise<Whole[]> {
  const { memories } = context;
  let wanted = buckets;
  for (let looks = 0; looks < LOOKS_MAX && wanted.length > 0; looks++) {
    const keys = wanted.flatMap((bucket) => shardsOf(bucket, 0, memories.of(bucket).shardCount));
    await learnAll(context, keys, at);
    wanted = wanted.filter((bucket) => !isWhole(memories.of(bucket)));
  }
  return buckets.map((bucket) => {
    const memory = memories.of(bucket);
    return { memory, images: memory.images() };
  });
}

/** Whether all shards there are have been seen, and agree on how many they are. */
function isWhole(memory: BucketMemory): boolean {
  const images = memory.images();
  if (images.length === 0) return memory.shardCount === 1;
  return images.every(({ shardCount }) => shardCount === images.length);
}

/**
 * Takes all claims in one transaction: for those who want no moment in which only some are taken, and for a claim that fits
 * a bucket as a whole but none of its shards. Whatever fits the whole bucket is granted.
 */
export async function takeTogether(
  context: RoundsContext,
  claims: readonly Claim[],
  { nowMs, timeoutMs }: TakeContext,
): Promise<readonly Answer[]> {
  const { items, clock, random, memories } = context;
  const untilMs = clock.now() + timeoutMs;
  let wholes = remembered(context, claims);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const isSure = wholes === undefined;
    wholes ??= await readWhole(context, bucketsOf(claims), {
      readingMs: nowMs,
      timeoutMs: left(untilMs, clock.now()),
    });
    const drawn = draw(context, claims, wholes, nowMs);
    if (drawn.kind !== "write" && !isSure) {
      wholes = undefined;
      continue;
    }
    if (drawn.kind === "answers") {
      for (const write of drawn.writes) await items.write(write, { timeoutMs: left(untilMs, clock.now()) });
      return drawn.answers;
    }
    const answer = await transactOnce(context, drawn.writes, untilMs);
    // No images come back: what was known of the items is over.
    for (const { bucket } of claims) memories.of(bucket).forget();
    if (answer.kind === "applied") return drawn.answers;
    wholes = undefined;
    if (answer.kind === "unknown") return claims.map(() => ({ kind: "unavailable", cause: answer.cause }));
    // What is only in the way of others goes on for longer than what may be down.
    const isOver = clock.now() >= untilMs || attempt + 1 >= SENDS_MAX;
    if (answer.kind === "refused" && (answer.why === "conflict" ? clock.now() >= untilMs : isOver)) {
      return claims.map(() => ({ kind: "unavailable", cause: answer.cause }));
    }
    if (answer.kind === "refused") await clock.sleep(Math.ceil(random() * BACKOFF_MS * 2 ** attempt), undefined);
  }
  const states = await readWhole(context, bucketsOf(claims), { readingMs: nowMs, timeoutMs });
  return claims.map((claim, i) => ({
    kind: "contended",
    state: wholeState(context, claim, states[i] as Whole, nowMs),
  }));
}

type Drawn =
  | { readonly kind: "write"; readonly writes: readonly ItemWrite[]; readonly answers: readonly Answer[] }
  | { readonly kind: "answers"; readonly writes: readonly ItemWrite[]; readonly answers: readonly Answer[] };

function draw(context: RoundsContext, claims: readonly Claim[], wholes: readonly Whole[], nowMs: number): Drawn {
  const { readings } = context;
  const jobs = claims.map(
    (claim): Job => ({ of: claim, kind: "take", amounts: claim.take, readingMs: nowMs, timeoutMs: 0 }),
  );
  const states = claims.map((claim, i) => wholeState(context, claim, wholes[i] as Whole, nowMs));
  const doubts = jobs.map((job, i) => doubtIn(readings, wholes[i] as Whole, job, context));
  if (doubts.includes("configSuspect")) {
    const answers = states.map(
      (state, i): Answer => ({ kind: doubts[i] === "configSuspect" ? "configSuspect" : "skipped", state }),
    );
    return { kind: "answers", writes: [], answers };
  }
  const short = jobs.map((job, i) =>
    isShort(context, wholes[i] as Whole, states[i] as BucketState, job, doubts[i] === "confirmed"),
  );
  if (short.includes(true)) {
    // Limits that changed reach a bucket also with a claim that is refused.
    const writes = jobs.flatMap((job, i) =>
      bringingWrites(context, wholes[i] as Whole, job, doubts[i] === "confirmed"),
    );
    const answers = states.map((state, i): Answer => ({ kind: short[i] ? "short" : "skipped", state }));
    return { kind: "answers", writes, answers };
  }
  const writes: ItemWrite[] = [];
  const answers: Answer[] = [];
  for (const [i, job] of jobs.entries()) {
    const taken = gathered(context, wholes[i] as Whole, job, nowMs, doubts[i] === "confirmed");
    if (taken === undefined) {
      // Only a moment's rounding lies between what fits the whole and what its shards give.
      const refused = states.map((state, at): Answer => ({ kind: at === i ? "short" : "skipped", state }));
      return { kind: "answers", writes: [], answers: refused };
    }
    writes.push(...taken.writes);
    answers.push({ kind: "taken", state: taken.state, ticket: taken.ticket });
  }
  return { kind: "write", writes, answers };
}

/** By what the shards have together, not by what is told of the whole. */
function isShort(
  context: RoundsContext,
  { images }: Whole,
  state: BucketState,
  job: Job,
  configConfirmed: boolean,
): boolean {
  if (job.of.bypass) return false;
  if (images.length < 2) return !fits(state, job.amounts, job.readingMs);
  return sharesOf(context, images, job, job.readingMs, configConfirmed) === undefined;
}

interface Gathered {
  readonly writes: readonly ItemWrite[];
  readonly ticket: ShardTicket;
  /** The bucket after it. */
  readonly state: BucketState;
}

function gathered(
  context: RoundsContext,
  { memory, images }: Whole,
  job: Job,
  readingMs: number,
  configConfirmed: boolean,
): Gathered | undefined {
  const { env, nonces } = context;
  const nonce = { name: nonceSlot(nonces.slot), value: nonces.next() };
  const options = { readingMs, nonce, guesses: undefined, configConfirmed, ignoreImageShortage: false };
  if (images.length === 0) {
    const key = { bucket: memory.key, shard: 0 };
    const step = createForm(key, job.of, intentOf([job], options), env);
    if (step.kind === "short") return undefined;
    const mark = markOf(step.state, job.amounts, readingMs, env.calendar);
    return { writes: [step.write], ticket: { parts: [partOf(key.shard, 1, mark, undefined)] }, state: step.state };
  }
  const shares = sharesOf(context, images, job, readingMs, configConfirmed);
  if (shares === undefined) return undefined;
  const writes: ItemWrite[] = [];
  const parts: TicketPart[] = [];
  const after: BucketState[] = [];
  for (const [i, image] of images.entries()) {
    const amounts = shares[i] ?? [];
    const before = walk(image, [job], readingMs, configConfirmed, env).state;
    after.push((job.of.bypass ? undefined : takeFrom(before, amounts, readingMs)) ?? before);
    if (amounts.length === 0) continue;
    const intent: Intent = { ...intentOf([{ ...job, amounts }], options), requests: writes.length === 0 ? 1 : 0 };
    const step = formFor(image, intent, env);
    if (step.kind === "short") return undefined;
    writes.push(step.write);
    const mark = markOf(step.state, amounts, readingMs, env.calendar);
    const owed = images.length === 1 ? undefined : new Map(amounts.map(({ limit, milli }) => [limit, milli]));
    parts.push(partOf(image.key.shard, image.shardCount, mark, owed));
  }
  return { writes, ticket: { parts }, state: wholeOf(after, env.calendar) };
}

function partOf(shard: number, shardCount: number, mark: TicketPart["mark"], owed: TicketPart["owed"]): TicketPart {
  return { shard, shardCount, mark, owed };
}

/** What each shard gives of each limit: the fullest first, so that few are written. */
function sharesOf(
  { env }: RoundsContext,
  images: readonly Image[],
  job: Job,
  readingMs: number,
  configConfirmed: boolean,
): readonly (readonly Amount[])[] | undefined {
  const states = images.map((image) => walk(image, [job], readingMs, configConfirmed, env).state);
  const shares = images.map((): Amount[] => []);
  for (const { limit, milli } of job.amounts) {
    const rooms = states.map((state, i) => ({ i, room: roomIn(state, limit, readingMs) }));
    rooms.sort((a, b) => b.room - a.room);
    // What one shard owes the others have to make up for.
    const total = rooms.reduce((all, { room }) => all + room, 0);
    const isUnbound = job.of.bypass || findLimit(states[0] as BucketState, limit)?.limit.soft === true;
    if (!isUnbound && total < milli) return undefined;
    let left = milli;
    for (const { i, room } of rooms) {
      const amount = isUnbound ? left : Math.min(left, Math.max(0, room));
      if (amount > 0 || (milli === 0 && i === rooms[0]?.i)) shares[i]?.push({ limit, milli: amount });
      left -= amount;
      if (left === 0) break;
    }
    if (left > 0) return undefined;
  }
  return shares;
}

function bringingWrites(context: RoundsContext, { images }: Whole, job: Job, configConfirmed: boolean): ItemWrite[] {
  const { env, nonces } = context;
  return images.flatMap((image) => {
    if (!walk(image, [job], job.readingMs, configConfirmed, env).brings) return [];
    const nonce = { name: nonceSlot(nonces.slot), value: nonces.next() };
    const step = formFor(image, bringing(job, { readingMs: job.readingMs, nonce, configConfirmed }), env);
    return step.kind === "write" ? [step.write] : [];
  });
}

function doubtIn(
  readings: RoundsContext["readings"],
  { memory, images }: Whole,
  job: Job,
  { env }: RoundsContext,
): "none" | "configSuspect" | "confirmed" {
  let verdict: "none" | "configSuspect" | "confirmed" = "none";
  for (const image of images) {
    const doubt = readings.doubtOf(memory, { image }, [job], env);
    if (doubt === "configSuspect") return doubt;
    if (doubt === "confirmed") verdict = doubt;
  }
  return verdict;
}

/** The bucket as it stands for a claim, all shards together. */
export function wholeState(
  { env }: RoundsContext,
  claim: Claim,
  { images }: Pick<Whole, "images">,
  nowMs: number,
): BucketState {
  const job: Job = { of: claim, kind: "take", amounts: claim.take, readingMs: nowMs, timeoutMs: 0 };
  if (images.length === 0) return walk(undefined, [job], nowMs, false, env).state;
  const states = images.map((image) => walk(image, [job], nowMs, false, env).state);
  return wholeOf(states, env.calendar);
}

/** What is remembered, when it is of every bucket, and none of them is split. */
function remembered({ memories }: RoundsContext, claims: readonly Claim[]): Whole[] | undefined {
  const wholes: Whole[] = [];
  for (const { bucket } of claims) {
    const memory = memories.of(bucket);
    const seen = memory.seen(0);
    if (seen === undefined || memory.shardCount !== 1) return undefined;
    wholes.push({ memory, images: seen.image === undefined ? [] : [seen.image] });
  }
  return wholes;
}

function shardsOf(bucket: BucketKey, from: number, to: number): ItemKey[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => ({ bucket, shard: from + i }));
}

async function learnAll(
  { items, memories }: RoundsContext,
  keys: readonly ItemKey[],
  { readingMs, timeoutMs }: { readonly readingMs: number; readonly timeoutMs: number },
): Promise<void> {
  const asked = memories.learnt;
  const found = await items.read(keys, { consistent: true }, { timeoutMs });
  for (const [i, key] of keys.entries()) {
    memories.learn(key, found[i], { atMs: readingMs, hearsay: false, set: undefined, own: 0, asked });
  }
}

function bucketsOf(claims: readonly Claim[]): BucketKey[] {
  return claims.map(({ bucket }) => bucket);
}

function left(untilMs: number, nowMs: number): number {
  return Math.max(1, untilMs - nowMs);
}

/** Sends a transaction; when nobody knows what became of it once more, by the same name: it is not done twice. */
export async function transactOnce(
  context: RoundsContext,
  writes: readonly ItemWrite[],
  untilMs: number,
): Promise<TransactionAnswer> {
  const { items, clock } = context;
  const options = { token: tokenOf(context), event: undefined };
  const answer = await items.transact(writes, options, { timeoutMs: left(untilMs, clock.now()) });
  if (answer.kind !== "unknown" || clock.now() >= untilMs) return answer;
  const again = await items.transact(writes, options, { timeoutMs: left(untilMs, clock.now()) });
  // Once it is unknown it stays so, unless the store has it on record.
  return again.kind === "applied" ? again : answer;
}

/** A transaction's own name, by which the store knows it again. */
export function tokenOf({ nonces }: Pick<RoundsContext, "nonces">): string {
  return `t${nonces.next().toString(36)}`;
}
