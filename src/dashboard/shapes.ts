import type { RefusalCount } from "../domain/charge/refusal-count.ts";
import type { LoggedRefusal } from "../domain/charge/refusal-log.ts";
import type { UsageSnapshot, UsageSummary, UsageWindow } from "../domain/charge/usage.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import type { Access, LimitSource, OnUnavailable } from "../domain/config/config.ts";
import type { Entity } from "../domain/config/entity.ts";
import type { Namespace, NamespaceShown } from "../domain/config/namespace.ts";
import type { Plan } from "../domain/config/plan.ts";
import type { Limit } from "../domain/limits/limit.ts";
import type * as output from "../server/schemas/output.ts";

// The JSON of the service's answers, as the schemas type it. Where the library has the same type, that one is used.

export type {
  Access,
  AuditEvent,
  Entity,
  Limit,
  LimitSource,
  LoggedRefusal,
  Namespace,
  NamespaceShown,
  OnUnavailable,
  Plan,
  RefusalCount,
  UsageSnapshot,
  UsageSummary,
  UsageWindow,
};

/** The values that a schema describes. */
type Json<Schema extends { readonly _zod: { readonly output: unknown } }> = Fixed<Schema["_zod"]["output"]>;
type Fixed<Value> = Value extends object ? { readonly [Name in keyof Value]: Fixed<Value[Name]> } : Value;

export type Me = Json<typeof output.me>;

export interface Listed<Item> {
  readonly items: readonly Item[];
  readonly cursor?: string;
}

/** Whole tokens by measure, or by limit. */
export type Amounts = Readonly<Record<string, number>>;

export interface BucketName {
  readonly entityId: string;
  readonly resource: string;
}

/** A wait in ms; null: never. */
export type WaitMs = number | null;

export type BucketListing = Json<typeof output.bucket>;
export type StatusShown = Json<typeof output.status>;
export type Explained = Json<typeof output.explanation>;
export type LevelExplanation = Explained["levels"][number];
export type LimitExplanation = LevelExplanation["limits"][number];

/** The levels that a query can name, the most specific first. */
export type Levels = Json<typeof output.levels>;
/** The configuration of one level; without `etag` nothing is stored. */
export type StoredLimits = Levels["items"][number];
export type Level = StoredLimits["level"];
export type EffectiveLimits = Json<typeof output.effective>;
export type Resets = Json<typeof output.resets>;
export type LeaseView = Json<typeof output.lease>;

export type Overview = Json<typeof output.overview>;

/** Events of the stream. */
export interface RefusedMessage extends BucketName {
  readonly atMs: number;
  readonly statuses: readonly StatusShown[];
  readonly primary: StatusShown;
  readonly retryAfterMs: WaitMs;
}

export interface ThresholdMessage extends BucketName {
  readonly atMs: number;
  readonly limit: string;
  readonly percent: number;
  readonly used: number;
  readonly capacity: number;
  readonly resetsAtMs?: number;
}

/** The requests of a second. */
export interface RequestsMessage {
  readonly granted: number;
  readonly refused: number;
}

export type BucketMessage = BucketListing & { readonly atMs: number };
