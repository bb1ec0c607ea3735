import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { ItemKey } from "../../src/ports/item-store.ts";
import type { AppliedChange } from "../kit/conditional-table.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import { storedMilli } from "../kit/model-stored.ts";
import { inForceAt } from "../kit/model-terms.ts";
import type { Owed } from "./conditional-promise.ts";
import { cronIn, type ReadItem } from "./item-reader.ts";

const COUNT = /^b_(.+)_rn$/;
const RULE = /^b_(.+)_rsched$/;

/** What is known of one shard of a bucket. */
export interface Shard {
  readonly key: ItemKey;
  readonly model: ModelBucket;
  /** Of how many it is one. */
  readonly count: number;
  readonly calendar: Calendar;
}

/**
 * What is wrong with shards that were split or joined: nothing may be minted, and nothing lost. The models stand as they
 * did before, the images are what there is now.
 */
export function sharesMoved(before: readonly Shard[], after: readonly ReadItem[]): string[] {
  const [first] = after;
  if (first === undefined) return ["no shard is left"];
  const atMs = first.state.epochMs;
  const problems: string[] = [];
  if (after.some(({ state }) => state.epochMs !== atMs)) problems.push("they are told from different instants");
  for (const { model } of before) model.advance(atMs);
  const names = new Set(after.flatMap(({ state }) => state.limits.map(({ name }) => name)));
  for (const { model } of before) for (const name of model.names) names.add(name);
  for (const name of names) problems.push(...limitMoved(name, before, after, atMs));
  return problems;
}

/**
 * Beginnings of a quota are told apart by a count. Where shards that are joined have counted differently, the largest goes
 * on: by a smaller one, what was taken before an operator's reset would be given back after it. Halves go on as the whole.
 */
export function countsKept(changes: readonly AppliedChange[], calendar: Calendar): string[] {
  const fewest = Math.min(
    changes.filter(({ before }) => before !== undefined).length,
    changes.filter(({ after }) => after !== undefined).length,
  );
  return changes.flatMap(({ key, after = {} }) =>
    Object.keys(after).flatMap((attribute) => {
      const name = COUNT.exec(attribute)?.[1];
      const rsched = after[`b_${name}_rsched`];
      if (name === undefined || typeof rsched !== "string") return [];
      const kin = changes.filter((one) => one.key.shard % fewest === key.shard % fewest);
      const all = kin.flatMap(({ before = {} }) => (before[`b_${name}_rsched`] === rsched ? [before] : []));
      const [cron, tz] = [cronIn(rsched), String(after.sched_tz ?? "UTC")];
      // A period that ended in between is another.
      const same = all.filter(({ rf }) => calendar.nextReset(cron, tz, Number(rf)) > Number(after.rf));
      const most = Math.max(0, ...same.map((before) => Number(before[attribute] ?? 0)));
      return Number(after[attribute]) < most ? [`${name} counts ${after[attribute]}, and was at ${most}`] : [];
    }),
  );
}

/** The quotas whose period was known by different numbers to shards that were joined, and when it ends. */
export function countedApart(
  changes: readonly AppliedChange[],
  calendar: Calendar,
): { readonly limit: string; readonly untilMs: number }[] {
  const left = changes.find(({ after }) => after !== undefined)?.after ?? {};
  return Object.keys(left).flatMap((attribute) => {
    const limit = RULE.exec(attribute)?.[1];
    const rsched = left[attribute];
    if (limit === undefined || typeof rsched !== "string") return [];
    const [cron, tz] = [cronIn(rsched), String(left.sched_tz ?? "UTC")];
    const all = changes.flatMap(({ before = {} }) => (before[attribute] === rsched ? [before] : []));
    // A shard that had not come to this period yet begins it when it is joined.
    const same = all.filter(({ rf }) => calendar.nextReset(cron, tz, Number(rf)) > Number(left.rf));
    if (new Set(same.map((before) => before[`b_${limit}_rn`])).size < 2) return [];
    return [{ limit, untilMs: calendar.nextReset(cron, tz, Number(left.rf)) }];
  });
}

/** What the other shards of a bucket owe of a limit, in millitokens; and up to which instant time has paid for it. */
export function owedElsewhere(all: readonly Shard[], { shard }: ItemKey, name: string, readingMs: number): Owed {
  const owing = all.flatMap(({ key, model }) => {
    const level = model.limit(name)?.levelMilli(readingMs) ?? 0n;
    return key.shard === shard || level >= 0n ? [] : [{ milli: -level, atMs: Math.max(readingMs, model.epochMs) }];
  });
  return { milli: sum(owing, ({ milli }) => milli), atMs: Math.max(readingMs, ...owing.map(({ atMs }) => atMs)) };
}

function limitMoved(name: string, before: readonly Shard[], after: readonly ReadItem[], atMs: number): string[] {
  const models = before.map(({ model }) => model.limit(name));
  const states = after.map(({ state }) => state.limits.find((one) => one.name === name));
  // A limit that a shard has never heard of is full there.
  if (models.includes(undefined)) return [];
  if (states.includes(undefined)) return [`${name} is missing on a shard`];
  const problems: string[] = [];
  const levelBefore = sum(models, (model) => model?.levelMilli(atMs) ?? 0n);
  const levelAfter = sum(states, (state) => (state === undefined ? 0n : storedMilli(state, atMs, atMs)));
  const terms = new Set([...models, ...states].map((one) => JSON.stringify(one?.limit)));
  // The model's levels and the items' differ by a millitoken each at most.
  const rounding = BigInt(before.length);
  // A quota keeps what was used: shards that have not heard of a larger amount gain what it is larger by.
  const isQuota = models.every((model) => model?.period !== undefined && model.limit.holdMs === undefined);
  const brimBefore = sum(models, (model) => (model?.brimMilli ?? 0n) - (model?.toppedUpMilli ?? 0n));
  const brimAfter = sum(states, (state) => BigInt((state?.terms.capacityMilli ?? 0) - (state?.quota?.topUpMilli ?? 0)));
  const gained = isQuota && terms.size > 1 && brimAfter > brimBefore ? brimAfter - brimBefore : 0n;
  if (levelAfter > levelBefore + gained + rounding) problems.push(`${levelAfter - levelBefore} of ${name} were minted`);
  if (terms.size > 1) return problems;
  if (levelAfter < levelBefore - rounding) problems.push(`${levelBefore - levelAfter} of ${name} were lost`);
  const toppedUp = sum(models, (model) => model?.toppedUpMilli ?? 0n);
  const toppedAfter = sum(states, (state) => BigInt(state?.quota?.topUpMilli ?? 0));
  if (toppedUp !== toppedAfter) problems.push(`${toppedUp} of ${name} were bought, and now ${toppedAfter}`);
  const limit = models[0]?.limit;
  if (limit === undefined) return problems;
  const whole = inForceAt(limit, atMs, (before[0] as Shard).calendar);
  const capacity = sum(states, (state) => BigInt(state?.terms.capacityMilli ?? 0));
  const refill = sum(states, (state) => BigInt(state?.terms.refillAmountMilli ?? 0));
  // What was bought may have no room among the numbers that are exact.
  const isBounded = whole.capacity + toppedAfter > 9_000_000_000_000_000n - BigInt(after.length);
  if (capacity !== whole.capacity + toppedAfter && !isBounded)
    problems.push(`the capacities of ${name} add up to ${capacity}`);
  if (refill !== whole.refill) problems.push(`the refills of ${name} add up to ${refill}`);
  return problems;
}

function sum<One>(all: readonly One[], of: (one: One) => bigint): bigint {
  return all.reduce((total, one) => total + of(one), 0n);
}
