import { bucketFor } from "../../domain/bucket/bucket-state.ts";
import type { EngineDeps } from "../limiter/settings.ts";
import type { Observation } from "../refusal/refusal.ts";
import type { Demand } from "./request.ts";

/** The buckets of a chain as they are stored, with the limits of now brought to them in thought. */
export async function observed(
  { scope, clock, calendar }: EngineDeps,
  demands: readonly Demand[],
): Promise<Observation> {
  const states = await scope.buckets.read(demands.map(({ link }) => link.bucket));
  // Not before: what the store answers may correct the clock.
  const nowMs = clock.now();
  return {
    observed: demands.map(({ bucket, set, limits = set.limits, origin, take, bypass, leavePercent = 0 }, i) => {
      const state = bucketFor(states[i], { set, origin }, nowMs, calendar);
      return { bucket, state, limits, take, leavePercent, taken: false, bypass, seen: "now" } as const;
    }),
    nowMs,
  };
}
