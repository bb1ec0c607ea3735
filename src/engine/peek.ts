import type { Tokens } from "../domain/amounts.ts";
import { RateLimiterUnavailable } from "../domain/errors.ts";
import type { ChainLink, ConfigCache } from "./config-cache.ts";
import type { Outcome } from "./outcome.ts";
import { claimsOf, enabled, isByConfig } from "./plan.ts";
import type { Question } from "./question.ts";
import { type Observation, refusalOf } from "./refusal.ts";
import { type AcquireRequest, alsoOf, checkRefusal, type Demand } from "./request.ts";
import type { EngineDeps } from "./settings.ts";
import type { Waiting } from "./waiting.ts";

/** What looking needs of an acquirer. */
interface Peeked {
  readonly configCache: ConfigCache;
  attempt(request: AcquireRequest, waiting: Waiting): Promise<Outcome>;
  chain(question: Question, nowMs: number, purpose: "question"): Promise<readonly ChainLink[]>;
  demands(consume: Tokens | undefined, chain: readonly ChainLink[]): Demand[];
  observe(demands: readonly Demand[]): Promise<Observation>;
  isOutdated(levels: readonly ChainLink[]): boolean;
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
  let demands: Demand[] = [];
  try {
    demands = acquirer.demands(request.consume, enabled(await acquirer.chain(request, askedMs, "question")));
    for (const [resource, consume] of alsoOf(request)) {
      const chain = await acquirer.chain({ entityId: request.entityId, resource }, askedMs, "question");
      demands.push(...acquirer.demands(consume, enabled(chain)));
    }
    // A request for nothing cannot be short and overtakes no other, so it need not wait for its turn.
    if (claimsOf(demands).length === 0) return await acquirer.attempt(request, waiting);
    const { observed: seen, nowMs } = await acquirer.observe(demands);
    const refusal = refusalOf(seen, demands, { askedMs: nowMs, toldMs: nowMs }, calendar);
    checkRefusal(refusal);
    return refusal;
  } catch (error) {
    if (error instanceof RateLimiterUnavailable) return acquirer.unavailable(request, demands, error);
    if (!isByConfig(error) || !acquirer.isOutdated(demands.map(({ link }) => link))) throw error;
    acquirer.configCache.expire();
    return peek(acquirer, { clock, calendar }, request, waiting);
  }
}
