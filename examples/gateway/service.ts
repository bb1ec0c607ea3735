import { LimiterError, type RateLimiter } from "../../src/entry/index.ts";
import { createService, type ListeningService } from "../../src/entry/server.ts";

/**
 * Puts the service with its dashboard in front of the gateway's own limiter: the port that was asked for, else the usual one,
 * else, where another program has that, any that is free.
 */
export async function startService(limiter: RateLimiter, port: number | undefined): Promise<ListeningService> {
  const service = await createService({ limiter, drainMs: 1_000 });
  try {
    return await service.listen(port === undefined ? {} : { port });
  } catch (error) {
    if (port === undefined && error instanceof LimiterError && error.code === "port_unavailable") {
      return service.listen({ port: 0 });
    }
    await service.close();
    throw error;
  }
}

/** Whether somebody has changed something over HTTP since then, as one is invited to: without tokens the service says `local`. */
export async function changedByHand(limiter: RateLimiter, sinceMs: number): Promise<boolean> {
  const { events } = await limiter.auditEvents({ limit: 100 });
  return events.some(({ atMs, principal }) => atMs >= sinceMs && principal === "local");
}
