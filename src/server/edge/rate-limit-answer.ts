import { measureOf, REQUESTS } from "../../domain/charge/amounts.ts";
import { grantHeaders, type LimitStanding, refusalHeaders, shareOf } from "../../domain/charge/rate-limit-headers.ts";
import type { Status } from "../../domain/charge/status.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { RESETS } from "../../domain/limits/reset-names.ts";
import { given } from "../../domain/names/given.ts";
import type { EdgeDomain } from "../../edge/edge-file.ts";
import type { CallPart } from "../../edge/plan-call.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import {
  type CurrentLimit,
  type DescriptorStatus,
  type Metadata,
  OK,
  OVER_LIMIT,
  type RateLimitResponse,
} from "../../grpc/messages.ts";
import { Problem } from "../problem.ts";
import type { CallRefusal, Decision } from "./decision.ts";
import { isOwnOf, standingsOfPart } from "./parts-on-limits.ts";

/** The terms of an answer, besides the decision. */
export interface AnswerTerms {
  readonly domain: Pick<EdgeDomain, "levels">;
  readonly limiter: Limiter;
  readonly units: ReadonlyMap<string, string>;
}

/** The header fields of a decision: of limits of parents only where the domain shows them. */
export function limitFields(decision: Decision, terms: AnswerTerms): Readonly<Record<string, string>> {
  const { refusal, parts } = decision;
  const isShown = (one: LimitStanding) => terms.domain.levels === "all" || parts.some((part) => isOwnOf(part, one));
  const standings = decision.standings.filter(isShown);
  if (refusal === undefined) return grantHeaders(standings, terms.units);
  const { limits, retryAfterMs } = refusal;
  const waits = limits ?? { statuses: [], retryAfterMs: retryAfterMs ?? Number.POSITIVE_INFINITY };
  return refusalHeaders(waits, standings, terms.units);
}

/** The problem that a refusal becomes, for the client behind the proxy. */
export function problemOf({ error, code }: CallRefusal, { domain }: Pick<AnswerTerms, "domain">): object {
  if (!(error instanceof Problem)) return { ...error.toProblem({ levels: domain.levels }), code };
  const type = `urn:zae-limiter:problem:${code}`;
  return { type, title: "Forbidden", status: error.status, detail: error.message, code };
}

/** Envoy's answer, with a status for each of so many descriptors. */
export function rateLimitResponse(decision: Decision, descriptors: number, terms: AnswerTerms): RateLimitResponse {
  const { refusal, leaseId } = decision;
  const shown = decision.parts.map((part) => shownOf(part, decision, terms));
  const byDescriptor = new Map(decision.parts.flatMap((part, i) => part.descriptors.map((at) => [at, shown[i]])));
  const statuses = Array.from({ length: descriptors }, (_, i): DescriptorStatus => {
    const { limit, remaining = 0, resetMs } = byDescriptor.get(i) ?? NOT_LIMITED;
    return { code: decision.over.has(i) ? OVER_LIMIT : OK, limit, remaining, resetMs };
  });
  const fields = limitFields(decision, terms);
  return {
    overallCode: refusal === undefined ? OK : OVER_LIMIT,
    statuses,
    responseHeaders: refusal === undefined ? fields : { ...fields, "content-type": "application/problem+json" },
    requestHeaders: leaseId === undefined ? {} : { "zael-lease": leaseId },
    rawBody: refusal && JSON.stringify(problemOf(refusal, terms)),
    metadata: metadataOf(decision, shown),
  };
}

/** The limit of a part, as an answer shows it. */
interface Shown {
  readonly limit: CurrentLimit | undefined;
  readonly remaining: number | undefined;
  readonly resetMs: number | undefined;
  /** The share of it that is left, from 0 to 1. */
  readonly share: number;
}

const NOT_LIMITED: Shown = { limit: undefined, remaining: undefined, resetMs: undefined, share: 1 };

function metadataOf({ refusal, leaseId, degraded }: Decision, shown: readonly Shown[]): Metadata {
  const [nearest = NOT_LIMITED] = shown.toSorted((a, b) => a.share - b.share);
  const refused = refusal && { code: refusal.code, retryAfterMs: finite(refusal.retryAfterMs) };
  return given({ lease: leaseId, limit: nearest.limit?.name, remaining: nearest.remaining, ...refused, degraded });
}

function finite(ms: number | undefined): number | null | undefined {
  return ms === Number.POSITIVE_INFINITY ? null : ms;
}

/** The limit of a part that is nearest to its end; in a refusal, of those that refused the one with the longest wait. */
function shownOf(part: CallPart, { standings, refusal, over }: Decision, terms: AnswerTerms): Shown {
  const own = standingsOfPart(part, standings, terms.domain.levels, terms.limiter);
  if (refusal !== undefined && part.descriptors.some((i) => over.has(i))) {
    const waits = refusal.limits?.statuses.filter(({ exceeded }) => exceeded) ?? [];
    const refused = own.flatMap(({ standing, limit }) => {
      const status = waits.find((one) => isSameLimit(one, standing));
      return status === undefined ? [] : [{ standing, limit, waitMs: status.retryAfterMs }];
    });
    const [longest] = refused.toSorted((a, b) => b.waitMs - a.waitMs);
    if (longest !== undefined) return shownAs(longest, longest.waitMs);
    return { ...NOT_LIMITED, share: 0, resetMs: known(refusal.retryAfterMs) };
  }
  const counted = own.filter(({ limit }) => limit !== undefined && isCounted(part, measureOf(limit)));
  const [nearest] = (counted.length === 0 ? own : counted).toSorted(
    (a, b) => shareOf(a.standing) - shareOf(b.standing) || a.standing.available - b.standing.available,
  );
  return nearest === undefined ? NOT_LIMITED : shownAs(nearest, nearest.standing.fullInMs);
}

function isCounted({ consume, mode }: CallPart, measure: string): boolean {
  return Object.hasOwn(consume, measure) || (measure === REQUESTS && mode === "take");
}

function isSameLimit({ entityId, resource, limit }: Status, standing: LimitStanding): boolean {
  return entityId === standing.entityId && resource === standing.resource && limit === standing.limit;
}

function shownAs(
  { standing, limit }: { readonly standing: LimitStanding; readonly limit: Limit | undefined },
  resetMs: number | null,
): Shown {
  return {
    limit: { name: standing.limit, ...rateOf(limit, standing.capacity) },
    remaining: Math.max(0, standing.available),
    resetMs: known(resetMs),
    share: shareOf(standing),
  };
}

function known(ms: number | null | undefined): number | undefined {
  return ms === null || ms === undefined || !Number.isFinite(ms) ? undefined : Math.ceil(ms);
}

const PERIODS: Readonly<Record<number, CurrentLimit["unit"]>> = {
  1000: "SECOND",
  60000: "MINUTE",
  3600000: "HOUR",
  86400000: "DAY",
};
const RESET_UNITS: Readonly<Record<string, CurrentLimit["unit"]>> = { daily: "DAY", monthly: "MONTH", yearly: "YEAR" };

/** The tokens that come in a unit of time, where the protocol has that unit; else the capacity. */
function rateOf(limit: Limit | undefined, capacity: number): Omit<CurrentLimit, "name"> {
  const reset = limit?.reset && RESETS.find(([, cron]) => cron === limit.reset?.cron)?.[0];
  const quota = reset && RESET_UNITS[reset];
  if (quota !== undefined) return { requestsPerUnit: capacity, unit: quota };
  const unit = limit !== undefined && limit.refillAmount > 0 ? PERIODS[limit.refillPeriodMs] : undefined;
  if (limit === undefined || unit === undefined) return { requestsPerUnit: capacity, unit: "UNKNOWN" };
  return { requestsPerUnit: limit.refillAmount, unit };
}
