import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar, ScheduleEntry } from "../../src/domain/limits/schedule.ts";
import type { Item, ItemKey } from "../../src/ports/item-store.ts";
import type { StoredSlice } from "../kit/model-holds.ts";
import type { StoredBucket, StoredLimit } from "../kit/model-stored.ts";
import { inForceAt, shareOf, windowChangeAfter } from "../kit/model-terms.ts";
import type { Rule } from "./promised-limit.ts";

// What an item says, read by its attributes alone and not by the code that wrote it (docs/protocol.md names them).

const CAPACITY = /^b_(.+)_cp$/;
const WRITES = "wcu";
const TOKENS_MOST = 9_000_000_000_000_000n;

/** One shard as it is stored: its own tokens, and its share of the terms. */
export interface ReadItem {
  readonly key: ItemKey;
  readonly item: Item;
  readonly state: StoredBucket;
  readonly shardCount: number;
}

export function readItem(key: ItemKey, item: Item, calendar: Calendar): ReadItem {
  const shardCount = numberIn(item, "shard_count") ?? 1;
  const epochMs = numberIn(item, "rf") ?? 0;
  const names = limitsIn(item).sort();
  const listed = item.cfl;
  const configured = typeof listed === "string" ? listed.split(",").filter((name) => names.includes(name)) : names;
  const others = names.filter((name) => !configured.includes(name));
  const limits = [...configured, ...others].map((name): StoredLimit => {
    const limit = limitIn(item, name);
    const isQuota = limit.reset !== undefined || limit.resetAfterMs !== undefined || limit.holdMs !== undefined;
    const of = (what: string) => numberIn(item, `b_${name}_${what}`);
    const topUpMilli = isQuota ? (of("tu") ?? 0) : 0;
    const whole = inForceAt(limit, epochMs, calendar);
    const share = (amount: bigint) =>
      shardCount === 1 ? amount : shareOf(amount, { index: key.shard, count: shardCount });
    const brim = share(whole.capacity) + BigInt(topUpMilli);
    const remainder = item.frf === epochMs ? (of("fr") ?? 0) : 0;
    return {
      name,
      limit,
      configured: configured.includes(name),
      tokensMilli: of("tk") ?? 0,
      remainder: remainder < whole.periodMs ? remainder : 0,
      terms: {
        capacityMilli: Number(brim > TOKENS_MOST ? TOKENS_MOST : brim),
        refillAmountMilli: Number(share(whole.refill)),
        refillPeriodMs: whole.periodMs,
      },
      quota: isQuota
        ? { windowStartMs: of("ws"), topUpMilli, resets: of("rn") ?? 0, ...countedFrom(of("cf")) }
        : undefined,
      slices: slicesIn(item, name),
    };
  });
  const boundaries = limits.map(({ limit, quota, slices = [] }) =>
    Math.min(
      ...(limit.holdMs === undefined ? [] : slices.map(({ endMs }) => endMs)),
      windowChangeAfter(limit, epochMs, calendar),
      limit.reset === undefined ? Infinity : calendar.nextReset(limit.reset.cron, limit.reset.tz ?? "UTC", epochMs),
      quota?.windowStartMs === undefined ? Infinity : quota.windowStartMs + (limit.resetAfterMs ?? Infinity),
    ),
  );
  const changeNumber = numberIn(item, "cfc");
  const read = { asOfMs: numberIn(item, "cfa") ?? 0, generation: null };
  const origin = changeNumber === undefined ? read : { ...read, changeNumber };
  const state = { epochMs, limits, origin, validUntilMs: Math.min(Infinity, ...boundaries) };
  return { key, item, state, shardCount };
}

/** The slots of a limit that are held, by when they end. */
function slicesIn(item: Item, name: string): StoredSlice[] {
  return Array.from({ length: 8 }, (_, place) => place).flatMap((place) => {
    const endMs = numberIn(item, `b_${name}_e${place}`);
    return endMs === undefined ? [] : [{ place, endMs, heldMilli: numberIn(item, `b_${name}_h${place}`) ?? 0 }];
  });
}

/** The names of the limits on an item. */
function limitsIn(item: Item): string[] {
  return Object.keys(item).flatMap((attribute) => {
    const name = CAPACITY.exec(attribute)?.[1];
    return name === undefined || name === WRITES || !(`b_${name}_tk` in item) ? [] : [name];
  });
}

/** A limit as an item has it: of a shard, that of the whole bucket. */
function limitIn(item: Item, name: string): Limit {
  const of = (what: string) => numberIn(item, `b_${name}_${what}`);
  const [cp, ra, rp, rsa, hm] = [of("cp"), of("ra"), of("rp"), of("rsa"), of("hm")];
  const tz = String(item[`b_${name}_tz`] ?? item.sched_tz ?? "UTC");
  const counts = textIn(item, `b_${name}_ct`);
  const notifyAt = textIn(item, `b_${name}_na`)?.split(",").map(Number);
  const sched = textIn(item, `b_${name}_sched`) ?? textIn(item, "sched");
  const rsched = rsa === undefined && hm === undefined && ra === 0 ? textIn(item, `b_${name}_rsched`) : undefined;
  return {
    name,
    capacity: Number(cp) / 1000,
    refillAmount: Number(ra) / 1000,
    refillPeriodMs: Number(rp),
    ...(counts === undefined ? {} : { counts }),
    ...(`b_${name}_soft` in item ? { soft: true as const } : {}),
    ...(`b_${name}_sh` in item ? { shadow: true as const } : {}),
    ...(sched === undefined
      ? {}
      : {
          schedule: sched
            .slice(1)
            .split(";")
            .map((entry) => windowIn(entry, tz)),
        }),
    ...(notifyAt === undefined ? {} : { notifyAt }),
    ...(rsched === undefined ? {} : { reset: { cron: cronIn(rsched), tz } }),
    ...(rsa === undefined ? {} : { resetAfterMs: rsa * 1000 }),
    ...(hm === undefined ? {} : { holdMs: hm * 1000 }),
  };
}

/** `m0h9-17s500`: fields of a cron, and what is different while it matches. */
function windowIn(text: string, tz: string): ScheduleEntry {
  const of = (tag: string) => {
    const found = new RegExp(`${tag}(\\d+)`).exec(text.replace(FIELDS, ""))?.[1];
    return found === undefined ? undefined : Number(found);
  };
  const [scale, capacity, refillAmount, seconds] = [of("s"), of("c"), of("a"), of("p")];
  return {
    cron: cronIn(text),
    tz,
    ...(scale === undefined ? {} : { scale: scale / 1000 }),
    ...(capacity === undefined ? {} : { capacity }),
    ...(refillAmount === undefined ? {} : { refillAmount }),
    ...(seconds === undefined ? {} : { refillPeriodMs: seconds * 1000 }),
  };
}

const FIELDS = /[mhDMw][0-9*,/-]+/g;

/** The cron of a text such as `1m0h9-17`. */
export function cronIn(text: string): string {
  return ["m", "h", "D", "M", "w"].map((tag) => new RegExp(`${tag}([0-9*,/-]+)`).exec(text)?.[1] ?? "*").join(" ");
}

function countedFrom(countedFromMilli: number | undefined): { readonly countedFromMilli?: number } {
  return countedFromMilli === undefined ? {} : { countedFromMilli };
}

function textIn(item: Item, name: string): string | undefined {
  const text = item[name];
  return typeof text === "string" && text !== "-" ? text : undefined;
}

function numberIn(item: Item, name: string): number | undefined {
  const value = item[name];
  return typeof value === "number" ? value : undefined;
}

/** How many minutes are between the resets of the quotas that single buckets are played with. */
const EVERY: Readonly<Record<string, number>> = { "*/15 * * * *": 15, "0 * * * *": 60, "0 0 * * *": 1440 };

/** The limits on an item, or on one shard of a bucket, as the promise speaks of them: those of the whole. */
export function rulesIn(item: Item): Rule[] {
  return limitsIn(item).map((name) => ruleOf(limitIn(item, name)));
}

export function ruleOf({ name, capacity, refillAmount, refillPeriodMs, reset, resetAfterMs }: Limit): Rule {
  const every = reset === undefined ? {} : { everyMs: (EVERY[reset.cron] ?? Number.NaN) * 60_000 };
  const session = resetAfterMs === undefined ? {} : { sessionMs: resetAfterMs };
  return { name, capacity, refill: refillAmount, periodMs: refillPeriodMs, ...every, ...session };
}
