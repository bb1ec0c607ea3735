export { CHANNELS } from "../adapters/system/events.ts";
export { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
export type { Also, AlsoPart, Tokens } from "../domain/charge/amounts.ts";
export type { UnnamedLimits } from "../domain/charge/charges.ts";
export type { RefusalCount, RefusalTotal } from "../domain/charge/refusal-count.ts";
export type { LoggedRefusal } from "../domain/charge/refusal-log.ts";
export type { Status } from "../domain/charge/status.ts";
export type { UsageSnapshot, UsageSummary, UsageTotal, UsageUnderTotals, UsageWindow } from "../domain/charge/usage.ts";
export type { UsageFormat } from "../domain/charge/usage-export.ts";
export type { AuditAction, AuditEvent } from "../domain/config/audit.ts";
export type {
  Access,
  AppliesTo,
  Frozen,
  LevelOptions,
  LimitSource,
  OnUnavailable,
  OutageShareOption,
  SystemSettings,
  UnknownEntities,
} from "../domain/config/config.ts";
export type { Entity, EntityPatch, NewEntity } from "../domain/config/entity.ts";
export type { Namespace, NamespaceShown } from "../domain/config/namespace.ts";
export type { NewPlan, Plan, PlanPatch } from "../domain/config/plan.ts";
export type { ConcurrentOptions, CustomTerms, KindOptions, QuotaOptions, RateOptions } from "../domain/limits/limit.ts";
export type { LimitKind } from "../domain/limits/limit-kind.ts";
export type { ResetName } from "../domain/limits/reset-names.ts";
export type { Reset, ScheduleEntry } from "../domain/limits/schedule.ts";
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
export { entityIdOf, resourceOf, textOfEntityId, textOfResource } from "../domain/names/text-names.ts";
export type { Acquiring, Granted, Outcome } from "../engine/acquire/acquiring.ts";
export type { CacheStats } from "../engine/acquire/config-cache.ts";
export type { OperationResult, Policy, PolicyScope, ResetRequest, TopUpRequest } from "../engine/acquire/policies.ts";
export type { AcquireRequest } from "../engine/acquire/request.ts";
export type { CorrectionRequest, CorrectionResult } from "../engine/acquire/without-lease.ts";
export { currentLease, withCurrentLease } from "../engine/lease/current-lease.ts";
export type { Lease, LeasePlace, SettleOptions } from "../engine/lease/lease.ts";
export type { LeaseResource, LeaseStatus } from "../engine/lease/lease-resource.ts";
export type { TrackOptions } from "../engine/lease/track.ts";
export type { BucketListing, BucketQuery } from "../engine/limiter/bucket-listing.ts";
export type { Explanation, LevelExplanation, LimitExplanation } from "../engine/limiter/explanation.ts";
export type { ResourceCapacity } from "../engine/limiter/inspection.ts";
export type { ChangeOptions, SetOptions } from "../engine/limiter/level-options.ts";
export type { CloseOptions } from "../engine/limiter/lifecycle.ts";
export type { Listing, ListOptions, ListPage, StoredSet, UsageRequest } from "../engine/limiter/listing.ts";
export type { FreezeOptions, PurgeOptions } from "../engine/limiter/namespaces.ts";
export type {
  PastExplanation,
  PastLevel,
  PastLimit,
  PastQuestion,
} from "../engine/limiter/past-explanation.ts";
export type { Availability, Question, RequestQuestion } from "../engine/limiter/question.ts";
export type { EntityScope } from "../engine/limiter/stored-limits.ts";
export type { NearestLimit, ReachedThreshold, SlotsInUse } from "../engine/overview/held-limits.ts";
export type {
  Overview,
  OverviewDegraded,
  OverviewHour,
  OverviewRefusals,
  OverviewShadow,
} from "../engine/overview/overview.ts";
export type { RefusalLogRequest } from "../engine/refusal/logged-refusals.ts";
export { type RateLimitHeaderOptions, rateLimitHeaders } from "../engine/refusal/rate-limit-headers.ts";
export type { Refusal } from "../engine/refusal/refusal.ts";
export type { RefusalRequest, RefusalTotalsRequest } from "../engine/refusal/refusal-counts.ts";
export type { WithTotals } from "../engine/usage/usage-questions.ts";
export type {
  AcquiredEvent,
  AcquireEndedEvent,
  AskedBesides,
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
