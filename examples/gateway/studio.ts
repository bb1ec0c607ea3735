import { Limit, RateLimitExceeded, type RateLimiter, ResourceDisabled } from "../../src/entry/index.ts";
import { usd } from "../../src/entry/llm.ts";
import type { GatewayOptions } from "./gateway.ts";

// A second customer beside the gateway, a studio on a plan: it has what the gateway has not, so that every tile of the dashboard's first
// page has something to show. A dollar budget a day over two models and pictures, at most four pictures at once, and a limit on trial.

export const STUDIO = "studio";
const [WRITER, PAINTER] = ["writer", "painter"];
const MODELS = [
  { resource: "gpt-5", micro: usd(0.03) },
  { resource: "gpt-5-mini", micro: usd(0.004) },
] as const;
const PICTURES = "images";
const BUDGET = usd(50);
/** A batch in the night used so much of the day, before the first call that one sees. */
const BATCH = usd(27);

/** Stores the plan, its limits and the entities. Safe to repeat. */
export async function setUpStudio(limiter: RateLimiter): Promise<void> {
  const rates = [
    Limit.perMinute("rpm", 90, { counts: "requests", burst: 6 }),
    Limit.perMinute("next_rpm", 30, { counts: "requests", burst: 5, shadow: true }),
  ];
  await limiter.ensurePlan({ id: "pro", name: "Pro" });
  await limiter.setPlanLimits("pro", rates);
  await limiter.setPlanLimits("pro", [...rates, Limit.concurrent("parallel", 4, { holdMs: 30_000 })], {
    resource: PICTURES,
  });
  await limiter.ensureEntity({ id: STUDIO, name: "Studio Nine" });
  for (const id of [WRITER, PAINTER]) {
    await limiter.ensureEntity({ id, parentId: STUDIO, cascade: true, planId: "pro" });
  }
  await limiter.setTotals(STUDIO, [Limit.quota("usd", BUDGET, { reset: "daily", notifyAt: [50, 80] })]);
  const held = await limiter.available({ entityId: WRITER, resource: MODELS[0].resource });
  const left = held.find(({ entityId, limit }) => entityId === STUDIO && limit === "usd")?.available ?? 0;
  if (left < BUDGET - BATCH / 2) return;
  await limiter.withLease({ entityId: WRITER, resource: MODELS[0].resource, consume: { usd: BATCH } }, () => {});
}

/** Lets the studio work until the signal ends it. */
export async function runStudio(
  limiter: RateLimiter,
  { random, clock, signal }: Omit<GatewayOptions, "onEvent">,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  /** Begins a call every so often; whether it is granted is up to the limiter. */
  const keepCalling = async (pauseMs: number, call: (round: number) => Promise<unknown>) => {
    for (let round = 0; !signal.aborted; round++) {
      const made: Promise<void> = call(round)
        .then(() => {}, onlyRefusals(signal))
        .finally(() => underWay.delete(made));
      underWay.add(made);
      await clock.sleep(Math.round(pauseMs * (0.8 + 0.4 * random())), signal).catch(() => {});
    }
  };
  await Promise.all([
    keepCalling(800, (round) => {
      const { resource, micro } = MODELS[round % 3 === 0 ? 0 : 1];
      return limiter.withLease({ entityId: WRITER, resource, consume: { usd: micro } }, () => {});
    }),
    keepCalling(1_000, () => {
      const drawn = () => clock.sleep(Math.round(3_000 + 3_000 * random()), signal);
      const consume = { parallel: 1, usd: usd(0.04) };
      return limiter.withLease({ entityId: PAINTER, resource: PICTURES, consume }, drawn);
    }),
  ]);
  await Promise.all(underWay);
}

/** A refusal is what the story is about, and a call that ends with the run is none of its errors. */
function onlyRefusals(signal: AbortSignal) {
  return (error: unknown): void => {
    if (error instanceof RateLimitExceeded || error instanceof ResourceDisabled || signal.aborted) return;
    throw error;
  };
}
