import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { ConfigCache } from "../acquire/config-cache.ts";
import type { Outcome } from "../acquire/outcome.ts";
import { claimsOf, enabled, isByConfig } from "../acquire/plan.ts";
import type { Planner } from "../acquire/planner.ts";
import { type AcquireRequest, alsoOf, checkRefusal, type Demand } from "../acquire/request.ts";
import type { Waiting } from "../outage/waiting.ts";
import { refusalOf } from "../refusal/refusal.ts";
import type { EngineDeps } from "./settings.ts";

/** What looking needs of an acquirer. */
interface Peeked {
  readonly configCache: ConfigCache;
  readonly planner: Planner;
  attempt(request: AcquireRequest, waiting: Waiting): Promise<Outcome>;
  unavailable(request: AcquireRequest, demands: readonly Demand[], cause: unknown): Outcome;
}

/** How a request stands, without taking: for one whose turn never came while it waited. */
export async function peek(
  acquirer: Peeked,
  { clock, calendar }: Pick<EngineDeps, "clock" | "calendar">,
  request: AcquireRequest,
  waiting: Waiting,
): Promise<Outcome> {
  const askedMs = clock.now();
  const { planner } = acquirer;
  let demands: Demand[] = [];
  try {
    demands = [...planner.demands(request, enabled(await planner.chain(request, askedMs, "question")))];
    for (const [resource, consume] of alsoOf(request)) {
      const chain = await planner.chain({ entityId: request.entityId, resource }, askedMs, "question");
      demands.push(...planner.demands({ ...request, consume }, enabled(chain)));
    }
    // A request for nothing cannot be short and overtakes no other, so it need not wait for its turn.
    if (claimsOf(demands).length === 0) return await acquirer.attempt(request, waiting);
    const { observed: seen, nowMs } = await planner.observe(demands);
    const refusal = refusalOf(seen, demands, { askedMs: nowMs, toldMs: nowMs }, calendar);
    checkRefusal(refusal);
    return refusal;
  } catch (error) {
    if (error instanceof RateLimiterUnavailable) return acquirer.unavailable(request, demands, error);
    if (!isByConfig(error) || !planner.isOutdated(demands.map(({ link }) => link))) throw error;
    acquirer.configCache.expire();
    return peek(acquirer, { clock, calendar }, request, waiting);
  }
}
