export {
  CurrentLease,
  type NestModuleOptions,
  type NestRateLimitOptions,
  type NestRequest,
  RateLimit,
  RateLimitGuard,
  RateLimitModule,
  SkipRateLimit,
} from "../middleware/nest.ts";
export type { ClosedRequest, RateLimitOptions, RefusedRequest, RequestOutcome } from "../middleware/options.ts";
