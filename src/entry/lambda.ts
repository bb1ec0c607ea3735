export {
  type LambdaContext,
  type LambdaHttpEvent,
  type LambdaRateLimitOptions,
  type LambdaResult,
  type MiddyRequest,
  type RateLimitMiddleware,
  type ResponseStream,
  rateLimit,
  rateLimitMiddy,
} from "../middleware/lambda.ts";
export type { ClosedRequest, RateLimitOptions, RefusedRequest, RequestOutcome } from "../middleware/options.ts";
