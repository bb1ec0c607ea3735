export { CHANNELS } from "../adapters/system/events.ts";
export type { Tokens } from "../domain/amounts.ts";
export type { AuditAction, AuditEvent } from "../domain/audit.ts";
export type { UnnamedLimits } from "../domain/charges.ts";
export type {
  Access,
  AppliesTo,
  LevelOptions,
  LimitSource,
  OnUnavailable,
  OutageShareOption,
  SystemSettings,
  UnknownEntities,
} from "../domain/config.ts";
export type { Entity, EntityPatch, NewEntity } from "../domain/entity.ts";
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
export type { ConcurrentOptions, CustomTerms, KindOptions, QuotaOptions, RateOptions } from "../domain/limit.ts";
export type { LimitKind } from "../domain/limit-kind.ts";
export type { Namespace } from "../domain/namespace.ts";
export type { NewPlan, Plan, PlanPatch } from "../domain/plan.ts";
export type { RefusalCount, RefusalTotal } from "../domain/refusal-count.ts";
export type { ResetName } from "../domain/reset-names.ts";
export type { Reset, ScheduleEntry } from "../domain/schedule.ts";
export type { Status } from "../domain/status.ts";
export { entityIdOf, resourceOf, textOfEntityId, textOfResource } from "../domain/text-names.ts";
export type { UsageSnapshot, UsageSummary, UsageTotal, UsageWindow } from "../domain/usage.ts";
export type { UsageFormat } from "../domain/usage-export.ts";
export type { Acquiring } from "../engine/acquiring.ts";
export type { Availability } from "../engine/availability.ts";
export type { BucketListing, BucketQuery } from "../engine/bucket-listing.ts";
export type { CloseOptions } from "../engine/close-options.ts";
export type { CacheStats } from "../engine/config-cache.ts";
export { currentLease, withCurrentLease } from "../engine/current-lease.ts";
export type { EntityScope } from "../engine/entity-scope.ts";
export type { Explanation, LevelExplanation, LimitExplanation } from "../engine/explanation.ts";
export type { ResourceCapacity, UsageRequest } from "../engine/inspection.ts";
export type { Lease, SettleOptions } from "../engine/lease.ts";
export type { LeaseResource, LeaseStatus } from "../engine/lease-resource.ts";
export type { ChangeOptions, SetOptions } from "../engine/level-options.ts";
export type { Listing, ListOptions, ListPage } from "../engine/listing.ts";
export type { PurgeOptions } from "../engine/namespaces.ts";
export type { Granted, Outcome } from "../engine/outcome.ts";
export type { OperationResult, Policy, PolicyScope, ResetRequest, TopUpRequest } from "../engine/policies.ts";
export type { Question, RequestQuestion } from "../engine/question.ts";
export { type RateLimitHeaderOptions, rateLimitHeaders } from "../engine/rate-limit-headers.ts";
export type { Refusal } from "../engine/refusal.ts";
export type { RefusalRequest, RefusalTotalsRequest } from "../engine/refusal-counts.ts";
export type { AcquireRequest } from "../engine/request.ts";
export type { StoredSet } from "../engine/stored-lists.ts";
export type { TrackOptions } from "../engine/track.ts";
export type {
  AcquiredEvent,
  AcquireEndedEvent,
  ChargedEvent,
  ConsumedCapacityEvent,
  DegradedEvent,
  DegradedKind,
  DisabledEvent,
  GaveBackEvent,
  LeaseEndedEvent,
  LeaseOpenedEvent,
  LimitsChangedEvent,
  RefusedEvent,
  ThresholdEvent,
  UnavailableEvent,
  WaitBeganEvent,
  WaitEndedEvent,
} from "../ports/events.ts";
export type { Store } from "../ports/store.ts";
export { Limit } from "./limits.ts";
export { RateLimiter } from "./rate-limiter.ts";
export type { OpenOptions } from "./store-kinds.ts";
