export { type FastifyRateLimitOptions, type FastifyRouteRateLimitOptions, rateLimit } from "../middleware/fastify.ts";
export type { ClosedRequest, RateLimitOptions, RefusedRequest, RequestOutcome } from "../middleware/options.ts";
