import { z } from "../vendor.ts";

// What a client may send. Types and names are checked here; what a name or an amount may be is the library's to say, with its own code.

const name = z.string().max(1024);

export const amounts = z.record(z.string(), z.number()).openapi("Amounts", {
  description:
    "Whole tokens per measure; every limit that counts the measure is charged. In a top-up: tokens per limit.",
  example: { rpm: 1, tpm: 500 },
});

const also = z.record(z.string(), amounts).openapi({ description: "Amounts of other resources, by resource." });

const reset = z
  .union([z.strictObject({ cron: z.string(), tz: z.string().optional() }), z.string()])
  .openapi({ description: 'A cron and its zone, or "hourly", "daily", "weekly", "monthly", "yearly" (UTC).' });

const scheduleEntry = z.strictObject({
  cron: z.string(),
  tz: z.string().optional(),
  scale: z.number().optional(),
  capacity: z.number().optional(),
  refillAmount: z.number().optional(),
  refillPeriodMs: z.number().optional(),
});

export const limit = z
  .strictObject({
    name,
    capacity: z.number(),
    refillAmount: z.number(),
    refillPeriodMs: z.number(),
    counts: z
      .string()
      .max(1024)
      .optional()
      .openapi({ description: "The measure that the limit counts; default: its own name." }),
    soft: z.boolean().optional(),
    schedule: z.array(scheduleEntry).optional(),
    reset: reset.optional(),
    resetAfterMs: z.number().optional(),
  })
  .openapi("Limit", {
    description:
      "A limit, which refills or resets. Amounts are whole tokens; periods are milliseconds, in whole seconds.",
  });

const limitInput = z.union([limit, z.string().max(1024)]).openapi("LimitInput", {
  description: "A limit, or its text form as on the command line: `rpm:100/min`, `month:2M,reset=monthly,counts=tpm`.",
});

export const acquireBody = z
  .strictObject({
    entityId: name,
    resource: name,
    consume: amounts.optional().openapi({
      description: "`requests` is 1 unless named. May be omitted if a limit counts requests.",
    }),
    also: also.optional(),
    limits: z
      .array(limitInput)
      .optional()
      .openapi({ description: "Used instead of the stored limits; needs the scope admin." }),
    wait: z.strictObject({ maxMs: z.number().min(0).max(30_000) }).optional(),
    atomic: z.boolean().optional(),
    requestId: z.string().max(256).optional(),
    holdMs: z
      .int()
      .min(0)
      .optional()
      .openapi({ description: "0: charged at once, without a lease. Otherwise 1,000 to --hold-max-ms." }),
    onExpiry: z.enum(["charge", "refund"]).optional(),
  })
  .openapi("AcquireRequest");

export const settleBody = z.strictObject({ consumed: amounts.optional(), also: also.optional() });
export const adjustBody = z.strictObject({ delta: amounts, also: also.optional() });
export const amountsBody = z.strictObject({ amounts, also: also.optional() });
export const extendBody = z.strictObject({ holdMs: z.int().min(1_000) });

export const explainBody = z.strictObject({ entityId: name, resource: name, consume: amounts.optional() });

const metadata = z.record(z.string(), z.string());

export const newEntityBody = z.strictObject({
  id: name,
  name: z.string().optional(),
  parentId: name.optional(),
  planId: name.optional(),
  cascade: z.boolean().optional(),
  metadata: metadata.optional(),
  ifAbsent: z
    .boolean()
    .optional()
    .openapi({ description: "true: an existing entity is left unchanged and returned with 200." }),
});

export const entityPatchBody = z.strictObject({
  name: z.string().optional(),
  parentId: name.nullable().optional().openapi({ description: "null: no parent." }),
  planId: name.nullable().optional().openapi({ description: "null: no plan." }),
  cascade: z.boolean().optional(),
  metadata: metadata.optional(),
  version: z.int().optional().openapi({ description: "Refused if the stored version is another." }),
});

export const newPlanBody = z.strictObject({ id: name, name: z.string().optional(), metadata: metadata.optional() });

export const planPatchBody = z.strictObject({
  name: z.string().optional(),
  metadata: metadata.optional(),
  version: z.int().optional().openapi({ description: "Refused if the stored version is another." }),
});

export const totalsBody = z.strictObject({
  limits: z.array(limitInput),
  inherit: z
    .boolean()
    .optional()
    .openapi({ description: "true: keeps limits of less specific levels, except those of the same name." }),
  appliesTo: z
    .enum(["everyone", "callers"])
    .optional()
    .openapi({ description: "callers: only the entity that makes a request, not its parents." }),
  ifAbsent: z.boolean().optional().openapi({ description: "true: set them only if none are set." }),
});

export const limitsBody = totalsBody.extend({
  onUnavailable: z.enum(["allow", "block"]).optional().openapi({ description: "System level only." }),
  usageKeptDays: z
    .number()
    .optional()
    .openapi({ description: "System level only: how many days usage is kept, if the store supports it." }),
});

export const accessBody = z.strictObject({ access: z.enum(["disabled", "bypass", "enforce", "inherit"]) });
export const cascadeBody = z.strictObject({ cascade: z.union([z.boolean(), z.literal("inherit")]) });
export const namespaceBody = z.strictObject({ name });
export const topUpBody = z.strictObject({ entityId: name, resource: name, amounts });
export const resetBody = z.strictObject({ entityId: name, resource: name, limits: z.array(z.string()).optional() });

/** A whole number in a query. */
const count = (least: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/, "it must be a whole number")
    .transform(Number)
    .refine((value) => value >= least && value <= most, `it must be from ${least} to ${most}`)
    .openapi({ type: "integer", minimum: least, maximum: most });

const page = {
  limit: count(1, 1000).optional().openapi({ description: "Items per page; default 100.", default: 100 }),
  cursor: z.string().optional().openapi({ description: "The cursor of the previous page." }),
};

const entityId = name.openapi({ description: "An entity." });
const resource = name.openapi({ description: "A resource." });
const planId = name.openapi({ description: "A plan." });

export const resetQuery = z.strictObject({
  cron: z.string().max(256).openapi({ description: 'A cron, or "hourly", "daily", "weekly", "monthly", "yearly".' }),
  tz: z.string().max(64).optional().openapi({ description: "Default UTC." }),
});
export const noQuery = z.strictObject({});
export const listQuery = z.strictObject(page);
export const namespacesQuery = z.strictObject({
  name: name.optional().openapi({ description: "Only the namespace of exactly this name." }),
  search: name.optional().openapi({ description: "Only namespaces whose name contains this, ignoring case." }),
  ...page,
});
export const bucketsQuery = z.strictObject({ entityId: entityId.optional(), resource: resource.optional(), ...page });
export const pairQuery = z.strictObject({ entityId, resource });
export const policyQuery = z.strictObject({ entityId: entityId.optional(), resource: resource.optional() });
export const totalsQuery = z.strictObject({ entityId: entityId.optional(), planId: planId.optional() });
export const levelQuery = totalsQuery.extend({ resource: resource.optional() });
export const entitiesQuery = z.strictObject({ planId: planId.optional(), ...page });
export const onResourceQuery = z.strictObject({ resource, ...page });
export const capacityQuery = z.strictObject({ resource, limit: name.openapi({ description: "The name of a limit." }) });
export const auditQuery = z.strictObject({ entityId: entityId.optional(), ...page });

const usage = {
  window: z.enum(["hourly", "daily", "monthly"]),
  entityId: entityId.optional(),
  resource: resource.optional(),
  fromMs: count(0, Number.MAX_SAFE_INTEGER).optional(),
  toMs: count(0, Number.MAX_SAFE_INTEGER).optional(),
};
export const usageQuery = z.strictObject({ ...usage, ...page });
export const summaryQuery = z.strictObject(usage);
export const usageTotalsQuery = z.strictObject({ ...usage, by: z.enum(["entity", "resource"]) });
export const usageExportQuery = z.strictObject({
  ...usage,
  format: z.enum(["csv", "ndjson", "json"]).optional().openapi({ description: "Default csv.", default: "csv" }),
});

/** A number is the size of a page, as in every list; the name of a limit begins with a letter. */
const limitOrSize = z
  .union([page.limit.unwrap(), name.regex(/^[^\d]/, "it must be the name of a limit, or a number from 1 to 1000")])
  .optional()
  .openapi({
    type: "string",
    description: "The limit that refused. A number is the page size, as in other lists.",
  });
const { fromMs, toMs } = usage;

export const refusalsQuery = z.strictObject({
  ...usage,
  limit: limitOrSize,
  pageSize: page.limit,
  cursor: page.cursor,
});
export const refusalTotalsQuery = z.strictObject({
  by: z.enum(["entity", "resource", "limit"]),
  top: count(1, 1000).optional().openapi({ description: "How many; default 10.", default: 10 }),
  fromMs,
  toMs,
});

export const EVENT_TYPES: readonly string[] = [
  ...["acquired", "refused", "charged", "gave-back", "unavailable", "degraded", "limits-changed", "lease", "bucket"],
];

export const eventsQuery = z.strictObject({
  types: z
    .string()
    .transform((list) => list.split(","))
    .refine(
      (list) => list.every((type) => EVENT_TYPES.includes(type)),
      `it must be a list of ${EVENT_TYPES.join(", ")}`,
    )
    .optional()
    .openapi({ type: "string", description: `Only these types, separated by commas: ${EVENT_TYPES.join(", ")}.` }),
  entityId: entityId.optional(),
  resource: resource.optional(),
});
