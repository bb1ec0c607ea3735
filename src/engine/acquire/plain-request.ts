import type { Amount } from "../../domain/charge/amounts.ts";
import { type ChargeRules, chargeOf } from "../../domain/charge/charges.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import type { BucketsMaybeInPlace } from "../../ports/in-place-takes.ts";
import type { EngineDeps, Settings } from "../limiter/settings.ts";
import type { ChainLink, ConfigCache } from "./config-cache.ts";
import type { DenyMemory } from "./deny-memory.ts";
import { ONE_PART, type Plan, planned, timeLeft } from "./plan.ts";
import type { Planner } from "./planner.ts";
import { type AcquireRequest, demandOf, HELD_AT_MOST, hasOnlyKnownNames } from "./request.ts";
import type { RequestLimits } from "./request-limits.ts";

/** Whether a request asks for nothing but tokens of one resource: the rest is for the steps. */
export function isPlain(request: AcquireRequest): boolean {
  if (typeof request !== "object" || request === null || !hasOnlyKnownNames(request)) return false;
  if (request.also !== undefined || request.signal !== undefined || request.leavePercent !== undefined) return false;
  if (request.holdMs !== undefined) return false;
  return request.atomic === undefined || typeof request.atomic === "boolean";
}

/**
 * The amounts of a request; undefined where they do not fit the limits, which may be out of date, or may be slots of a stored lease: the
 * steps find out.
 */
export function amountsIfValid(
  request: AcquireRequest,
  link: ChainLink,
  rules: ChargeRules,
): readonly Amount[] | undefined {
  if (link.set.isBeyondRates && HELD_AT_MOST in request) return undefined;
  try {
    return chargeOf(request.consume, link, rules);
  } catch {
    return undefined;
  }
}

/** What is known of entities and buckets, by which a request is found to be plain. */
interface Known {
  readonly configCache: ConfigCache;
  readonly deny: DenyMemory;
  readonly requestLimits: RequestLimits;
  readonly planner: Pick<Planner, "isUnknown" | "rules">;
}

/** The plan of a plain request whose limits are remembered, where the store answers with a promise; else undefined. */
export function plainPlan(
  request: AcquireRequest,
  { clock, scope }: EngineDeps,
  settings: Settings,
  known: Known,
): Plan | undefined {
  const buckets: BucketsMaybeInPlace = scope.buckets;
  if (buckets.takeOne !== undefined || !isPlain(request)) return undefined;
  if (request.limits !== undefined || request.atomic || request.resource === TOTAL_RESOURCE) return undefined;
  const nowMs = clock.now();
  const link = known.configCache.singleLink(request.entityId, request.resource, nowMs);
  if (link === undefined || known.planner.isUnknown(link)) return undefined;
  if (known.deny.knows(link)) return undefined;
  if (known.requestLimits.inPlace(link, undefined, nowMs) === undefined) return undefined;
  const take = amountsIfValid(request, link, known.planner.rules.take);
  if (take === undefined || take.length === 0) return undefined;
  const demands = [demandOf(link, take, false)];
  const at = { nowMs, timeoutMs: timeLeft(settings, 0) };
  return planned(request, { demands, claims: demands, parts: ONE_PART }, link.singleChain, at);
}
