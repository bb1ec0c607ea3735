export { type HonoRateLimitEnv, type HonoRateLimitOptions, rateLimit } from "../middleware/hono.ts";
export type { ClosedRequest, RateLimitOptions, RefusedRequest, RequestOutcome } from "../middleware/options.ts";
