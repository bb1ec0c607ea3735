export { type FetchRateLimitOptions, rateLimit } from "../middleware/fetch.ts";
export type { ClosedRequest, RateLimitOptions, RefusedRequest, RequestOutcome } from "../middleware/options.ts";
