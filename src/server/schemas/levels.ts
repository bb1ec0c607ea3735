import { z } from "../vendor.ts";
import { limit, told } from "./input.ts";

// The levels of limits as answers show them, and what all answers are made of.

export function answer<Shape extends z.ZodRawShape>(name: string, shape: Shape) {
  return z.object(shape).openapi(name);
}

export const instant = told(z.int(), "In ms since 1970.");
export const LEVELS = ["entity", "entityDefault", "plan", "planDefault", "resource", "system"] as const;
export const TOTAL_LEVELS = ["entityTotal", "planTotal", "systemTotal"] as const;

export const source = z.enum([...LEVELS, ...TOTAL_LEVELS, "none"]);

const levelOptions = { inherit: z.boolean().optional(), appliesTo: z.enum(["everyone", "callers"]).optional() };

const ends = {
  untilMs: told(instant, "The limits count until then, in ms since 1970. Absent: they have no end.").optional(),
  // biome-ignore lint/suspicious/noThenProperty: what comes then is data, which `await` passes over.
  then: told(
    z
      .object({
        limits: told(z.array(limit), "The limits from then on."),
        inherit: told(z.boolean(), "Whether limits of more general levels apply besides these.").optional(),
        appliesTo: told(z.enum(["everyone", "callers"]), "callers: not to parents that are charged.").optional(),
      })
      .nullable(),
    "What the level says from then on; null: nothing.",
  ).optional(),
};

const level = z.object({
  level: told(z.enum([...LEVELS, ...TOTAL_LEVELS]), "Which level it is."),
  entityId: told(z.string(), "The entity of the level.").optional(),
  planId: told(z.string(), "The plan of the level.").optional(),
  resource: z.string().optional(),
  limits: z.array(limit),
  ...levelOptions,
  ...ends,
  access: z.enum(["disabled", "bypass", "enforce"]).optional(),
  accessUntilMs: told(instant, "The access counts until then, in ms since 1970. Absent: it has no end.").optional(),
  accessThen: told(
    z.enum(["disabled", "bypass", "enforce"]),
    "The access from then on. Absent: none is set.",
  ).optional(),
  cascade: z.boolean().optional(),
  onUnavailable: z.enum(["allow", "block"]).optional(),
  usageKeptDays: z.number().optional(),
});

export const resets = answer("Resets", {
  cron: told(z.string(), "The cron, also of a name such as monthly."),
  tz: told(z.string(), "The time zone."),
  problem: told(z.string(), "Why it cannot be used; then there are no instants.").optional(),
  nextMs: told(z.array(instant), "The next three resets, in ms since 1970."),
});
export const levels = answer("Levels", {
  planId: z.string().optional().openapi({ description: "The plan of the entity, or the plan of the query." }),
  items: told(
    z.array(level.extend({ etag: told(z.string(), "For If-Match. Absent: nothing is stored there.").optional() })),
    "The levels, the most specific first.",
  ),
});
export const levelLimits = level.openapi("LevelLimits");
export const changedLimits = level
  .extend({ changed: told(z.boolean(), "Whether anything changed.") })
  .openapi("ChangedLimits");

export const entityLimits = answer("EntityLimits", {
  resource: z.string().optional(),
  limits: z.array(limit),
  ...levelOptions,
  ...ends,
});
export const effective = answer("EffectiveLimits", {
  limits: told(z.array(limit), "The limits that apply."),
  source: told(source, "The first level that has limits."),
  sources: told(z.record(z.string(), source), "The level of each limit, by its name."),
  untilMs: told(instant, "The first end of limits of these levels. Absent: none has an end.").optional(),
});
