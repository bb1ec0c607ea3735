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
} from "../domain/errors.ts";
export { ItemUnreadable } from "../domain/item-unreadable.ts";
export type { LimitKind } from "../domain/limit-kind.ts";
export type { Status } from "../domain/status.ts";
