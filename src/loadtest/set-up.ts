import type { RateLimiter } from "../entry/rate-limiter.ts";
import { RESOURCE, type Scenario } from "./scenarios.ts";

const PRINCIPAL = "loadtest";

/** Makes the entities of a scenario, parents first. */
export async function setUp(limiter: RateLimiter, { entities }: Scenario): Promise<void> {
  for (const { id, parentId, limits } of entities) {
    const child = parentId === undefined ? {} : { parentId, cascade: true };
    await limiter.createEntity({ id, ...child }, { principal: PRINCIPAL });
    await limiter.setLimits(id, limits, { resource: RESOURCE, principal: PRINCIPAL });
  }
}
