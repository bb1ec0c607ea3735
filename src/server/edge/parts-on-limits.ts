import { leavingOut, measureOf } from "../../domain/charge/amounts.ts";
import type { ChargeRules } from "../../domain/charge/charges.ts";
import type { LimitStanding } from "../../domain/charge/rate-limit-headers.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { LimiterError, RateLimitExceeded } from "../../domain/names/errors.ts";
import type { CallPart } from "../../edge/plan-call.ts";
import { type ChainLink, enabled } from "../../engine/acquire/chain-link.ts";
import { amongOf, summed } from "../../engine/acquire/parts.ts";
import { type Demand, demandsOf, neverIn, withTotals } from "../../engine/acquire/request.ts";
import { positionsOf } from "../../engine/lease/lease-part.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import { fitsAtMs, refusalOf } from "../../engine/refusal/refusal.ts";
import { exceededBy } from "../../engine/refusal/refused.ts";
import { ofOther, standingsOf } from "../../engine/refusal/standing.ts";
import type { CallRefusal } from "./decision.ts";

// This file relates the parts of a call to limits: which they reach, which measures count, whether they would fit.

type Place = Pick<CallPart, "entityId" | "resource">;

/** Whether an error is a decision about the call: it follows from what the call names, and from what is configured for that. */
export function isDecision(error: unknown): error is LimiterError {
  return error instanceof LimiterError && error.httpStatus < 500 && error.code !== "namespace_not_found";
}

/** The levels of a part as they were last read, totals included; none where they never were. */
function levelsOf({ entityId, resource }: Place, limiter: Limiter): readonly ChainLink[] {
  const { acquirer, deps } = partsOf(limiter);
  return withTotals(acquirer.configCache.lastKnown(entityId, resource, deps.clock.now()) ?? []);
}

/** Whether a part is charged to a bucket. */
export function reaches(part: Place, bucket: Place, limiter: Limiter): boolean {
  return levelsOf(part, limiter).some((level) => isAt(level, bucket));
}

function isAt({ bucket }: ChainLink, place: Place): boolean {
  return isSamePlace(bucket, place);
}

/** The standings of a part, its own first; `levels`: whether those of parents are among them. Each with its limit, if that is known. */
export function standingsOfPart(
  part: Place,
  standings: readonly LimitStanding[],
  levels: "own" | "all",
  limiter: Limiter,
): readonly { readonly standing: LimitStanding; readonly limit: Limit | undefined }[] {
  const links = levelsOf(part, limiter);
  return standings.flatMap((standing) => {
    const isOwn = isOwnOf(part, standing);
    const link = links.find((level) => isAt(level, standing));
    if (!isOwn && (levels === "own" || link === undefined)) return [];
    return [{ standing, limit: link?.charged.limits.find(({ name }) => name === standing.limit) }];
  });
}

/** Whether a limit is of the entity of a part, and counts what is taken of its resource. */
export function isOwnOf(part: Place, { entityId, resource }: Place): boolean {
  return entityId === part.entityId && (resource === part.resource || resource === TOTAL_RESOURCE);
}

/** The parts that some limit counts. */
export async function partsOnLimits(parts: readonly CallPart[], limiter: Limiter): Promise<readonly CallPart[]> {
  const limited = await Promise.all(parts.map((part) => isLimited(part, limiter)));
  return parts.filter((_, i) => limited[i]);
}

async function isLimited(part: CallPart, limiter: Limiter): Promise<boolean> {
  const { planner } = partsOf(limiter).acquirer;
  try {
    planner.demands(leavingOut({ consume: part.consume }, "ignore"), await chainOf(part, limiter));
    return true;
  } catch (error) {
    return !isUnlimited(error);
  }
}

function isUnlimited(error: unknown): boolean {
  return error instanceof LimiterError && (error.code === "limits_missing" || error.code === "consume_empty");
}

function chainOf({ entityId, resource }: Place, limiter: Limiter): Promise<readonly ChainLink[]> {
  const { acquirer, deps } = partsOf(limiter);
  return acquirer.planner.chain({ entityId, resource }, deps.clock.now(), "question");
}

/** The parts with those measures that some level counts; without parts of which nothing is left. */
export async function chargeable(parts: readonly CallPart[], limiter: Limiter): Promise<readonly CallPart[]> {
  const counted = await Promise.all(parts.map((part) => countedOf(part, limiter)));
  return counted.filter((part) => part !== undefined);
}

async function countedOf(part: CallPart, limiter: Limiter): Promise<CallPart | undefined> {
  try {
    const levels = withTotals(await chainOf(part, limiter));
    const measures = new Set(levels.flatMap(({ charged }) => charged.limits.map(measureOf)));
    const consume = Object.fromEntries(Object.entries(part.consume).filter(([measure]) => measures.has(measure)));
    return Object.keys(consume).length === 0 ? undefined : { ...part, consume };
  } catch (error) {
    if (isDecision(error)) return undefined;
    throw error;
  }
}

/** How the limits of some parts stand together, and why they would be refused. */
interface Looking {
  readonly standings: readonly LimitStanding[];
  /** Undefined: they would fit. */
  readonly refusal: CallRefusal | undefined;
  /** The indexes of the parts that stand in the way. */
  readonly over: ReadonlySet<number>;
}

type Asked = Place & Pick<CallPart, "consume">;

/** Looks whether parts of so much would fit together; takes nothing, and promises nothing. */
export async function lookAt(parts: readonly Asked[], limiter: Limiter): Promise<Looking> {
  const { acquirer, deps } = partsOf(limiter);
  const { calendar } = deps;
  const planned = await Promise.all(parts.map((_, i) => plannedOf(parts, i, limiter)));
  const [wrong] = planned.flatMap(({ error }) => error ?? []);
  if (wrong !== undefined) {
    const over = new Set(planned.flatMap(({ error }, i) => (error === undefined ? [] : [i])));
    return { standings: [], refusal: refusalBy(wrong), over };
  }
  const { observed, nowMs } = await acquirer.planner.observe(summed(planned.flatMap(({ demands }) => demands)));
  const standings = observed.flatMap(({ bucket, limits, state }) => {
    const place = planned.findIndex(({ demands }) => demands.some((demand) => demand.bucket.id === bucket.id));
    const { demands } = planned[place] as Planned;
    const at = demands.findIndex((demand) => demand.bucket.id === bucket.id);
    const { level } = positionsOf(demands.map((demand) => demand.bucket))[at] as { readonly level: number };
    const own = standingsOf({ bucket, set: undefined, limits, level }, state, { nowMs, calendar });
    return parts[place]?.entityId === parts[0]?.entityId ? own : own.map(ofOther);
  });
  if (fitsAtMs(observed, nowMs, calendar) <= nowMs) return { standings, refusal: undefined, over: new Set() };
  const asker = planned.find(({ demands }) => demands.length > 0)?.demands ?? [];
  const limits = refusalOf(observed, asker, { askedMs: nowMs, toldMs: nowMs }, calendar);
  const short = limits.statuses.filter(({ exceeded }) => exceeded);
  const isOver = ({ demands }: Planned) => demands.some(({ bucket }) => short.some((one) => isSamePlace(bucket, one)));
  const over = new Set(planned.flatMap((one, i) => (short.length === 0 || isOver(one) ? [i] : [])));
  const error = neverIn(limits) ?? exceededBy(limits);
  const waits = error instanceof RateLimitExceeded ? { limits, retryAfterMs: limits.retryAfterMs } : undefined;
  return { standings, over, refusal: { ...refusalBy(error), ...waits } };
}

/** The demands of a part; none where no limit counts it. */
interface Planned {
  readonly demands: readonly Demand[];
  /** Why it cannot be taken, whatever is left. */
  readonly error?: LimiterError;
}

/** Measures that nothing counts are left out. */
const LEAVING_OUT: ChargeRules = { unnamed: undefined, uncounted: () => {} };

async function plannedOf(parts: readonly Asked[], place: number, limiter: Limiter): Promise<Planned> {
  const part = parts[place] as Asked;
  try {
    const chain = enabled(await chainOf(part, limiter));
    return { demands: demandsOf(part.consume, chain, LEAVING_OUT, amongOf(parts, place)) };
  } catch (error) {
    if (isUnlimited(error)) return { demands: [] };
    if (!isDecision(error)) throw error;
    return { demands: [], error };
  }
}

function isSamePlace(one: Place, other: Place): boolean {
  return one.entityId === other.entityId && one.resource === other.resource;
}

function refusalBy(error: LimiterError): CallRefusal {
  return { code: error.code, retryAfterMs: undefined, limits: undefined, error };
}
