import { divFloor } from "../../bucket/integers.ts";
import { wholeTokens } from "../../bucket/level.ts";
import { resetsAtMs } from "../../domain/bucket/bucket-operations.ts";
import { acrossBoundaries, availableMilli, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { counting } from "../../domain/charge/amounts.ts";
import { isMoney } from "../../domain/limits/durations.ts";
import { kindOf, rulesOf } from "../../domain/limits/kinds/table.ts";
import type { LimitKind } from "../../domain/limits/limit-kind.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import { notifiedOf } from "../../domain/limits/thresholds.ts";
import { given } from "../../domain/names/given.ts";
import type { GuardedDeps } from "../acquire/guarded-deps.ts";
import { bucketInForce, type StoredBucket, storedBuckets } from "../limiter/bucket-listing.ts";
import type { LimiterParts } from "../limiter/limiter-parts.ts";

/** A budget, and how much of it is used. */
export interface NearestLimit {
  /** Whose limit it is. */
  readonly entityId: string;
  /** The resource; `"*"`: all together. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** The measure that it counts. */
  readonly counts: string;
  /** How it fills again. */
  readonly kind: LimitKind;
  /** Whole tokens, negative in debt. */
  readonly available: number;
  /** Whole tokens: the most it holds at present. */
  readonly capacity: number;
  /** How much of it is used, in whole percent, rounded down; above 100 in debt. */
  readonly usedPercent: number;
  /** When it is full again, in ms since 1970. Absent: it drips, or its session has not begun. */
  readonly resetsAtMs?: number;
  /** When it is used up at the pace of the last 24 hours, in ms since 1970. Absent: not before it is full again, or nobody can tell. */
  readonly usedUpAtMs?: number;
}

/** A limit on how many are at once. */
export interface SlotsInUse {
  /** Whose limit it is. */
  readonly entityId: string;
  /** The resource; `"*"`: all together. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** How many slots are held. */
  readonly held: number;
  /** How many there are. */
  readonly capacity: number;
}

/** A percentage of a limit that was told. */
export interface ReachedThreshold {
  /** Whose limit it is. */
  readonly entityId: string;
  /** The resource; `"*"`: all together. */
  readonly resource: string;
  /** The limit's name. */
  readonly limit: string;
  /** The percentage. */
  readonly percent: number;
}

/** A limit of a bucket that was looked at. */
export interface HeldLimit {
  readonly key: string;
  readonly shown: NearestLimit;
  /** When its period began; undefined: it has none, or none is open. */
  readonly periodStartMs: number | undefined;
  readonly notified: readonly number[];
  readonly isShadow: boolean;
}

const BUCKETS_MAX = 2_000;
const BUCKETS_PER_PAGE = 500;
const NEAREST_MOST = 10;
const SLOTS_MOST = 5;
const THRESHOLDS_MOST = 10;

interface Found {
  readonly nearest: readonly HeldLimit[];
  readonly slots: readonly SlotsInUse[];
  readonly thresholds: readonly ReachedThreshold[];
  readonly isPartial: boolean;
}

/**
 * Looks at the buckets and picks what is shown. They are sorted as the last request left them, and only the limits of those that are picked
 * are resolved: to resolve all would cost a read for each.
 */
export async function heldLimits({ deps }: LimiterParts, nowMs: number): Promise<Found> {
  const stored = await someBuckets(deps);
  const isPartial = stored.length > BUCKETS_MAX;
  const buckets = new Map<string, Looked>();
  for (const [i, { key, state }] of stored.slice(0, BUCKETS_MAX).entries()) {
    if (i % BUCKETS_PER_TURN === 0) await deps.turns.next();
    const seen = acrossBoundaries(state, nowMs, deps.calendar);
    buckets.set(key.id, { stored: { key, state }, limits: limitsIn({ key, state: seen }, nowMs, deps.calendar) });
  }
  for (;;) {
    const picked = pick([...buckets.values()].flatMap(({ limits }) => limits));
    const shown = new Set([...picked.nearest, ...picked.slots, ...picked.told]);
    const unsure = [...buckets.values()].filter(({ stored: bucket, limits }) => {
      return bucket !== undefined && limits.some((limit) => shown.has(limit));
    });
    if (unsure.length === 0) return { ...shownOf(picked), isPartial };
    await Promise.all(
      unsure.map(async ({ stored: bucket }) => {
        const { key } = bucket as StoredBucket;
        const state = await bucketInForce(deps, bucket as StoredBucket, nowMs);
        const limits = state === undefined ? [] : limitsIn({ key, state }, nowMs, deps.calendar);
        buckets.set(key.id, { stored: undefined, limits });
      }),
    );
  }
}

const BUCKETS_PER_TURN = 256;

interface Looked {
  /** Undefined: its limits are those in force. */
  readonly stored: StoredBucket | undefined;
  readonly limits: readonly HeldLimit[];
}

/** One more than are looked at tells that there are others. */
async function someBuckets(deps: GuardedDeps): Promise<readonly StoredBucket[]> {
  const found: StoredBucket[] = [];
  let cursor: string | undefined;
  do {
    const limit = Math.min(BUCKETS_PER_PAGE, BUCKETS_MAX + 1 - found.length);
    const page = await storedBuckets(deps, {}, { limit, mayBeShort: true, ...given({ cursor }) });
    found.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined && found.length <= BUCKETS_MAX);
  return found;
}

function limitsIn({ key, state }: StoredBucket, nowMs: number, calendar: Calendar): HeldLimit[] {
  return state.limits
    .filter(({ configured }) => configured)
    .map((held) => ({
      key: `${key.id}\n${held.name}`,
      shown: shownLimit({ key, state }, held, nowMs, calendar),
      periodStartMs: periodStartMs(held, nowMs, calendar),
      notified: notifiedOf(state, held, nowMs) ?? NONE,
      isShadow: held.limit.shadow === true,
    }));
}

function shownLimit({ key, state }: StoredBucket, held: LimitState, nowMs: number, calendar: Calendar): NearestLimit {
  const available = wholeTokens(availableMilli(state, held, nowMs));
  const capacity = wholeTokens(held.terms.capacityMilli);
  return {
    entityId: key.entityId,
    resource: key.resource,
    ...counting(held.limit),
    kind: kindOf(held.limit),
    available,
    capacity,
    // Multiplied first: 29 of 100 are 29, not 28.999999999999996.
    usedPercent: capacity === 0 ? 0 : divFloor((capacity - available) * 100, capacity),
    ...given({ resetsAtMs: resetsAtMs(held, Math.max(nowMs, state.epochMs), calendar) }),
  };
}

function usedShare({ available, capacity }: Pick<NearestLimit, "available" | "capacity">): number {
  return capacity === 0 ? 0 : (capacity - available) / capacity;
}

function periodStartMs({ limit, quota }: LimitState, nowMs: number, calendar: Calendar): number | undefined {
  const rules = rulesOf(limit);
  if (quota === undefined || rules.holdsSlots || rules.isClosed(quota)) return undefined;
  const startMs = quota.windowStartMs ?? rules.filledMs(limit, quota, nowMs, calendar);
  return Number.isFinite(startMs) ? startMs : undefined;
}

const NONE: readonly number[] = Object.freeze([]);

/** The limits of each list, sorted and cut. */
interface Picked {
  readonly nearest: readonly HeldLimit[];
  readonly slots: readonly HeldLimit[];
  readonly told: readonly HeldLimit[];
}

function pick(limits: readonly HeldLimit[]): Picked {
  const real = limits.filter(({ isShadow }) => !isShadow);
  const most = (some: readonly HeldLimit[], order: (a: HeldLimit, b: HeldLimit) => number, count: number) =>
    some.toSorted(order).slice(0, count);
  return {
    nearest: most(
      real.filter(({ shown }) => isBudget(shown)),
      byMoney,
      NEAREST_MOST,
    ),
    slots: most(
      real.filter(({ shown }) => shown.kind === "concurrent"),
      byShare,
      SLOTS_MOST,
    ),
    told: most(
      limits.filter(({ notified }) => notified.length > 0),
      byPercent,
      THRESHOLDS_MOST,
    ),
  };
}

function isBudget({ limit, kind }: NearestLimit): boolean {
  return kind !== "concurrent" && (kind !== "drip" || isMoney(limit));
}

function shownOf({ nearest, slots, told }: Picked): Omit<Found, "isPartial"> {
  return {
    nearest,
    slots: slots.map(({ shown: { entityId, resource, limit, available, capacity } }) => {
      return { entityId, resource, limit, held: capacity - available, capacity };
    }),
    thresholds: told
      .flatMap(({ shown: { entityId, resource, limit }, notified }) =>
        notified.map((percent) => ({ entityId, resource, limit, percent })),
      )
      .sort((a, b) => b.percent - a.percent)
      .slice(0, THRESHOLDS_MOST),
  };
}

function byMoney(a: HeldLimit, b: HeldLimit): number {
  return Number(isMoney(b.shown.limit)) - Number(isMoney(a.shown.limit)) || byShare(a, b);
}

function byShare(a: HeldLimit, b: HeldLimit): number {
  return usedShare(b.shown) - usedShare(a.shown) || byName(a, b);
}

function byPercent(a: HeldLimit, b: HeldLimit): number {
  return (b.notified.at(-1) ?? 0) - (a.notified.at(-1) ?? 0) || byName(a, b);
}

function byName(a: HeldLimit, b: HeldLimit): number {
  const [one, other] = [a.shown, b.shown].map(({ entityId, resource, limit }) => `${entityId}\n${resource}\n${limit}`);
  return (one as string) < (other as string) ? -1 : 1;
}
