import type { Also } from "../../domain/charge/amounts.ts";
import type { Limit as LimitValue } from "../../domain/limits/limit.ts";
import type { JsonSchema } from "../../domain/limits/limit-field.ts";
import { LIMIT_JSON } from "../../domain/limits/limit-json.ts";
import { z } from "../vendor.ts";

// Fields that several routes take; the rest is in the rows of the routes. Types and names are checked here; the library checks what a
// name or an amount may be, with its own code.

/** A field with its meaning. */
export const told = <Schema extends z.ZodType>(schema: Schema, description: string): Schema =>
  schema.openapi({ description });

export const { strictObject } = z;

export const name = z.string().max(1024);

export const amounts = z.record(z.string(), z.number()).openapi("Amounts", {
  description: "Whole tokens by measure; in a top-up, by limit.",
  example: { rpm: 1, tpm: 500 },
});

const alsoPart = strictObject({
  entityId: told(name, "The entity. Default: that of the request.").optional(),
  resource: told(name, "The resource."),
  consume: told(amounts, "Whole tokens by measure.").optional(),
}).openapi("AlsoPart", { description: "An entity on a resource, and its amounts." });

export const also = told(
  z.union([z.record(z.string(), amounts), z.array(alsoPart)]) as unknown as z.ZodType<Also>,
  "Amounts of further resources of the entity, by resource; or a list of at most 15 parts, which may be of other entities.",
);
export const leavePercent = told(
  z.number(),
  "How many percent of the capacity in force must be left of every hard limit, at every level: 0 to 99. Default: 0, or that of the token, if it is larger.",
);

export const limit = (schemaOf(LIMIT_JSON) as z.ZodType<LimitValue>).openapi("Limit", {
  description:
    "A limit: it drips, it resets, or it is held (so many at once). Whole tokens; periods and holds are whole seconds, in ms.",
});
export const limitInput = z.union([limit, z.string().max(16_384)]).openapi("LimitInput", {
  description:
    "A limit, or its text as on the command line: `rpm:100/min`, `month:2M,reset=monthly,counts=tpm`, `parallel:10@60s`.",
});

/** The entity and the resource of a body. */
export const entity = told(name, "The id of the entity.");
export const onResource = told(name, "The resource.");

/** Names in a query. */
export const entityId = told(name, "The id of an entity.");
export const resource = told(name, "A resource.");
export const planId = told(name, "The id of a plan.");

/** A whole number in a query. */
export const count = (least: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/, "it must be a whole number")
    .transform(Number)
    .refine((value) => value >= least && value <= most, `it must be from ${least} to ${most}`)
    .openapi({ type: "integer", minimum: least, maximum: most });

export const page = {
  limit: count(1, 1000).optional().openapi({ description: "Items on a page.", default: 100 }),
  cursor: z.string().optional().openapi({ description: "The cursor of the page before. Default: the first page." }),
};
export const listQuery = strictObject(page);
export const bucketsQuery = strictObject({ entityId: entityId.optional(), resource: resource.optional(), ...page });
export const pairQuery = strictObject({ entityId, resource });

/** The query that chooses a level, and the body that sets its limits. */
export const totalsQuery = strictObject({ entityId: entityId.optional(), planId: planId.optional() });
export const levelQuery = totalsQuery.extend({ resource: resource.optional() });

/** An end, in either form. */
export function ending(what: string) {
  return {
    untilMs: told(
      z.number(),
      `${what} until then, in ms since 1970, at most 366 days ahead; then what was set before.`,
    ).optional(),
    until: told(z.string().max(64), "The same in ISO 8601, with the zone, in place of untilMs.").optional(),
  };
}

export const totalsBody = strictObject({
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
  keepOverride: told(
    z.boolean(),
    "true: limits that have an end go on to it, and these count afterwards. Default: false, they are gone.",
  ).optional(),
  ...ending("The limits count"),
}).openapi({ example: { limits: ["usd:$50/month"] } });

/** In the query of a deletion. */
export const override = told(
  z.enum(["true", "false"]),
  "true: only limits that have an end. Default: false, all.",
).optional();

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

/** The schema that checks what a JSON Schema describes. An object has no other members than those that it names. */
function schemaOf(json: JsonSchema): z.ZodType {
  const schema = plainOf(json);
  return json.description === undefined ? schema : schema.openapi({ description: json.description });
}

function plainOf({
  type,
  anyOf,
  items = {},
  maxItems,
  maxLength,
  properties = {},
  required = [],
}: JsonSchema): z.ZodType {
  if (anyOf !== undefined) return z.union(anyOf.map(schemaOf) as [z.ZodType, z.ZodType]);
  switch (type) {
    case "string":
      return maxLength === undefined ? z.string() : z.string().max(maxLength);
    case "number":
      return z.number();
    case "boolean":
      return z.boolean();
    case "array":
      return maxItems === undefined ? z.array(schemaOf(items)) : z.array(schemaOf(items)).max(maxItems);
    default: {
      const members = Object.entries(properties).map(([name, each]) => {
        const schema = schemaOf(each);
        return [name, required.includes(name) ? schema : schema.optional()];
      });
      return strictObject(Object.fromEntries(members));
    }
  }
}
