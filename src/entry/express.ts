export { type ExpressRateLimitOptions, rateLimit } from "../middleware/express.ts";
export type { ClosedRequest, RateLimitOptions, RefusedRequest, RequestOutcome } from "../middleware/options.ts";
