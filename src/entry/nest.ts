export { type NestModuleOptions, RateLimitGuard, RateLimitModule } from "../middleware/nest.ts";
export {
  CurrentLease,
  type NestRateLimitOptions,
  type NestRequest,
  RateLimit,
  SkipRateLimit,
} from "../middleware/nest-decorators.ts";
export type { ClosedRequest, RateLimitOptions, RefusedRequest, RequestOutcome } from "../middleware/options.ts";
