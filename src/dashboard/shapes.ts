import type { RefusalCount } from "../domain/charge/refusal-count.ts";
import type { Status } from "../domain/charge/status.ts";
import type { UsageSnapshot, UsageSummary, UsageWindow } from "../domain/charge/usage.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import type { Access, LimitSource, OnUnavailable } from "../domain/config/config.ts";
import type { Entity } from "../domain/config/entity.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import type { Plan } from "../domain/config/plan.ts";
import type { Limit } from "../domain/limits/limit.ts";
import type { Availability } from "../engine/limiter/availability.ts";
import type { BucketListing } from "../engine/limiter/bucket-listing.ts";
import type { Explanation, LevelExplanation, LimitExplanation } from "../engine/limiter/explanation.ts";

// The JSON that the service answers with: the library's own shapes, but that `Infinity` is null in them.

export type {
  Access,
  AuditEvent,
  BucketListing,
  Entity,
  LevelExplanation,
  Limit,
  LimitExplanation,
  LimitSource,
  Namespace,
  OnUnavailable,
  Plan,
  RefusalCount,
  UsageSnapshot,
  UsageSummary,
  UsageWindow,
};

type Scope = "acquire" | "read" | "admin";

/** `/v1/me`. */
export interface Me {
  readonly id: string;
  readonly namespaces: "*" | readonly string[];
  readonly scopes: readonly Scope[];
  readonly expiresAtMs?: number;
}

export interface Listed<Item> {
  readonly items: readonly Item[];
  readonly cursor?: string;
}

/** A wait in ms; null: never. */
export type WaitMs = number | null;

export type StatusShown = Omit<Status, "retryAfterMs"> & { readonly retryAfterMs: WaitMs };

export type Explained = Omit<Explanation, "retryAfterMs" | "primary"> & {
  readonly retryAfterMs: WaitMs;
  readonly primary?: StatusShown;
};

/** `NS/limits` of one level. */
export interface StoredLimits {
  readonly level: Level;
  readonly limits: readonly Limit[];
  readonly access?: Access;
  readonly cascade?: boolean;
  readonly onUnavailable?: OnUnavailable;
  readonly inherit?: true;
  readonly appliesTo?: "callers";
  /** Absent: nothing is stored. */
  readonly etag?: string;
}

/** `NS/limits/levels`: those that can be named, the most specific first. */
export interface Levels {
  readonly planId?: string;
  readonly items: readonly StoredLimits[];
}

export type Level = Exclude<LimitSource, "none">;

export interface EffectiveLimits {
  readonly limits: readonly Limit[];
  readonly source: LimitSource;
  /** By name, where levels were added up. */
  readonly sources?: Readonly<Record<string, LimitSource>>;
}

/** `NS/leases`. */
export interface LeaseView {
  readonly leaseId: string | null;
  readonly entityId: string;
  readonly resource: string;
  readonly status: "open" | "settled" | "rolledBack" | "expired";
  /** By measure. */
  readonly consumed: Readonly<Record<string, number>>;
  readonly also: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly overdrawn: readonly string[];
  readonly shadowed: readonly string[];
  readonly bypassed: boolean;
  readonly expiresAtMs: number | null;
  readonly onExpiry: "charge" | "refund";
  readonly limits: readonly Availability[];
}

export interface RefusedMessage {
  readonly atMs: number;
  readonly entityId: string;
  readonly resource: string;
  readonly statuses: readonly StatusShown[];
  readonly primary: StatusShown;
  readonly retryAfterMs: WaitMs;
}

export interface ThresholdMessage {
  readonly atMs: number;
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  readonly percent: number;
  readonly used: number;
  readonly capacity: number;
  readonly resetsAtMs?: number;
}

export type BucketMessage = BucketListing & { readonly atMs: number };
