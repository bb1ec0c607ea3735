import type { Limit as LimitValue } from "../../domain/limits/limit.ts";
import { LIMIT_JSON } from "../../domain/limits/limit-json.ts";
import { z } from "../vendor.ts";
import { schemaOf } from "./from-json.ts";

// What a client may send. Types and names are checked here; what a name or an amount may be is the library's to say, with its own code.

const name = z.string().max(1024);
/** A field with what it means. */
const told = <Schema extends z.ZodType>(schema: Schema, description: string): Schema => schema.openapi({ description });

export const amounts = z.record(z.string(), z.number()).openapi("Amounts", {
  description: "Whole tokens by measure; in a top-up, by limit.",
  example: { rpm: 1, tpm: 500 },
});

const entity = told(name, "The id of the entity.");
const onResource = told(name, "The resource.");
const also = told(z.record(z.string(), amounts), "Amounts of further resources, by resource.");
const leavePercent = told(
  z.number(),
  "How many percent of the capacity in force must be left of every hard limit, at every level: 0 to 99. Default: 0, or that of the token, if it is larger.",
);
export const limit = (schemaOf(LIMIT_JSON) as z.ZodType<LimitValue>).openapi("Limit", {
  description:
    "A limit: it drips, it resets, or it is held (so many at once). Whole tokens; periods and holds are whole seconds, in ms.",
});

const limitInput = z.union([limit, z.string().max(16_384)]).openapi("LimitInput", {
  description:
    "A limit, or its text as on the command line: `rpm:100/min`, `month:2M,reset=monthly,counts=tpm`, `parallel:10@60s`.",
});

export const acquireBody = z
  .strictObject({
    entityId: told(name, "The entity that asks."),
    resource: told(name, "The resource that it asks for."),
    consume: told(
      amounts,
      "Whole tokens by measure. `requests` is 1 unless it is named. May be left out if a limit counts requests.",
    ).optional(),
    also: also.optional(),
    limits: told(z.array(limitInput), "Limits in place of the stored ones; needs the scope admin.").optional(),
    wait: told(
      z.strictObject({ maxMs: told(z.number().min(0).max(30_000), "At most 30,000.") }),
      "How long to wait for tokens, in ms. Default: no wait.",
    ).optional(),
    uncounted: told(
      z.enum(["ignore", "report"]),
      "What happens with measures that no limit counts. `ignore`: they are left out. `report`: they are left out, and `--unnamed-limits` of the service says whether that is logged, or refused after all. Default: they are an error (`limit_unknown`).",
    ).optional(),
    leavePercent: leavePercent.optional(),
    atomic: told(z.boolean(), "Whether all levels are taken from in one transaction. Default: false.").optional(),
    requestId: told(
      z.string().max(256),
      "A name of the request, for events. Default: the id of the HTTP request.",
    ).optional(),
    holdMs: told(
      z.int().min(0),
      "How long the lease lives, and with it the slots of concurrent limits: at most the shortest `holdMs` of theirs. 0: charged at once, no lease; not with slots. Else 1,000 to `--hold-max-ms` of the service. Default: `--hold-ms` of the service, or the shortest `holdMs` of its concurrent limits if that is shorter.",
    ).optional(),
    onExpiry: told(
      z.enum(["charge", "refund"]),
      "What happens to the tokens if the lease expires. Default: `--on-expiry` of the service.",
    ).optional(),
  })
  .openapi("AcquireRequest", {
    example: { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, tpm: 500 }, holdMs: 30_000 },
  });

export const settleBody = z
  .strictObject({
    consumed: told(
      amounts,
      "Totals by measure. A measure that is not named stays as it is charged. Default: all stay.",
    ).optional(),
    also: told(also, "Totals on further resources, by resource.").optional(),
  })
  .openapi({ example: { consumed: { tpm: 420 } } });
export const adjustBody = z
  .strictObject({
    delta: told(amounts, "Whole tokens by measure. Positive: charged. Negative: given back."),
    also: also.optional(),
  })
  .openapi({ example: { delta: { tpm: -80 } } });
export const amountsBody = z
  .strictObject({ amounts: told(amounts, "Whole tokens by measure."), also: also.optional() })
  .openapi({ example: { amounts: { tpm: 100 } } });
export const extendBody = z
  .strictObject({
    holdMs: told(
      z.int().min(1_000),
      "Milliseconds from now. Slots of concurrent limits are renewed for as long, or for as long as their limits say now, if that is less.",
    ),
  })
  .openapi({ example: { holdMs: 60_000 } });

export const explainBody = z
  .strictObject({
    entityId: entity,
    resource: onResource,
    consume: told(amounts, "What the request would take. Default: nothing.").optional(),
    leavePercent: leavePercent.optional(),
  })
  .openapi({ example: { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 } } });

const metadata = told(z.record(z.string(), z.string()), "Texts of your own.");
const title = told(z.string(), "A name for people. Default: the id.");
const version = told(z.int(), "Refused with 409 if the stored version is another.");

const ifAbsent = told(z.boolean(), "true: one that exists is answered as it is, with 200. Default: false.");

export const newEntityBody = z
  .strictObject({
    id: told(name, "Its id."),
    name: title.optional(),
    parentId: told(name, "The entity above it, which must exist. Default: none.").optional(),
    planId: told(name, "Its plan, which must exist. Default: none.").optional(),
    cascade: told(z.boolean(), "Whether its parent is charged too. Default: true with a parent.").optional(),
    metadata: metadata.optional(),
    ifAbsent: ifAbsent.optional(),
  })
  .openapi({ example: { id: "key-1", name: "Key of the shop", parentId: "org-1" } });

export const entityPatchBody = z
  .strictObject({
    name: told(z.string(), "A name for people.").optional(),
    parentId: told(name.nullable(), "Another parent; null: none.").optional(),
    planId: told(name.nullable(), "Another plan; null: none.").optional(),
    cascade: told(z.boolean(), "Whether its parent is charged too.").optional(),
    metadata: metadata.optional(),
    version: version.optional(),
  })
  .openapi({ example: { planId: "pro", version: 3 } });

export const newPlanBody = z
  .strictObject({
    id: told(name, "Its id."),
    name: title.optional(),
    metadata: metadata.optional(),
    ifAbsent: ifAbsent.optional(),
  })
  .openapi({ example: { id: "pro", name: "Pro" } });

export const planPatchBody = z
  .strictObject({
    name: told(z.string(), "A name for people.").optional(),
    metadata: metadata.optional(),
    version: version.optional(),
  })
  .openapi({ example: { name: "Pro 2" } });

export const totalsBody = z
  .strictObject({
    limits: told(z.array(limitInput), "All limits of the level."),
    inherit: told(
      z.boolean(),
      "Whether limits of more general levels apply besides these; one of the same name replaces theirs. Default: false.",
    ).optional(),
    appliesTo: told(
      z.enum(["everyone", "callers"]),
      "callers: they apply to the entity that asks, not to parents that are charged. Default: everyone.",
    ).optional(),
    ifAbsent: told(z.boolean(), "true: sets them only if there are none. Default: false.").optional(),
  })
  .openapi({ example: { limits: ["usd:$50/month"] } });

export const limitsBody = totalsBody
  .extend({
    onUnavailable: told(
      z.enum(["allow", "block"]),
      "System level only: what happens to requests while the store does not answer.",
    ).optional(),
    usageKeptDays: told(
      z.number(),
      "System level only: for how many days usage is kept, on stores where it can be set.",
    ).optional(),
  })
  .openapi({ example: { limits: ["rpm:100", "month:2M,reset=monthly,counts=tpm"] } });

export const accessBody = z
  .strictObject({
    access: told(
      z.enum(["disabled", "bypass", "enforce", "inherit"]),
      "disabled: refused. bypass: requests pass and are counted. enforce: the limits apply. inherit: the next scope decides.",
    ),
  })
  .openapi({ example: { access: "disabled" } });
export const cascadeBody = z
  .strictObject({
    cascade: told(
      z.union([z.boolean(), z.literal("inherit")]),
      "Whether parents are charged. inherit: the next scope decides.",
    ),
  })
  .openapi({ example: { cascade: false } });
export const namespaceBody = z.strictObject({ name: told(name, "Its name.") }).openapi({ example: { name: "team-a" } });
export const topUpBody = z
  .strictObject({ entityId: entity, resource: onResource, amounts: told(amounts, "Whole tokens by limit.") })
  .openapi({ example: { entityId: "key-1", resource: "gpt-4", amounts: { month: 100_000 } } });
export const resetBody = z
  .strictObject({
    entityId: entity,
    resource: onResource,
    limits: told(z.array(z.string()), "Names of limits. Default: all limits of the bucket.").optional(),
  })
  .openapi({ example: { entityId: "key-1", resource: "gpt-4" } });

/** A whole number in a query. */
const count = (least: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/, "it must be a whole number")
    .transform(Number)
    .refine((value) => value >= least && value <= most, `it must be from ${least} to ${most}`)
    .openapi({ type: "integer", minimum: least, maximum: most });

const page = {
  limit: count(1, 1000).optional().openapi({ description: "Items on a page.", default: 100 }),
  cursor: z.string().optional().openapi({ description: "The cursor of the page before. Default: the first page." }),
};

const entityId = name.openapi({ description: "The id of an entity." });
const resource = name.openapi({ description: "A resource." });
const planId = name.openapi({ description: "The id of a plan." });

export const resetQuery = z.strictObject({
  cron: z.string().max(256).openapi({ description: 'A cron, or "hourly", "daily", "weekly", "monthly", "yearly".' }),
  tz: z.string().max(64).optional().openapi({ description: "An IANA time zone. Default: UTC." }),
});
export const listQuery = z.strictObject(page);
export const namespacesQuery = z.strictObject({
  name: name.optional().openapi({ description: "Only the one of exactly this name, if there is one." }),
  search: name.optional().openapi({ description: "Only those whose name contains this text, in upper or lower case." }),
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
  window: told(z.enum(["hourly", "daily", "monthly"]), "How long each window is (UTC)."),
  entityId: entityId.optional(),
  resource: resource.optional(),
  fromMs: count(0, Number.MAX_SAFE_INTEGER)
    .optional()
    .openapi({ description: "The first window is the one that contains this instant. Default: from the beginning." }),
  toMs: count(0, Number.MAX_SAFE_INTEGER)
    .optional()
    .openapi({ description: "Only windows that start before this instant. Default: to the end." }),
};
export const usageQuery = z.strictObject({ ...usage, ...page });
export const summaryQuery = z.strictObject(usage);
export const usageTotalsQuery = z.strictObject({
  ...usage,
  by: told(z.enum(["entity", "resource"]), "What to add up by."),
});
export const usageExportQuery = z.strictObject({
  ...usage,
  format: z
    .enum(["csv", "ndjson", "json"])
    .optional()
    .openapi({ description: "The format of the file.", default: "csv" }),
});

/** A number is the size of a page, as in every list; the name of a limit begins with a letter. */
const limitOrSize = z
  .union([page.limit.unwrap(), name.regex(/^[^\d]/, "it must be the name of a limit, or a number from 1 to 1000")])
  .optional()
  .openapi({
    type: "string",
    description: "The name of the limit that refused. A number means the same as pageSize, as in other lists.",
  });
const { fromMs, toMs } = usage;

export const refusalsQuery = z.strictObject({
  ...usage,
  limit: limitOrSize,
  pageSize: page.limit,
  cursor: page.cursor,
});
export const refusalTotalsQuery = z.strictObject({
  by: told(z.enum(["entity", "resource", "limit"]), "What to add up by."),
  top: count(1, 1000).optional().openapi({ description: "How many to answer.", default: 10 }),
  fromMs,
  toMs,
});

const EVENT_TYPES: readonly string[] = [
  ...["acquired", "refused", "charged", "gave-back", "unavailable", "degraded", "limits-changed", "threshold"],
  ...["lease", "bucket"],
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
    .openapi({
      type: "string",
      description: `Only these types, separated by commas: ${EVENT_TYPES.join(", ")}. Default: all.`,
    }),
  entityId: entityId.optional(),
  resource: resource.optional(),
});
