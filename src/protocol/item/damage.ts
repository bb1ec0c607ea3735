import type { Damage } from "../../domain/bucket/item-unreadable.ts";
import { markIn } from "../../domain/bucket/mark-keeper.ts";
import { MILLI_MAX, PERIOD_MAX_MS } from "../../domain/limits/limit-numbers.ts";
import { FIELDS_STORED } from "../../domain/limits/limit-stored.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import {
  BN,
  CFA,
  CFC,
  CFG,
  CFL,
  COUNTERS,
  FRF,
  LW,
  limitNamesIn,
  PLACES,
  RF,
  RQ,
  RQP,
  RSCHED,
  SCHED,
  SCHED_TZ,
  SDA,
  SHARD_COUNT,
  TTL,
  UH,
  UP,
  VU,
  WCU,
} from "./attributes.ts";

/** The rule for an attribute; `wants` continues the sentence "..., not". */
interface Rule {
  readonly wants: string;
  allows(value: ItemValue): boolean;
}

/**
 * The damage of a shard's item; undefined if it can be read. Every number and text that is used is checked, so that damage is
 * never taken for a value: a missing balance would be full, an epoch of 0 would refill it.
 */
export function damageIn(item: Item): Damage | undefined {
  const limits = new Set(limitNamesIn(item));
  for (const attribute of Object.keys(item)) {
    const rule = ruleFor(attribute, limits);
    const value = item[attribute] as ItemValue;
    if (rule !== undefined && !rule.allows(value)) return { attribute, value, wants: rule.wants };
  }
  return undefined;
}

/** True if a bucket is read from this attribute. */
export function isReadAttribute(attribute: string): boolean {
  return OF_THE_BUCKET[attribute] !== undefined || NONCE.test(attribute) || OF_A_LIMIT.test(attribute);
}

/** True if a value may stand in an attribute that a bucket is read from; a missing value may not. */
export function isSound(attribute: string, value: ItemValue | undefined): boolean {
  const rule = OF_THE_BUCKET[attribute] ?? (isCounter(attribute) === undefined ? undefined : COUNT);
  return value !== undefined && (rule?.allows(value) ?? false);
}

/** The hour of usage that an attribute belongs to; undefined if it is no counter. */
export function isCounter(attribute: string): "open" | "closed" | undefined {
  if (attribute === UH || attribute === RQ) return "open";
  if (attribute === UP || attribute === RQP) return "closed";
  const what = OF_A_LIMIT.exec(attribute)?.[2] ?? "";
  return Object.hasOwn(HOURS_BY_END, what) ? HOURS_BY_END[what] : undefined;
}

/** Like `damageIn`, for counters only. */
export function countDamageIn(item: Item): Damage | undefined {
  for (const attribute of Object.keys(item)) {
    const rule = OF_THE_BUCKET[attribute] ?? COUNT;
    if (isCounter(attribute) === undefined) continue;
    const value = item[attribute] as ItemValue;
    if (!rule.allows(value)) return { attribute, value, wants: rule.wants };
  }
  return undefined;
}

function ruleFor(attribute: string, limits: ReadonlySet<string>): Rule | undefined {
  const own = OF_THE_BUCKET[attribute];
  if (own !== undefined) return own;
  if (NONCE.test(attribute)) return WHOLE;
  const [, limit, what] = OF_A_LIMIT.exec(attribute) ?? [];
  if (limit === undefined || what === undefined) return undefined;
  // Counters stay until the hour is closed, even if the limit goes.
  if (Object.hasOwn(HOURS_BY_END, what)) return COUNT;
  if (limit === WCU) return Object.hasOwn(OF_LIMITS, what) ? WHOLE : undefined;
  return limits.has(limit) && Object.hasOwn(OF_LIMITS, what) ? OF_LIMITS[what] : undefined;
}

function whole(least: number, most: number): Rule {
  return {
    wants:
      most === Number.MAX_SAFE_INTEGER ? `a whole number from ${least}` : `a whole number from ${least} to ${most}`,
    allows: (value) => typeof value === "number" && Number.isSafeInteger(value) && value >= least && value <= most,
  };
}

const NONCE = /^n[0-9a-f]$/;
const OF_A_LIMIT = /^b_(.+)_([a-z]+|[eh][0-7])$/;
/** The last instant of a JavaScript date. */
const LAST_MS = 8_640_000_000_000_000;
const LAST_HOUR = 2_400_000_000;
/** The most that the original's readers expect. */
export const SHARDS_MAX = 32;

const WHOLE: Rule = {
  wants: "a whole number up to 2^53 - 1",
  allows: (value) => typeof value === "number" && Number.isSafeInteger(value),
};
// A count may be of any size: a soft limit or a bypass lets everything through, and all of it is counted.
const COUNT: Rule = {
  wants: "a whole number",
  allows: (value) => typeof value === "bigint" || (typeof value === "number" && Number.isSafeInteger(value)),
};
const TEXT: Rule = { wants: "a text", allows: (value) => typeof value === "string" };
const INSTANT = whole(0, LAST_MS);
const HOUR = whole(0, LAST_HOUR);
const FROM_0 = whole(0, Number.MAX_SAFE_INTEGER);
const FROM_1 = whole(1, Number.MAX_SAFE_INTEGER);

const OF_THE_BUCKET: Readonly<Record<string, Rule | undefined>> = {
  [RF]: INSTANT,
  [FRF]: INSTANT,
  [BN]: WHOLE,
  [VU]: WHOLE,
  [CFA]: WHOLE,
  [CFC]: INSTANT,
  [CFG]: WHOLE,
  [LW]: INSTANT,
  [SDA]: WHOLE,
  [TTL]: FROM_0,
  [SHARD_COUNT]: whole(1, SHARDS_MAX),
  [UH]: HOUR,
  [UP]: HOUR,
  [RQ]: COUNT,
  [RQP]: COUNT,
  [CFL]: TEXT,
  [SCHED]: TEXT,
  [RSCHED]: TEXT,
  [SCHED_TZ]: TEXT,
};

/** Rules by the suffix of the name. The value of `soft` is not used: its presence means that the limit is soft. */
const OF_LIMITS: Readonly<Record<string, Rule | undefined>> = {
  tk: WHOLE,
  cp: whole(0, MILLI_MAX),
  ra: whole(0, MILLI_MAX),
  rp: whole(1, PERIOD_MAX_MS),
  fr: FROM_0,
  ws: INSTANT,
  wa: INSTANT,
  tu: whole(0, MILLI_MAX),
  rn: FROM_0,
  gc: FROM_1,
  ru: INSTANT,
  th: { wants: "a percentage and its period", allows: (value) => markIn(value) !== undefined },
  tb: WHOLE,
  ...Object.fromEntries(FIELDS_STORED.map(({ attribute, type }) => [attribute, type === "string" ? TEXT : FROM_1])),
  soft: undefined,
  tz: TEXT,
  ...Object.fromEntries(PLACES.flatMap((place) => [[`e${place}`, INSTANT] as const, [`h${place}`, FROM_0] as const])),
};

const HOURS_BY_END: Readonly<Record<string, "open" | "closed">> = Object.fromEntries(
  COUNTERS.flatMap(({ open, closed }) => [
    [open, "open"],
    [closed, "closed"],
  ]),
);
