import { CUSTOMER_KINDS, type LimitKind } from "../../domain/limits/limit-kind.ts";
import { z } from "../vendor.ts";
import { amounts, limit, told } from "./input.ts";
import { answer, instant, LEVELS, source, TOTAL_LEVELS } from "./levels.ts";

// The answers of the service. The OpenAPI document is made of them, and tests check every answer against them.

export { changedLimits, effective, entityLimits, levelLimits, levels, resets } from "./levels.ts";

const waitMs = z.number().nullable().openapi({ description: "Milliseconds; null: never." });

const KINDS = Object.keys(CUSTOMER_KINDS) as LimitKind[];

// Members that several answers share.
export const bucketKey = { entityId: z.string(), resource: z.string() };
export const limitKey = { ...bucketKey, limit: z.string() };
const limitNature = { kind: z.enum(KINDS), soft: z.boolean(), shadow: z.boolean() };
const limitHistory = {
  notified: told(z.array(z.int()), "The percentages of `notifyAt` that were told.").optional(),
  neverCharged: told(z.literal(true), "Nothing was ever charged to it, as far as usage is kept.").optional(),
};
const limitState = { ...limitKey, counts: z.string(), available: z.int(), capacity: z.int() };
const recordState = {
  metadata: z.record(z.string(), z.string()),
  version: z.int(),
  createdAtMs: instant,
  updatedAtMs: instant,
};
const usageCounts = { overdrafts: amounts, bypassed: amounts, wouldRefuse: amounts, heldMs: amounts };
export const usageWindow = { window: z.enum(["hourly", "daily", "monthly"]), windowStartMs: instant };

export const health = z.object({ status: z.literal("ok") });
export const readiness = z.object({ status: z.literal("ready") });

export const me = answer("Me", {
  id: z.string(),
  namespaces: z.union([z.literal("*"), z.array(z.string())]),
  scopes: z.array(z.enum(["acquire", "read", "admin", "refund", "proxy"])),
  expiresAtMs: instant.optional(),
  leavePercent: told(z.int(), "What its requests must leave at least. Absent: nothing.").optional(),
});

export const namespace = answer("Namespace", {
  name: z.string(),
  id: z.string(),
  status: z.enum(["active", "deleted", "purging", "copying"]),
  createdAtMs: instant,
  deletedAtMs: instant.optional(),
});

export const frozen = told(
  z.object({ reason: told(z.string(), "The reason that was given.").optional() }),
  "The namespace is frozen: nothing is taken, topped up or reset in it. Absent: it is not.",
).optional();

export const namespaceShown = answer("NamespaceShown", { ...namespace.shape, frozen });

export const purged = answer("Purged", {
  records: told(z.int(), "How many records this call removed."),
  done: told(z.boolean(), "Whether all are gone. false: call again."),
});

export const availability = answer("Availability", limitState);

export const lease = answer("Lease", {
  leaseId: told(z.string().nullable(), "Its id; null: it was charged at once, and there is nothing to settle."),
  namespace: told(z.string(), "The name of the namespace."),
  entityId: told(z.string(), "The entity that asked."),
  resource: told(z.string(), "The resource that it asked for."),
  status: told(z.enum(["open", "settled", "rolledBack", "expired"]), "Only an open lease can be changed."),
  consumed: amounts,
  also: told(z.record(z.string(), amounts), "What it was charged on further resources of its entity, by resource."),
  parts: told(
    z.array(
      z.object({
        entityId: told(z.string(), "The entity of the part."),
        resource: told(z.string(), "Its resource."),
        consumed: told(amounts, "What it was charged."),
      }),
    ),
    "What every part was charged, its own first. Absent: all are of its entity.",
  ).optional(),
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
});

export const status = answer("Status", {
  ...limitState,
  requested: z.int(),
  floor: told(z.int(), "Whole tokens that the request must leave (`leavePercent`). Absent: none.").optional(),
  exceeded: z.boolean(),
  ...limitNature,
  resetsAtMs: instant.optional(),
  retryAfterMs: waitMs,
  asOfMs: instant.optional(),
});

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

export const explainedLimit = {
  limit: z.string(),
  counts: z.string(),
  source: z.enum([...LEVELS, ...TOTAL_LEVELS, "none", "request"]),
  ...limitNature,
  definition: limit,
};

const limitExplanation = z.object({
  ...explainedLimit,
  capacity: z.int(),
  available: z.int(),
  inWindow: z.boolean(),
  toppedUp: z.int(),
  resetsAtMs: instant.optional(),
  changesAtMs: instant.nullable().optional(),
  untilMs: told(instant, "It applies until then. Absent: it has no end.").optional(),
  // biome-ignore lint/suspicious/noThenProperty: as above.
  then: told(limit.nullable(), "The limit of that name from then on; null: none.").optional(),
  ...limitHistory,
  freesAtMs: told(instant, "Of slots: when the next of those that are held is free at the latest.").optional(),
});

export const explainedLevel = z.object({
  entityId: z.string(),
  source: z.enum([...LEVELS, ...TOTAL_LEVELS, "none", "request"]),
  planId: z.string().optional(),
  reason: z.string().optional(),
  access: z.enum(["disabled", "bypass", "enforce"]),
  accessSource: source,
  accessUntilMs: told(instant, "The access counts until then. Absent: it has no end.").optional(),
  cascade: z.boolean(),
  cascadeSource: source,
  parentId: z.string().optional(),
});

export const explanation = answer("Explanation", {
  ...bucketKey,
  outcome: z.enum(["granted", "refused", "disabled", "never"]),
  retryAfterMs: waitMs,
  frozen,
  reason: z.string().optional(),
  primary: status.optional(),
  levels: z.array(explainedLevel.extend({ limits: z.array(limitExplanation), totals: z.array(limitExplanation) })),
});

export const bucket = answer("Bucket", {
  ...bucketKey,
  limits: z.array(
    z.object({
      limit: z.string(),
      counts: z.string(),
      available: z.int(),
      capacity: z.int(),
      ...limitNature,
      notifyAt: told(z.array(z.int()), "Percentages that are told when so much is used. Absent: none.").optional(),
      notified: told(z.array(z.int()), "Those of them that were told.").optional(),
      neverCharged: limitHistory.neverCharged,
    }),
  ),
});

export const entity = answer("Entity", {
  id: z.string(),
  name: z.string(),
  parentId: z.string().optional(),
  planId: z.string().optional(),
  cascade: z.boolean(),
  ...recordState,
});

export const plan = answer("Plan", { id: z.string(), name: z.string(), ...recordState });

export const correction = answer("CorrectionResult", {
  entityId: z.string(),
  resource: z.string(),
  amounts: told(amounts, "Whole tokens by measure that the entity itself was charged or given back."),
  repeated: told(z.boolean(), "The idempotency key was used before, and nothing was changed."),
});

export const operation = answer("OperationResult", {
  entityId: z.string(),
  resource: z.string(),
  amounts,
  repeated: z.boolean(),
});

export const usage = answer("UsageSnapshot", {
  ...bucketKey,
  ...usageWindow,
  windowEndMs: instant,
  tz: told(z.string(), "The time zone at whose midnights windows begin. Absent: UTC.").optional(),
  counters: amounts,
  requests: z.int(),
  ...usageCounts,
});

export const usageSummary = answer("UsageSummary", {
  snapshotCount: z.int(),
  total: amounts.openapi({
    description: "Tokens by limit, at every level that they were charged to: a child and its parent both count.",
  }),
  average: amounts,
  requests: told(z.int(), "How many requests were granted, at every level that they were charged to."),
  once: z
    .object({
      requests: told(z.int(), "How many requests were granted."),
      total: told(amounts, "Tokens by limit."),
    })
    .openapi({
      description:
        "The same with each request once, at the entity that asked, by the hierarchy as it is now. Of one entity: all that was charged to it.",
    }),
  ...usageCounts,
  firstWindowStartMs: instant.optional(),
  lastWindowStartMs: instant.optional(),
  inTotal: z
    .object({ total: told(amounts, "Tokens by limit."), requests: told(z.int(), "How many requests were granted.") })
    .optional()
    .openapi({ description: "What totals over all resources counted: in no other number here. Absent: none did." }),
});

export const usageTotal = usageSummary
  .omit({ once: true })
  .extend({ entityId: z.string().optional(), resource: z.string().optional() })
  .openapi("UsageTotal");

const overviewLists = ["nearest", "slots", "thresholds"] as const;

export const overview = answer("Overview", {
  atMs: told(z.int(), "When it was worked out, in ms since 1970: at most every 10 s, on DynamoDB every minute."),
  hours: told(
    z.array(
      z.object({
        windowStartMs: instant,
        requests: told(z.int(), "How many requests were granted, each once. Absent: nobody counts them.").optional(),
        refused: told(z.int(), "How many requests were refused. Absent: nobody counts them.").optional(),
      }),
    ),
    "The last 24 hours (UTC), the oldest first; the last one goes on.",
  ),
  refusedMost: told(
    z.array(z.object({ ...limitKey, level: z.string(), total: z.boolean(), count: z.int() })),
    "Who was refused most in these hours, and by which limit.",
  ),
  nearest: told(
    z.array(
      z.object({
        ...limitState,
        kind: limitNature.kind,
        usedPercent: told(z.int(), "Rounded down; above 100 in debt."),
        resetsAtMs: told(z.int(), "When it is full again, in ms since 1970.").optional(),
        usedUpAtMs: told(z.int(), "When it is used up at the pace of the last 24 hours, in ms since 1970.").optional(),
      }),
    ),
    "What is nearest to its end: dollars first, then quotas and sessions, by percent used.",
  ),
  slots: told(
    z.array(z.object({ ...limitKey, held: z.int(), capacity: z.int() })),
    "Limits on how many are at once, the fullest first.",
  ),
  thresholds: told(
    z.array(z.object({ ...limitKey, percent: z.int() })),
    "Percentages that were told in the open period, the highest first.",
  ),
  shadows: told(
    z.array(z.object({ limit: z.string(), wouldRefuse: z.int(), entities: z.int() })),
    "What shadow limits would have refused in these hours, and of how many entities.",
  ),
  degraded: told(
    z.array(z.object({ atMs: instant, reason: z.string() })),
    "What did not work in the last hour, as this service saw it, the newest first.",
  ),
  partial: told(
    z.array(z.enum(overviewLists)),
    "The lists that are made of the first 2,000 buckets only. Absent: all were looked at.",
  ).optional(),
});

export const auditEvent = answer("AuditEvent", {
  eventId: z.string(),
  atMs: instant,
  action: z.string(),
  entityId: z.string(),
  resource: z.string().optional(),
  principal: z.string().optional(),
  details: z.record(z.string(), z.unknown()),
});

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

export const capacity = answer("Capacity", {
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
});

export const resourceName = z.string();
