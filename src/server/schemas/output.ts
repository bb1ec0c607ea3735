import { z } from "../vendor.ts";
import { amounts, limit } from "./input.ts";

// What the service answers. The document is made of it, and tests hold every answer against it.

const instant = z.int().openapi({ description: "Milliseconds since 1970." });
const waitMs = z.number().nullable().openapi({ description: "Milliseconds; null: never." });

export const health = z.object({ status: z.literal("ok") });
export const readiness = z.object({ status: z.literal("ready") });

export const me = z
  .object({
    id: z.string(),
    namespaces: z.union([z.literal("*"), z.array(z.string())]),
    scopes: z.array(z.enum(["acquire", "read", "admin"])),
    expiresAtMs: instant.optional(),
  })
  .openapi("Me");

export const namespace = z
  .object({
    name: z.string(),
    id: z.string(),
    status: z.enum(["active", "deleted", "purging"]),
    createdAtMs: instant,
    deletedAtMs: instant.optional(),
  })
  .openapi("Namespace");

export const purged = z.object({ records: z.int(), done: z.boolean() }).openapi("Purged");

export const availability = z
  .object({
    entityId: z.string(),
    resource: z.string(),
    limit: z.string(),
    counts: z.string(),
    available: z.int(),
    capacity: z.int(),
  })
  .openapi("Availability");

export const lease = z
  .object({
    leaseId: z.string().nullable(),
    namespace: z.string(),
    entityId: z.string(),
    resource: z.string(),
    status: z.enum(["open", "settled", "rolledBack", "expired"]),
    consumed: amounts,
    also: z.record(z.string(), amounts),
    degraded: z.union([z.literal(false), z.string()]),
    overdrawn: z.array(z.string()).openapi({ description: "Soft limits below zero; `day^1` is one level up." }),
    bypassed: z.boolean(),
    expiresAtMs: instant.nullable(),
    onExpiry: z.enum(["charge", "refund"]),
    limits: z.array(availability),
  })
  .openapi("Lease");

export const status = z
  .object({
    entityId: z.string(),
    resource: z.string(),
    limit: z.string(),
    counts: z.string(),
    available: z.int(),
    capacity: z.int(),
    requested: z.int(),
    exceeded: z.boolean(),
    kind: z.enum(["drip", "calendar", "session"]),
    soft: z.boolean(),
    resetsAtMs: instant.optional(),
    retryAfterMs: waitMs,
    asOfMs: instant.optional(),
  })
  .openapi("Status");

export const attempt = z
  .union([
    z.object({ ok: z.literal(true), lease }),
    z.object({ ok: z.literal(false), statuses: z.array(status), primary: status, retryAfterMs: waitMs }),
  ])
  .openapi("Attempt");

const LEVELS = ["entity", "entityDefault", "plan", "planDefault", "resource", "system"] as const;
const TOTAL_LEVELS = ["entityTotal", "planTotal", "systemTotal"] as const;

const source = z.enum([...LEVELS, ...TOTAL_LEVELS, "none"]);

const limitExplanation = z.object({
  limit: z.string(),
  counts: z.string(),
  source: z.enum([...LEVELS, ...TOTAL_LEVELS, "none", "request"]),
  kind: z.enum(["drip", "calendar", "session"]),
  soft: z.boolean(),
  definition: limit,
  capacity: z.int(),
  available: z.int(),
  inWindow: z.boolean(),
  toppedUp: z.int(),
  resetsAtMs: instant.optional(),
  changesAtMs: instant.nullable().optional(),
});

export const explanation = z
  .object({
    entityId: z.string(),
    resource: z.string(),
    outcome: z.enum(["granted", "refused", "disabled", "never"]),
    retryAfterMs: waitMs,
    reason: z.string().optional(),
    primary: status.optional(),
    levels: z.array(
      z.object({
        entityId: z.string(),
        source: z.enum([...LEVELS, ...TOTAL_LEVELS, "none", "request"]),
        planId: z.string().optional(),
        reason: z.string().optional(),
        access: z.enum(["disabled", "bypass", "enforce"]),
        accessSource: source,
        cascade: z.boolean(),
        cascadeSource: source,
        parentId: z.string().optional(),
        limits: z.array(limitExplanation),
        totals: z.array(limitExplanation),
      }),
    ),
  })
  .openapi("Explanation");

export const bucket = z
  .object({
    entityId: z.string(),
    resource: z.string(),
    limits: z.array(
      z.object({
        limit: z.string(),
        counts: z.string(),
        available: z.int(),
        capacity: z.int(),
        kind: z.enum(["drip", "calendar", "session"]),
        soft: z.boolean(),
      }),
    ),
  })
  .openapi("Bucket");

export const entity = z
  .object({
    id: z.string(),
    name: z.string(),
    parentId: z.string().optional(),
    planId: z.string().optional(),
    cascade: z.boolean(),
    metadata: z.record(z.string(), z.string()),
    version: z.int(),
    createdAtMs: instant,
    updatedAtMs: instant,
  })
  .openapi("Entity");

export const plan = z
  .object({
    id: z.string(),
    name: z.string(),
    metadata: z.record(z.string(), z.string()),
    version: z.int(),
    createdAtMs: instant,
    updatedAtMs: instant,
  })
  .openapi("Plan");

const levelOptions = {
  inherit: z.boolean().optional(),
  appliesTo: z.enum(["everyone", "callers"]).optional(),
};

const level = z.object({
  level: z.enum([...LEVELS, ...TOTAL_LEVELS]),
  entityId: z.string().optional(),
  planId: z.string().optional(),
  resource: z.string().optional(),
  limits: z.array(limit),
  ...levelOptions,
  access: z.enum(["disabled", "bypass", "enforce"]).optional(),
  cascade: z.boolean().optional(),
  onUnavailable: z.enum(["allow", "block"]).optional(),
  usageKeptDays: z.number().optional(),
});

export const resets = z
  .object({
    cron: z.string(),
    tz: z.string(),
    problem: z.string().optional().openapi({ description: "Why the reset is invalid; then there are no instants." }),
    nextMs: z.array(instant).openapi({ description: "The next three resets." }),
  })
  .openapi("Resets");
export const levels = z
  .object({
    planId: z.string().optional().openapi({ description: "The entity's own plan, or the one in the query." }),
    items: z.array(
      level.extend({
        etag: z.string().optional().openapi({ description: "For If-Match; absent if nothing is stored." }),
      }),
    ),
  })
  .openapi("Levels");
export const levelLimits = level.openapi("LevelLimits");
export const changedLimits = level.extend({ changed: z.boolean() }).openapi("ChangedLimits");

export const entityLimits = z
  .object({ resource: z.string().optional(), limits: z.array(limit), ...levelOptions })
  .openapi("EntityLimits");
export const effective = z
  .object({ limits: z.array(limit), source, sources: z.record(z.string(), source) })
  .openapi("EffectiveLimits");

export const operation = z
  .object({ entityId: z.string(), resource: z.string(), amounts, repeated: z.boolean() })
  .openapi("OperationResult");

export const usage = z
  .object({
    entityId: z.string(),
    resource: z.string(),
    window: z.enum(["hourly", "daily", "monthly"]),
    windowStartMs: instant,
    windowEndMs: instant,
    counters: amounts,
    requests: z.int(),
    overdrafts: amounts,
    bypassed: amounts,
  })
  .openapi("UsageSnapshot");

export const usageSummary = z
  .object({
    snapshotCount: z.int(),
    total: amounts.openapi({
      description:
        "Tokens per limit, at every level that was charged: a request of a child counts for its parents too.",
    }),
    average: amounts,
    requests: z.int().openapi({ description: "Granted requests, at every level that was charged." }),
    once: z.object({ requests: z.int(), total: amounts }).openapi({
      description:
        "Each request counted once, at the entity that made it, by the current hierarchy. For one entity: everything charged to it.",
    }),
    overdrafts: amounts,
    bypassed: amounts,
    firstWindowStartMs: instant.optional(),
    lastWindowStartMs: instant.optional(),
  })
  .openapi("UsageSummary");

export const usageTotal = usageSummary
  .omit({ once: true })
  .extend({ entityId: z.string().optional(), resource: z.string().optional() })
  .openapi("UsageTotal");

export const refusalCount = z
  .object({
    entityId: z.string(),
    resource: z.string(),
    limit: z.string(),
    level: z.string().openapi({ description: "The entity whose limit refused." }),
    total: z.boolean(),
    window: z.enum(["hourly", "daily", "monthly"]),
    windowStartMs: instant,
    count: z.int(),
  })
  .openapi("RefusalCount");

export const refusalTotal = z
  .object({
    entityId: z.string().optional(),
    resource: z.string().optional(),
    limit: z.string().optional(),
    count: z.int(),
  })
  .openapi("RefusalTotal");

export const auditEvent = z
  .object({
    eventId: z.string(),
    atMs: instant,
    action: z.string(),
    entityId: z.string(),
    resource: z.string().optional(),
    principal: z.string().optional(),
    details: z.record(z.string(), z.unknown()),
  })
  .openapi("AuditEvent");

export const problem = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    requestId: z.string(),
    "violated-policies": z
      .array(z.string())
      .optional()
      .openapi({ description: "In a 429: the limits as in RateLimit-Policy." }),
    violations: z
      .array(z.object({ limit: z.string(), kind: z.enum(["rate", "quota", "session"]) }))
      .optional()
      .openapi({ description: "In a 429: the same limits, each with its kind." }),
  })
  .openapi("Problem", { description: "RFC 9457." });

export const capacity = z
  .object({
    resource: z.string(),
    limit: z.string(),
    totalCapacity: z.int(),
    totalAvailable: z.int(),
    utilizationPct: z.number(),
    entities: z.array(
      z.object({
        entityId: z.string(),
        capacity: z.int(),
        available: z.int(),
        utilizationPct: z.number(),
        within: z.string().optional(),
      }),
    ),
  })
  .openapi("Capacity");

export const resourceName = z.string();
