import { addMulDiv, mulDivCeil, mulMod } from "../bucket/integers.ts";
import { levelMilli, refilledMilli } from "../bucket/level.ts";
import type { Part } from "../bucket/share.ts";
import type { Amount } from "../domain/amounts.ts";
import {
  advanced,
  assembled,
  availableMilli,
  type BucketState,
  bucketFor,
  findLimit,
  type LimitState,
} from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import type { Limit } from "../domain/limit.ts";
import { limitSet } from "../domain/limit-set.ts";
import { termsAt } from "../domain/limit-state.ts";
import type { Clause, ItemValue, ItemWrite, WriteTrace } from "../ports/item-store.ts";
import { namesOf, RF, SDA, SHARD_COUNT } from "./attributes.ts";
import type { Image } from "./codec.ts";
import { blankIntent, type Env, type Move } from "./intent.ts";
import { newItem } from "./new-item.ts";
import { toldAnew, writeAnew } from "./rebase.ts";
import { putNew, removal } from "./write-builder.ts";

/** As many as the original's readers expect at most. */
export const SHARDS_MAX = 32;

/**
 * The writes of one transaction that doubles the shards: each is told anew at one instant and gives its new sibling a part
 * in proportion to what it shall hold. What was given is a number: should somebody have taken meanwhile, the giver has less.
 * So nothing is minted and nothing lost.
 */
export function doublingWrites(images: readonly Image[], atMs: number, env: Env): ItemWrite[] {
  const count = images.length * 2;
  return images.flatMap((image) => {
    const { shard } = image.key;
    const parts = [shard, shard + images.length].map((index): Part => ({ index, count, even: false }));
    const [own, siblings] = parts as [Part, Part];
    const whole = advanced(image.state, atMs, env.calendar);
    const kept = (state: BucketState) => partOf(advanced(state, atMs, env.calendar), own, "keeps", env);
    const given = partOf(whole, siblings, "gets", env);
    const moves = whole.limits.map(({ name, tokensMilli, terms }): Move => {
      const gives = findLimit(given, name)?.terms.capacityMilli ?? 0;
      return { limit: name, milli: proportion(tokensMilli, gives, terms.capacityMilli), mustFit: false };
    });
    const sibling = assembled(
      {
        ...given,
        limits: given.limits.map((held) => ({ ...held, tokensMilli: movedOf(moves, held.name), remainder: 0 })),
      },
      env.calendar,
    );
    const [giving] = resized(image, kept, moves, atMs, env) as [ItemWrite];
    return [
      { ...giving, when: [...giving.when, ...roomClauses(kept(image.state), moves, giving)] },
      putNew({ ...image.key, shard: siblings.index }, newItem(sibling, env), traceOf(atMs)),
    ];
  });
}

// Somebody may give back meanwhile: what the giver has no room for any more would flow off. Or take: what it gives must be
// there, for its sibling would spend what it owes.
function roomClauses(kept: BucketState, moves: readonly Move[], { add }: ItemWrite): Clause[] {
  return kept.limits.flatMap(({ name, terms, tokensMilli }): Clause[] => {
    const { tk } = namesOf(name);
    const added = add[tk];
    if (added === undefined) return [];
    const keptMilli = tokensMilli - movedOf(moves, name);
    // A debt is shared as a debt: whoever has something must not spend what the other owes.
    const mostMilli = keptMilli < 0 ? 0 : Math.max(terms.capacityMilli, keptMilli);
    return [
      [{ name: tk, is: "<=", value: mostMilli - added }],
      [{ name: tk, is: ">=", value: Math.min(0, keptMilli) - added }],
    ];
  });
}

/**
 * The writes of one transaction that leaves `count` of the shards: those that go are pinned as they stand, to the token, and
 * what they hold is added to the one that stays in their place.
 */
export function mergingWrites(images: readonly Image[], count: number, atMs: number, env: Env): ItemWrite[] {
  const all = limitsIn(images);
  const staying = images.slice(0, count);
  const going = images.slice(count);
  const told = (state: BucketState) => withEvery(advanced(state, atMs, env.calendar), all, atMs, env.calendar);
  return [
    ...staying.flatMap((image) => {
      const { shard } = image.key;
      const joining = going.filter(({ key }) => key.shard % count === shard).map(({ state }) => told(state));
      const part: Part | undefined = count === 1 ? undefined : { index: shard, count, even: false };
      const moves = told(image.state).limits.map(({ name }): Move => {
        const milli = sum(joining, (state) => tokensIn(state, name));
        return { limit: name, milli: -milli, mustFit: false };
      });
      const topUps = (name: string) => sum(joining, (state) => findLimit(state, name)?.quota?.topUpMilli ?? 0);
      const anew = (state: BucketState) => withWindows(partOf(told(state), part, topUps, env), joining, env);
      return resized(image, anew, moves, atMs, env);
    }),
    ...going.map(({ key, item, state }) => {
      const pins = env.rules.halvePinsTokens ? state.limits.map(({ name }) => namesOf(name).tk) : [];
      const when = [RF, ...pins].map((name) => [{ name, is: "=", value: item[name] as ItemValue }] as const);
      return removal(key, when, traceOf(atMs));
    }),
  ];
}

/**
 * The writes that make a shard which the original has not made yet, out of the sibling that holds its tokens meanwhile. The
 * sibling is pinned to the token: it gives half of what it has.
 */
export function makingWrites(sibling: Image, shard: number, atMs: number, env: Env): ItemWrite[] {
  const { state, item, key, shardCount } = sibling;
  const anew = (told: BucketState) => advanced(told, atMs, env.calendar);
  const moves = anew(state).limits.map(({ name, tokensMilli }): Move => {
    return { limit: name, milli: Math.floor(tokensMilli / 2), mustFit: false };
  });
  const part: Part = { index: shard, count: shardCount, even: true };
  const made = partOf(anew(state), part, () => 0, env);
  const limits = made.limits.map((held) => ({ ...held, tokensMilli: movedOf(moves, held.name), remainder: 0 }));
  const [write] = resized(sibling, anew, moves, atMs, env) as [ItemWrite];
  const pins = [SHARD_COUNT, ...state.limits.map(({ name }) => namesOf(name).tk)].map(
    (name) => [{ name, is: "=", value: item[name] as ItemValue }] as const,
  );
  return [
    { ...write, when: [...write.when, ...pins] },
    putNew({ ...key, shard }, newItem(assembled({ ...made, limits }, env.calendar), env), traceOf(atMs)),
  ];
}

/**
 * The whole bucket, from all its shards: what they hold together. At a reading, it is told so that it never promises what
 * they do not have together: each rounds by itself, and one whose epoch lies ahead stands still until then. Without one it
 * is told from the latest of their epochs.
 */
export function mergedState(images: readonly Image[], calendar: Calendar, readingMs: number | undefined): BucketState {
  const [first] = images;
  if (first === undefined)
    throw new RangeError("A bucket without shards has no state; ask whether there is one first.");
  if (images.length === 1 && first.shardCount === 1) return first.state;
  const latestMs = Math.max(...images.map(({ state }) => state.epochMs));
  const epochMs = Math.max(latestMs, readingMs ?? latestMs);
  const all = limitsIn(images);
  const states = images.map(({ state }) => {
    const atMs = Math.max(state.epochMs, readingMs ?? latestMs);
    return withEvery(advanced(state, atMs, calendar), all, atMs, calendar);
  });
  const newest = images.reduce((a, b) => (b.state.origin.asOfMs > a.state.origin.asOfMs ? b : a));
  const own = states[images.indexOf(newest)] as BucketState;
  const limits = own.limits.map((held): LimitState => {
    const topUpMilli = sum(states, (state) => findLimit(state, held.name)?.quota?.topUpMilli ?? 0);
    const tokensMilli = sum(states, (state) => tokensIn(state, held.name) - (isFull(state, held.name) ? 0 : 1));
    const quota = held.quota === undefined ? undefined : { ...held.quota, topUpMilli };
    const terms = termsAt(held.limit, topUpMilli, epochMs, calendar);
    return { ...held, terms, tokensMilli, remainder: 0, quota, part: undefined };
  });
  const { signature, origin } = own;
  return assembled({ epochMs, limits, signature, origin }, calendar);
}

/**
 * The state of the whole with its wait made true: a shard that is full drips no further, so what is missing comes slower than
 * the whole would say. What it holds is told lower, so that it reaches the amount when the shards do.
 */
export function withTrueWait(
  whole: BucketState,
  states: readonly BucketState[],
  amounts: readonly Amount[],
  readingMs: number,
): BucketState {
  let told = whole;
  for (const { limit, milli } of amounts) {
    const held = findLimit(whole, limit);
    if (held === undefined || held.quota !== undefined || held.limit.schedule !== undefined) continue;
    const holdAt = (atMs: number) => sum(states, (state) => roomIn(state, limit, atMs));
    if (milli > held.terms.capacityMilli || holdAt(readingMs) >= milli) continue;
    const waitMs = firstAfter(readingMs, holdAt, milli);
    if (waitMs === undefined) continue;
    const { remainder, risen } = landingAt(held, waitMs - whole.epochMs);
    const tokensMilli = milli - risen;
    if (tokensMilli > held.tokensMilli) continue;
    told = {
      ...told,
      limits: told.limits.map((one) => (one.name === limit ? { ...one, tokensMilli, remainder } : one)),
    };
  }
  return told;
}

/** What drips in up to an instant, with the fraction that lets the last millitoken arrive just then, not before. */
function landingAt({ terms }: LimitState, elapsedMs: number): { readonly remainder: number; readonly risen: number } {
  const { refillAmountMilli, refillPeriodMs } = terms;
  const rest = elapsedMs <= 0 ? 0 : mulMod(elapsedMs, refillAmountMilli, 0, refillPeriodMs);
  const remainder = rest === 0 ? 0 : refillPeriodMs - rest;
  return { remainder, risen: refilledMilli(remainder, terms, elapsedMs) };
}

/** Waits that are longer are not worked out: nobody lives to be told wrong. */
const SPAN_MAX_MS = 2 ** 45;

/** The first instant at which they hold so much together; they only gain. */
function firstAfter(fromMs: number, holdAt: (atMs: number) => number, milli: number): number | undefined {
  let span = 1;
  while (holdAt(fromMs + span) < milli) {
    span *= 2;
    if (span > SPAN_MAX_MS) return undefined;
  }
  let [early, late] = [fromMs, fromMs + span];
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    if (holdAt(middle) >= milli) late = middle;
    else early = middle;
  }
  return late;
}

/** How much of each limit a shard could give at a reading; more than 0 where it is not in debt. */
export function roomIn(state: BucketState, limit: string, readingMs: number): number {
  const held = findLimit(state, limit);
  return held === undefined ? 0 : availableMilli(state, held, readingMs);
}

function resized(
  image: Image,
  anew: (state: BucketState) => BucketState,
  moves: readonly Move[],
  atMs: number,
  env: Env,
): ItemWrite[] {
  const intent = { ...blankIntent(atMs), moves };
  const step = writeAnew(image, toldAnew(image.state, anew, atMs, atMs, env), intent, env);
  if (step.kind !== "write") throw new RangeError("Shares are moved whatever a shard holds; nothing can be short.");
  const { write } = step;
  const set = image.key.shard === 0 ? { ...write.set, [SDA]: atMs } : write.set;
  return [{ ...write, set, trace: traceOf(atMs) }];
}

function traceOf(readingMs: number): WriteTrace {
  return { form: "share", readingMs, parts: [], spare: [] };
}

/** The state as another part of the bucket: its terms, and its part of what was topped up. */
function partOf(
  state: BucketState,
  part: Part | undefined,
  topUps: "keeps" | "gets" | ((limit: string) => number),
  { calendar }: Env,
): BucketState {
  const limits = state.limits.map((held) => {
    const { quota, limit, name } = held;
    const before = quota?.topUpMilli ?? 0;
    const half = Math.floor(before / 2);
    const topUpMilli = topUps === "gets" ? half : topUps === "keeps" ? before - half : before + topUps(name);
    const terms = termsAt(limit, topUpMilli, state.epochMs, calendar, part);
    return { ...held, terms, part, quota: quota === undefined ? undefined : { ...quota, topUpMilli } };
  });
  return assembled({ ...state, limits }, calendar);
}

/** A session that is open on any of the shards is open on all of them together; the latest counts. */
function withWindows(state: BucketState, joining: readonly BucketState[], { calendar }: Env): BucketState {
  const limits = state.limits.map((held) => {
    if (held.quota === undefined || held.limit.resetAfterMs === undefined) return held;
    const starts = [held, ...joining.map((other) => findLimit(other, held.name))].flatMap(
      (one) => one?.quota?.windowStartMs ?? [],
    );
    const windowStartMs = starts.length === 0 ? undefined : Math.max(...starts);
    return { ...held, quota: { ...held.quota, windowStartMs } };
  });
  return assembled({ ...state, limits }, calendar);
}

/** Every limit that any shard knows, as the shard that read configuration last has it. */
function limitsIn(images: readonly Image[]): readonly Limit[] {
  const found = new Map<string, Limit>();
  for (const { state } of [...images].sort((a, b) => a.state.origin.asOfMs - b.state.origin.asOfMs)) {
    for (const { name, limit } of state.limits) found.set(name, limit);
  }
  return [...found.values()];
}

// A limit that a shard has never seen is full there.
function withEvery(state: BucketState, all: readonly Limit[], atMs: number, calendar: Calendar): BucketState {
  if (all.every(({ name }) => findLimit(state, name) !== undefined)) return state;
  const older = { asOfMs: Number.NEGATIVE_INFINITY, generation: null };
  return bucketFor(state, { set: limitSet(all), origin: older }, atMs, calendar);
}

function tokensIn(state: BucketState, limit: string): number {
  const held = findLimit(state, limit);
  return held === undefined ? 0 : levelMilli(held, held.terms, 0);
}

function isFull(state: BucketState, limit: string): boolean {
  const held = findLimit(state, limit);
  return held === undefined || held.quota !== undefined || held.tokensMilli >= held.terms.capacityMilli;
}

function movedOf(moves: readonly Move[], limit: string): number {
  return moves.find((move) => move.limit === limit)?.milli ?? 0;
}

// Rounded down, also of a debt: what the giver keeps is the rest.
function proportion(milli: number, part: number, whole: number): number {
  if (whole === 0) return 0;
  if (milli >= 0) return addMulDiv(0, milli, part, 0, whole, Number.MAX_SAFE_INTEGER);
  return 0 - mulDivCeil(-milli, part, 0, whole);
}

function sum<One>(all: readonly One[], of: (one: One) => number): number {
  return all.reduce((total, one) => total + of(one), 0);
}
