import { GRANTED, usageIn } from "../../domain/charge/caller-usage.ts";
import { OTHER, type RefusalKey, refusalKeyText } from "../../domain/charge/refusal-count.ts";
import { HOUR_MS, hourOf, type UsageSnapshot } from "../../domain/charge/usage.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { LimiterParts } from "../limiter/limiter-parts.ts";
import { listing } from "../limiter/listing.ts";
import {
  type HeldLimit,
  heldLimits,
  type NearestLimit,
  type ReachedThreshold,
  type SlotsInUse,
} from "./held-limits.ts";
import { type HourlyUse, usedUpAtMs } from "./pace.ts";

/** The requests of one hour (UTC). */
export interface OverviewHour {
  /** First ms of the hour. */
  readonly windowStartMs: number;
  /** How many requests were granted, each once, at all. Absent: nobody counts them. */
  readonly requests?: number;
  /** How many requests were refused. Absent: nobody counts them. */
  readonly refused?: number;
}

/** Refusals of one entity on one resource by one limit. */
export interface OverviewRefusals extends RefusalKey {
  /** How many requests ended refused. */
  readonly count: number;
}

/** What a shadow limit would have refused, wherever it is. */
export interface OverviewShadow {
  /** The limit's name. */
  readonly limit: string;
  /** How many requests it would have refused. */
  readonly wouldRefuse: number;
  /** Of how many entities. */
  readonly entities: number;
}

/** Something that did not work. */
export interface OverviewDegraded {
  /** When, in ms since 1970. */
  readonly atMs: number;
  /** What did not work. */
  readonly reason: string;
}

/** How it is going: what an operator asks first. */
export interface Overview {
  /** When it was worked out, in ms since 1970: at most every 10 s, on DynamoDB every minute. */
  readonly atMs: number;
  /** The last 24 hours (UTC), the oldest first; the last one goes on. */
  readonly hours: readonly OverviewHour[];
  /** Who was refused most in these hours, and by which limit; 5 at most. Empty also where nobody counts refusals. */
  readonly refusedMost: readonly OverviewRefusals[];
  /** What is nearest to its end: dollars first, then quotas and sessions, by percent used; 10 at most. */
  readonly nearest: readonly NearestLimit[];
  /** Limits on how many are at once, the fullest first; 5 at most. */
  readonly slots: readonly SlotsInUse[];
  /** Percentages that were told in the open period, the highest first; 10 at most. */
  readonly thresholds: readonly ReachedThreshold[];
  /** What shadows would have refused in these hours; 5 at most. Empty also where usage is not kept. */
  readonly shadows: readonly OverviewShadow[];
  /** What did not work in the last hour, the newest first. Only a service tells it, of itself. */
  readonly degraded?: readonly OverviewDegraded[];
  /** The lists that are made of the first 2,000 buckets only. Absent: all buckets were looked at. */
  readonly partial?: readonly ("nearest" | "slots" | "thresholds")[];
}

const HOURS = 24;
const REFUSED_MOST = 5;
const SHADOWS_MOST = 5;
/** Rows read at a time. */
const PAGE = 5_000;

interface Remembered {
  readonly untilMs: number;
  readonly answer: Promise<Overview>;
}

const REMEMBERED = new WeakMap<LimiterParts, Remembered>();

/**
 * Works out the overview, or answers the last one while it is fresh. It is fresh for as long as processes keep their counts before they
 * write them: asked more often, it would cost more and tell nothing new of them.
 */
export function overview(parts: LimiterParts): Promise<Overview> {
  const { clock, scope } = parts.deps;
  const nowMs = clock.now();
  const known = REMEMBERED.get(parts);
  if (known !== undefined && nowMs < known.untilMs) return known.answer;
  const made = { untilMs: nowMs + scope.refusals.writeEveryMs, answer: workedOut(parts, nowMs) };
  REMEMBERED.set(parts, made);
  made.answer.catch(() => {
    if (REMEMBERED.get(parts) === made) REMEMBERED.delete(parts);
  });
  return made.answer;
}

async function workedOut(parts: LimiterParts, nowMs: number): Promise<Overview> {
  const fromMs = hourOf(nowMs) - (HOURS - 1) * HOUR_MS;
  const [refused, held] = await Promise.all([refusedSince(parts, fromMs), heldLimits(parts, nowMs)]);
  const granted = await grantedSince(parts, fromMs);
  const used = await usedSince(parts, fromMs, held.nearest);
  const hours = Array.from({ length: HOURS }, (_, i) => {
    const windowStartMs = fromMs + i * HOUR_MS;
    const told = (byHour: ReadonlyMap<number, number> | undefined) => byHour && (byHour.get(windowStartMs) ?? 0);
    return { windowStartMs, ...given({ requests: told(granted), refused: told(refused.byHour) }) };
  });
  return {
    atMs: nowMs,
    hours,
    refusedMost: refused.most,
    nearest: held.nearest.map((limit) => ({
      ...limit.shown,
      ...given({ usedUpAtMs: usedUpAtMs(limit, used.byLimit.get(limit.key) ?? [], fromMs, nowMs) }),
    })),
    slots: held.slots,
    thresholds: held.thresholds,
    shadows: used.shadows,
    ...(held.isPartial ? { partial: ["nearest", "slots", "thresholds"] as const } : {}),
  };
}

interface RefusedSince {
  /** Undefined: nobody counts refusals. */
  readonly byHour: ReadonlyMap<number, number> | undefined;
  readonly most: readonly OverviewRefusals[];
}

async function refusedSince({ acquirer }: LimiterParts, fromMs: number): Promise<RefusedSince> {
  const byHour = new Map<number, number>();
  const byKey = new Map<string, OverviewRefusals>();
  try {
    for await (const row of acquirer.refusals.list({ window: "hourly", fromMs, pageSize: PAGE })) {
      const { window: _, windowStartMs, count, ...key } = row;
      byHour.set(windowStartMs, (byHour.get(windowStartMs) ?? 0) + count);
      // Those that were too many to be counted by name are nobody.
      if (key.entityId === OTHER) continue;
      const text = refusalKeyText(key);
      byKey.set(text, { ...key, count: count + (byKey.get(text)?.count ?? 0) });
    }
  } catch (error) {
    if (!isUnknown(error)) throw error;
    return { byHour: undefined, most: [] };
  }
  const most = [...byKey].sort(([a, one], [b, other]) => other.count - one.count || (a < b ? -1 : 1));
  return { byHour, most: most.slice(0, REFUSED_MOST).map(([, sum]) => sum) };
}

/** How many requests were granted in each hour, each once; undefined: nobody counts them. */
async function grantedSince({ acquirer }: LimiterParts, fromMs: number): Promise<Map<number, number> | undefined> {
  const { pages, isCounted } = acquirer.callers;
  if (pages === undefined || !isCounted) return undefined;
  const query = { window: "hourly", fromMs, toMs: Number.MAX_SAFE_INTEGER, entityId: GRANTED } as const;
  const byHour = new Map<number, number>();
  try {
    for await (const { windowStartMs, counts } of listing((page) => pages(query, page), { limit: PAGE })) {
      byHour.set(windowStartMs, (byHour.get(windowStartMs) ?? 0) + usageIn(counts, "all").requests);
    }
  } catch (error) {
    if (!isUnknown(error)) throw error;
    return undefined;
  }
  return byHour;
}

interface UsedSince {
  /** The usage of some limits, by their keys. */
  readonly byLimit: ReadonlyMap<string, readonly HourlyUse[]>;
  readonly shadows: readonly OverviewShadow[];
}

/** Reads the usage of all buckets once, for what shadows would have refused and for the pace of these limits. */
async function usedSince({ deps }: LimiterParts, fromMs: number, wanted: readonly HeldLimit[]): Promise<UsedSince> {
  const query = { window: "hourly", fromMs, toMs: Number.MAX_SAFE_INTEGER } as const;
  const byLimit = new Map<string, HourlyUse[]>(wanted.map(({ key }) => [key, []]));
  const limitsOf = new Map<string, HeldLimit[]>();
  for (const limit of wanted) {
    const bucket = bucketText(limit.shown);
    limitsOf.set(bucket, [...(limitsOf.get(bucket) ?? []), limit]);
  }
  const sums = new Map<string, { wouldRefuse: number; readonly entities: Set<string> }>();
  const add = (snapshot: UsageSnapshot) => {
    const { entityId, windowStartMs, counters, wouldRefuse } = snapshot;
    for (const { key, shown } of limitsOf.get(bucketText(snapshot)) ?? []) {
      const tokens = Object.hasOwn(counters, shown.limit) ? (counters[shown.limit] as number) : 0;
      byLimit.get(key)?.push({ windowStartMs, tokens });
    }
    for (const [limit, count] of Object.entries(wouldRefuse)) {
      if (count === 0) continue;
      const sum = sums.get(limit) ?? { wouldRefuse: 0, entities: new Set() };
      sums.set(limit, sum);
      sum.wouldRefuse += count;
      sum.entities.add(entityId);
    }
  };
  try {
    for await (const snapshot of listing((page) => deps.scope.usage.query(query, page), { limit: PAGE })) add(snapshot);
  } catch (error) {
    if (!isUnknown(error)) throw error;
  }
  const shadows = Array.from(sums, ([limit, sum]) => ({ limit, ...sum, entities: sum.entities.size }));
  shadows.sort((a, b) => b.wouldRefuse - a.wouldRefuse || (a.limit < b.limit ? -1 : 1));
  return { byLimit, shadows: shadows.slice(0, SHADOWS_MOST) };
}

function bucketText({ entityId, resource }: { readonly entityId: string; readonly resource: string }): string {
  return `${entityId}\n${resource}`;
}

/** Whether the store does not keep it, or this client may not read it: the other parts are answered all the same. */
function isUnknown(error: unknown): boolean {
  return error instanceof LimiterError && UNKNOWN.has(error.code);
}

const UNKNOWN: ReadonlySet<string> = new Set([
  ...["usage_not_kept", "usage_not_aggregated", "refusals_not_kept", "access_denied"],
]);
