import { CUSTOMER_KINDS, type LimitKind } from "../../domain/limits/limit-kind.ts";
import { z } from "../vendor.ts";
import { amounts, limit } from "./input.ts";

// What the service answers. The document is made of it, and tests hold every answer against it.

/** A field with what it means, where the library's type does not say so. */
const told = <Schema extends z.ZodType>(schema: Schema, description: string): Schema => schema.openapi({ description });

const instant = z.int().openapi({ description: "In ms since 1970." });
const waitMs = z.number().nullable().openapi({ description: "Milliseconds; null: never." });

const KINDS = Object.keys(CUSTOMER_KINDS) as LimitKind[];

export const health = z.object({ status: z.literal("ok") });
export const readiness = z.object({ status: z.literal("ready") });

export const me = z
  .object({
    id: z.string(),
    namespaces: z.union([z.literal("*"), z.array(z.string())]),
    scopes: z.array(z.enum(["acquire", "read", "admin"])),
    expiresAtMs: instant.optional(),
    leavePercent: told(z.int(), "What its requests must leave at least. Absent: nothing.").optional(),
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

export const purged = z
  .object({
    records: told(z.int(), "How many records this call removed."),
    done: told(z.boolean(), "Whether all are gone. false: call again."),
  })
  .openapi("Purged");

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
    leaseId: told(z.string().nullable(), "Its id; null: it was charged at once, and there is nothing to settle."),
    namespace: told(z.string(), "The name of the namespace."),
    entityId: told(z.string(), "The entity that asked."),
    resource: told(z.string(), "The resource that it asked for."),
    status: told(z.enum(["open", "settled", "rolledBack", "expired"]), "Only an open lease can be changed."),
    consumed: amounts,
    also: told(z.record(z.string(), amounts), "What it was charged on further resources, by resource."),
    degraded: z.union([z.literal(false), z.string()]),
    overdrawn: z.array(z.string()).openapi({
      description: "Names of the soft limits that are below zero: `day` of the entity, `day^1` one level up.",
    }),
    shadowed: z.array(z.string()).openapi({
      description:
        "Names of the shadow limits that would have refused it, and of which nothing was taken: `tpm` of the entity, `tpm^1` one level up.",
    }),
    bypassed: z.boolean(),
    expiresAtMs: told(instant.nullable(), "When it expires, in ms since 1970; null: never."),
    onExpiry: told(z.enum(["charge", "refund"]), "What happens to its tokens then."),
    limits: told(z.array(availability), "What each limit held right after the take."),
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
    floor: told(z.int(), "Whole tokens that the request must leave (`leavePercent`). Absent: none.").optional(),
    exceeded: z.boolean(),
    kind: z.enum(KINDS),
    soft: z.boolean(),
    shadow: z.boolean(),
    resetsAtMs: instant.optional(),
    retryAfterMs: waitMs,
    asOfMs: instant.optional(),
  })
  .openapi("Status");

export const attempt = z
  .union([
    z.object({ ok: told(z.literal(true), "The tokens were taken."), lease: told(lease, "The lease.") }),
    z.object({
      ok: told(z.literal(false), "The request was refused. Nothing was taken."),
      statuses: told(z.array(status), "Every limit that the request asked for, also those that hold enough."),
      primary: told(status, "The limit with the longest wait."),
      retryAfterMs: told(waitMs, "Milliseconds until the request would fit; null: never."),
    }),
  ])
  .openapi("Attempt");

const LEVELS = ["entity", "entityDefault", "plan", "planDefault", "resource", "system"] as const;
const TOTAL_LEVELS = ["entityTotal", "planTotal", "systemTotal"] as const;

const source = z.enum([...LEVELS, ...TOTAL_LEVELS, "none"]);

const limitExplanation = z.object({
  limit: z.string(),
  counts: z.string(),
  source: z.enum([...LEVELS, ...TOTAL_LEVELS, "none", "request"]),
  kind: z.enum(KINDS),
  soft: z.boolean(),
  shadow: z.boolean(),
  definition: limit,
  capacity: z.int(),
  available: z.int(),
  inWindow: z.boolean(),
  toppedUp: z.int(),
  resetsAtMs: instant.optional(),
  changesAtMs: instant.nullable().optional(),
  notified: told(z.array(z.int()), "The percentages of `notifyAt` that were told.").optional(),
  neverCharged: told(z.literal(true), "Nothing was ever charged to it, as far as usage is kept.").optional(),
  freesAtMs: told(instant, "Of slots: when the next of those that are held is free at the latest.").optional(),
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
        kind: z.enum(KINDS),
        soft: z.boolean(),
        shadow: z.boolean(),
        notifyAt: told(z.array(z.int()), "Percentages that are told when so much is used. Absent: none.").optional(),
        notified: told(z.array(z.int()), "Those of them that were told.").optional(),
        neverCharged: told(z.literal(true), "Nothing was ever charged to it, as far as usage is kept.").optional(),
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
  level: told(z.enum([...LEVELS, ...TOTAL_LEVELS]), "Which level it is."),
  entityId: told(z.string(), "The entity of the level.").optional(),
  planId: told(z.string(), "The plan of the level.").optional(),
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
    cron: told(z.string(), "The cron, also of a name such as monthly."),
    tz: told(z.string(), "The time zone."),
    problem: told(z.string(), "Why it cannot be used; then there are no instants.").optional(),
    nextMs: told(z.array(instant), "The next three resets, in ms since 1970."),
  })
  .openapi("Resets");
export const levels = z
  .object({
    planId: z.string().optional().openapi({ description: "The plan of the entity, or the plan of the query." }),
    items: told(
      z.array(level.extend({ etag: told(z.string(), "For If-Match. Absent: nothing is stored there.").optional() })),
      "The levels, the most specific first.",
    ),
  })
  .openapi("Levels");
export const levelLimits = level.openapi("LevelLimits");
export const changedLimits = level
  .extend({ changed: told(z.boolean(), "Whether anything changed.") })
  .openapi("ChangedLimits");

export const entityLimits = z
  .object({ resource: z.string().optional(), limits: z.array(limit), ...levelOptions })
  .openapi("EntityLimits");
export const effective = z
  .object({
    limits: told(z.array(limit), "The limits that apply."),
    source: told(source, "The first level that has limits."),
    sources: told(z.record(z.string(), source), "The level of each limit, by its name."),
  })
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
    wouldRefuse: amounts,
    heldMs: amounts,
  })
  .openapi("UsageSnapshot");

export const usageSummary = z
  .object({
    snapshotCount: z.int(),
    total: amounts.openapi({
      description: "Tokens by limit, at every level that they were charged to: a child and its parent both count.",
    }),
    average: amounts,
    requests: z
      .int()
      .openapi({ description: "How many requests were granted, at every level that they were charged to." }),
    once: z
      .object({
        requests: told(z.int(), "How many requests were granted."),
        total: told(amounts, "Tokens by limit."),
      })
      .openapi({
        description:
          "The same with each request once, at the entity that asked, by the hierarchy as it is now. Of one entity: all that was charged to it.",
      }),
    overdrafts: amounts,
    bypassed: amounts,
    wouldRefuse: amounts,
    heldMs: amounts,
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
    level: z.string().openapi({ description: "Whose limit it is: the id of the entity that asked, or of a parent." }),
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
    type: told(z.string(), "A URI of the kind of problem."),
    title: told(z.string(), "The phrase of the status."),
    status: told(z.int(), "The status of the answer."),
    detail: told(z.string(), "What happened, with the value, and the remedy. It may change between versions."),
    code: told(z.string(), "The code. Programs may branch on it."),
    requestId: told(z.string(), "The id of the request, as the log has it."),
    "violated-policies": z
      .array(z.string())
      .optional()
      .openapi({ description: "Of a 429: names of the limits that refused, as in RateLimit-Policy." }),
    violations: z
      .array(
        z.object({
          limit: told(z.string(), "The name of the limit; of a parent `tpm^1`."),
          kind: told(
            z.enum(Object.values(CUSTOMER_KINDS)),
            "rate: it drips. quota: a budget of the calendar. session: a budget that ends some time after its first use.",
          ),
        }),
      )
      .optional()
      .openapi({ description: "Of a 429: the limits that refused, each with its kind." }),
  })
  .openapi("Problem", { description: "An error, as RFC 9457 has it. Some codes have further members." });

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
