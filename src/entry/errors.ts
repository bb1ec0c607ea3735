export { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
export type { Status } from "../domain/charge/status.ts";
export type { LimitKind } from "../domain/limits/limit-kind.ts";
export {
  ConflictError,
  ExistsError,
  HoldLost,
  LeaseClosed,
  LimiterError,
  NotFoundError,
  type ProblemOptions,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
  VersionError,
} from "../domain/names/errors.ts";
