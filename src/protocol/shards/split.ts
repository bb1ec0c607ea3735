import type { Part } from "../../bucket/balance.ts";
import { addMulDiv, mulDivCeil } from "../../bucket/integers.ts";
import { levelMilli } from "../../bucket/level.ts";
import {
  advanced,
  assembled,
  availableMilli,
  type BucketState,
  bucketFor,
  changedLimit,
  findLimit,
} from "../../domain/bucket/bucket-state.ts";
import { sameRule, termsAt } from "../../domain/bucket/limit-state.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { countersOf, perCounter } from "../../domain/charge/usage.ts";
import { sameAmount } from "../../domain/limits/changed-limit.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { Clause, Item, ItemValue, ItemWrite, WriteTrace } from "../../ports/item-store.ts";
import { BN, BYPASS, DISABLED, namesOf, RF, RQ, SDA, SHARD_COUNT, UH, VU } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { newItem } from "../item/encode-item.ts";
import { putNew, removal } from "../item/write-builder.ts";
import { rebase, writeRebased } from "../take/forms.ts";
import { blankIntent, type Env, type Intent, type Move, NO_USAGE, type UsageDelta } from "../take/intent.ts";
import { counterNames, openHourIn } from "../usage/hours.ts";

export { SHARDS_MAX } from "../item/damage.ts";

/**
 * The writes of one transaction that doubles the shards: each is rebased at one instant and gives its new sibling a part in
 * proportion to what the sibling can hold. The part is a fixed number: a take in between leaves the giver with less. So nothing
 * is minted and nothing is lost.
 */
export function doublingWrites(images: readonly Image[], atMs: number, env: Env): ItemWrite[] {
  const count = images.length * 2;
  return images.flatMap((image) => {
    const { shard } = image.key;
    const parts = [shard, shard + images.length].map((index): Part => ({ index, count, rounding: "exact" }));
    const [own, siblings] = parts as [Part, Part];
    const whole = advanced(image.state, atMs, env.calendar);
    const kept = (state: BucketState) => partOf(advanced(state, atMs, env.calendar), own, "keeps", env);
    const given = partOf(whole, siblings, "gets", env);
    const moves = whole.limits.map(({ name, tokensMilli, terms }): Move => {
      const gives = findLimit(given, name)?.terms.capacityMilli ?? 0;
      return { limit: name, milli: proportion(tokensMilli, gives, terms.capacityMilli), whenShort: "owe" };
    });
    const sibling = withTokens(given, moves, env.calendar);
    const giving = resizeWrite(image, kept, { moves }, atMs, env);
    return [
      { ...giving, when: [...giving.when, ...roomClauses(kept(image.state), moves, giving)] },
      putNew({ ...image.key, shard: siblings.index }, splitOff(sibling, image.item, env), traceOf(atMs)),
    ];
  });
}

// After a give-back in between, the giver would lose what it has no room for. After a take in between, the giver must still have
// what it gives: otherwise its sibling would spend what the giver owes.
function roomClauses(kept: BucketState, moves: readonly Move[], { add, set }: ItemWrite): Clause[] {
  return kept.limits.flatMap(({ name, terms, tokensMilli }): Clause[] => {
    const { tk } = namesOf(name);
    // If tokens are set, they are bound by that; if nothing is moved, they may still have changed.
    if (tk in set) return [];
    const added = Number(add[tk] ?? 0);
    const keptMilli = tokensMilli - movedOf(moves, name);
    // A debt is shared as a debt: neither shard may spend what the other owes.
    const mostMilli = keptMilli < 0 ? 0 : Math.max(terms.capacityMilli, keptMilli);
    return [
      [{ name: tk, is: "<=", value: mostMilli - added }],
      [{ name: tk, is: ">=", value: Math.min(0, keptMilli) - added }],
    ];
  });
}

/**
 * The writes of one transaction that leaves `count` of the shards: those that go are pinned to the token, and their tokens are
 * added to the shard that stays in their place.
 */
export function mergingWrites(images: readonly Image[], count: number, atMs: number, env: Env): ItemWrite[] {
  const all = knownIn(images);
  const staying = images.slice(0, count);
  const going = images.slice(count);
  const complete = (state: BucketState) => withEvery(advanced(state, atMs, env.calendar), all, atMs, env.calendar);
  return [
    ...staying.map((image) => {
      const { shard } = image.key;
      const own = complete(image.state);
      const joining = going
        .filter(({ key }) => key.shard % count === shard)
        .map(({ state }) => byRulesOf(own, complete(state), env.calendar));
      const part: Part | undefined = count === 1 ? undefined : { index: shard, count, rounding: "exact" };
      const moves = own.limits.map(({ name }): Move => {
        const milli = sum(joining, (state) => tokensIn(state, name));
        return { limit: name, milli: -milli, whenShort: "owe" };
      });
      const topUps = (name: string) => sum(joining, (state) => findLimit(state, name)?.quota?.topUpMilli ?? 0);
      const becomes = (state: BucketState) => {
        const before = complete(state);
        return withCounts(withPastOf(partOf(before, part, topUps, env), joining, env), [before, ...joining]);
      };
      const joined = going.filter(({ key }) => key.shard % count === shard).map(({ item }) => item);
      return resizeWrite(image, becomes, { moves, usage: countsOf(joined) }, atMs, env);
    }),
    ...going.map(({ key, item, state }) => {
      const pins = [RF, BN, RQ, ...state.limits.map(({ name }) => namesOf(name).tk), ...counterNames(item, state)];
      return removal(
        key,
        pins.map((name) => pinned(item, name)),
        traceOf(atMs),
      );
    }),
  ];
}

/**
 * The writes that make a shard which the original has not made yet, out of the sibling that holds its tokens meanwhile. The
 * sibling is pinned to the token: it gives half of what it has.
 */
export function makingWrites(sibling: Image, shard: number, atMs: number, env: Env): ItemWrite[] {
  const { state, item, key, shardCount } = sibling;
  const becomes = (before: BucketState) => advanced(before, atMs, env.calendar);
  const moves = becomes(state).limits.map(({ name, tokensMilli }): Move => {
    return { limit: name, milli: Math.floor(tokensMilli / 2), whenShort: "owe" };
  });
  const part: Part = { index: shard, count: shardCount, rounding: env.dialect.partRounding };
  const empty = partOf(becomes(state), part, () => 0, env);
  const made = withTokens(empty, moves, env.calendar);
  const write = resizeWrite(sibling, becomes, { moves }, atMs, env);
  const pins = [SHARD_COUNT, ...state.limits.map(({ name }) => namesOf(name).tk)].map(
    (name) => [{ name, is: "=", value: item[name] as ItemValue }] as const,
  );
  return [
    { ...write, when: [...write.when, ...pins] },
    putNew({ ...key, shard }, splitOff(made, item, env), traceOf(atMs)),
  ];
}

/**
 * The item of a shard that is split off another one: of the same bucket, with the same marks of configuration. It begins in no
 * hour before its sibling's: there may have been a shard of this number, and its hours up to the join are on sheets. The
 * sibling's hour is later than the reading's if a clock was ahead and the epoch has been set back since.
 */
function splitOff(state: BucketState, sibling: Item, env: Env): Item {
  const item = newItem(state, sibling[BN], env);
  const [own, siblings] = [numberOf(item, UH), numberOf(sibling, UH)];
  if (own !== undefined && siblings !== undefined) item[UH] = Math.max(own, siblings);
  for (const name of [DISABLED, BYPASS]) if (sibling[name] !== undefined) item[name] = sibling[name];
  if (env.dialect.announcesConfig(sibling)) item[VU] = 0;
  return item;
}

/** A new shard with the tokens that its sibling gives. */
function withTokens(state: BucketState, moves: readonly Move[], calendar: Calendar): BucketState {
  const limits = state.limits.map((held) => ({ ...held, tokensMilli: movedOf(moves, held.name), remainder: 0 }));
  return assembled({ ...state, limits }, calendar);
}

/** The amount of a limit that a shard could give at a reading; negative in debt. */
export function roomIn(state: BucketState, limit: string, readingMs: number): number {
  const held = findLimit(state, limit);
  return held === undefined ? 0 : availableMilli(state, held, readingMs);
}

function resizeWrite(
  image: Image,
  becomes: (state: BucketState) => BucketState,
  intended: Partial<Intent>,
  atMs: number,
  env: Env,
): ItemWrite {
  const rebased = rebase(image.state, becomes, { readingMs: atMs, atMs, install: undefined });
  const step = writeRebased(image, rebased, { ...blankIntent(atMs), ...intended }, env);
  if (step.kind !== "write") throw new RangeError("Shares are moved whatever a shard holds; nothing can be short.");
  const { write } = step;
  const set = image.key.shard === 0 ? { ...write.set, [SDA]: atMs } : write.set;
  return { ...write, set, trace: traceOf(atMs) };
}

/** The counts of the open hour of shards that go: the shard that they join has the same hour. */
function countsOf(items: readonly Item[]): UsageDelta {
  const hours = items.flatMap((item) => openHourIn(item) ?? []);
  // They were checked before the join: all are small enough to be summed.
  const counts = hours.flatMap(({ counts }) => Array.from(counts, ([name, milli]) => [name, Number(milli)] as const));
  const counters = countersOf(counts);
  return {
    ...NO_USAGE,
    ...perCounter((counter) => amountsIn(counters[counter])),
    requests: sum(hours, ({ requests }) => requests),
  };
}

function amountsIn(counts: Readonly<Record<string, number>>): Amount[] {
  return Object.entries(counts).map(([limit, milli]) => ({ limit, milli }));
}

function pinned(item: Item, name: string): Clause {
  const value = item[name];
  return [value === undefined ? { name, is: "absent" } : { name, is: "=", value }];
}

function traceOf(readingMs: number): WriteTrace {
  return { form: "share", readingMs, parts: [], spare: [] };
}

/** The state as another part of the bucket: its terms, and its part of top-ups. */
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
    const marks = quota && { ...quota, topUpMilli };
    if (marks?.countedFromMilli === undefined || typeof topUps === "function")
      return { ...held, terms, part, quota: marks };
    const given = Math.floor(marks.countedFromMilli / 2);
    const countedFromMilli = topUps === "gets" ? given : marks.countedFromMilli - given;
    return { ...held, terms, part, quota: { ...marks, countedFromMilli } };
  });
  return assembled({ ...state, limits }, calendar);
}

/** Joined shards count the usage of a quota from the sum of their capacities. */
function withCounts(state: BucketState, shards: readonly BucketState[]): BucketState {
  const limits = state.limits.map((held) => {
    const all = shards.flatMap((shard) => findLimit(shard, held.name) ?? []);
    if (held.quota === undefined || all.every(({ quota }) => quota?.countedFromMilli === undefined)) return held;
    const countedFromMilli = sum(
      all,
      ({ quota, terms }) => quota?.countedFromMilli ?? terms.capacityMilli - (quota?.topUpMilli ?? 0),
    );
    return { ...held, quota: { ...held.quota, countedFromMilli } };
  });
  return { ...state, limits };
}

/**
 * The limits of a shard that stays, with the past of those that join it: what one must remember all must. A session that is open
 * on any of the shards is open on all of them together; the latest counts.
 */
function withPastOf(state: BucketState, joining: readonly BucketState[], { calendar }: Env): BucketState {
  const limits = state.limits.map((held) => {
    const all = [held, ...joining.flatMap((other) => findLimit(other, held.name) ?? [])];
    const rememberUntilMs = Math.max(...all.map((one) => one.rememberUntilMs));
    if (held.quota === undefined) return { ...held, rememberUntilMs };
    const starts = all.flatMap(({ quota }) => quota?.windowStartMs ?? []);
    const windowStartMs = starts.length === 0 ? undefined : Math.max(...starts);
    // No lease from before a reset may match the count of the joined shard.
    const resets = Math.max(...all.map(({ quota }) => quota?.resets ?? 0));
    return { ...held, rememberUntilMs, quota: { ...held.quota, windowStartMs, resets } };
  });
  return assembled({ ...state, limits }, calendar);
}

/**
 * A shard that joins another, by the rules of that one. They differ if one of them knew a limit's new rule when it was removed: a
 * calendar quota cannot go on with the window of a session, and a spent calendar quota is not full because a session is closed.
 * Or one of them knows a quota's new amount: used tokens stay used either way.
 */
function byRulesOf(own: BucketState, joining: BucketState, calendar: Calendar): BucketState {
  const limits = joining.limits.map((held) => {
    const { limit } = findLimit(own, held.name) ?? held;
    const isSame = sameRule(held.limit, limit) && (held.quota === undefined || sameAmount(held.limit, limit));
    return isSame ? held : changedLimit(held, limit, joining.epochMs, calendar);
  });
  return assembled({ ...joining, limits }, calendar);
}

/**
 * True if the shards have the same count of resets for each quota. If not, some got its rule later than others: leases of all but
 * one could not give back after a join. From its next reset on they agree.
 */
export function countsAgree(images: readonly Image[]): boolean {
  const counts = new Map<string, number>();
  return images.every(({ state }) =>
    state.limits.every(({ name, quota }) => {
      if (quota === undefined) return true;
      const count = counts.get(name) ?? quota.resets;
      counts.set(name, count);
      return count === quota.resets;
    }),
  );
}

/** A limit as the shard that read configuration last has it, and its count of resets. */
interface KnownLimit {
  readonly limit: Limit;
  readonly resets: number;
}

function knownIn(images: readonly Image[]): readonly KnownLimit[] {
  const found = new Map<string, KnownLimit>();
  for (const { state } of [...images].sort((a, b) => a.state.origin.asOfMs - b.state.origin.asOfMs)) {
    for (const { name, limit, quota } of state.limits) {
      found.set(name, { limit, resets: Math.max(quota?.resets ?? 0, found.get(name)?.resets ?? 0) });
    }
  }
  return [...found.values()];
}

// A limit that a shard has never seen is full there. It takes over the count of resets, so that leases of the other shards can
// give back.
function withEvery(state: BucketState, all: readonly KnownLimit[], atMs: number, calendar: Calendar): BucketState {
  if (all.every(({ limit }) => findLimit(state, limit.name) !== undefined)) return state;
  const older = { asOfMs: Number.NEGATIVE_INFINITY, generation: null };
  const set = limitSet(all.map(({ limit }) => limit));
  const whole = bucketFor(state, { set, origin: older }, atMs, calendar);
  const limits = whole.limits.map((held) => {
    const known = all.find(({ limit }) => limit.name === held.name);
    if (held.quota === undefined || known === undefined || findLimit(state, held.name) !== undefined) return held;
    return { ...held, quota: { ...held.quota, resets: known.resets } };
  });
  return assembled({ ...whole, limits }, calendar);
}

function tokensIn(state: BucketState, limit: string): number {
  const held = findLimit(state, limit);
  return held === undefined ? 0 : levelMilli(held, held.terms, 0);
}

function movedOf(moves: readonly Move[], limit: string): number {
  return moves.find((move) => move.limit === limit)?.milli ?? 0;
}

// Rounded down, also for a debt: the giver keeps the rest.
function proportion(milli: number, part: number, whole: number): number {
  if (whole === 0) return 0;
  if (milli >= 0) return addMulDiv(0, milli, part, 0, whole, Number.MAX_SAFE_INTEGER);
  return 0 - mulDivCeil(-milli, part, 0, whole);
}

function sum<One>(all: readonly One[], of: (one: One) => number): number {
  return all.reduce((total, one) => total + of(one), 0);
}
