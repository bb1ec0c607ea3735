import { LIMIT_NAME } from "../names/name-rules.ts";
import type { KindFields } from "./kinds/kind.ts";
import { FORMS, JSONS } from "./kinds/table.ts";
import { COMMON_CHECKS } from "./limit-checks.ts";
import type { CommonFields, FieldJson, JsonSchema } from "./limit-field.ts";
import { PERIOD_MAX_MS, TOKENS_MAX } from "./limit-numbers.ts";

// A limit in documents: bodies of the service and its OpenAPI document, manifests and their JSON Schema. The descriptions stand in all of them.

/** A positive amount of whole tokens. */
export const TOKENS: JsonSchema = { type: "integer", minimum: 1, maximum: TOKENS_MAX };
const SECONDS: JsonSchema = { type: "integer", minimum: 1, maximum: PERIOD_MAX_MS / 1000 };

type LimitField = "capacity" | "refillAmount" | "refillPeriodMs" | keyof CommonFields | keyof KindFields;

/** The windows of a schedule in a manifest. */
export const WINDOW_JSON: Readonly<Record<string, JsonSchema>> = {
  cron: text("Five fields: minute hour day month weekday."),
  tz: text("An IANA time zone. Default: UTC."),
  scale: { type: "number", exclusiveMinimum: 0, maximum: 1_000_000 },
  ...{ capacity: TOKENS, refill_amount: TOKENS, refill_period_seconds: SECONDS },
};

/** A window of a schedule in the service. */
const SERVICE_WINDOW: JsonSchema = {
  type: "object",
  properties: {
    cron: text("Five fields of a cron."),
    tz: text("An IANA time zone. Default: UTC."),
    scale: number("Multiplies capacity and refill amount."),
    capacity: number("Whole tokens."),
    refillAmount: number("Whole tokens."),
    refillPeriodMs: number("In ms: whole seconds."),
  },
  required: ["cron"],
};

/** Every field of a limit but its name, and what only manifests have, in the order of manifests. */
export const FIELDS_JSON: Readonly<Record<LimitField, FieldJson>> &
  Readonly<Record<"burst" | "strictWindow", Pick<FieldJson, "manifest">>> = {
  capacity: {
    service: number("The most it holds, in whole tokens."),
    manifest: tokens("capacity", { description: "The capacity; with burst, the rate." }),
  },
  refillAmount: {
    service: number("Whole tokens that drip in over a period; 0 for a quota and for slots."),
    manifest: tokens("refill_amount", { minimum: 0, description: "Default: capacity; for a quota 0." }),
  },
  refillPeriodMs: {
    service: number("The period, in ms: whole seconds."),
    manifest: { key: "refill_period", unit: "seconds", schema: { ...SECONDS, description: "Seconds. Default: 60." } },
  },
  burst: { manifest: tokens("burst", { description: "The capacity; `capacity` is then the rate." }) },
  strictWindow: {
    manifest: {
      key: "strict_window",
      schema: flag("true: never more than capacity in any stretch of one period; burst is by default half of it."),
    },
  },
  counts: {
    service: { ...text("The measure that it counts. Default: the one of its own name."), maxLength: 1024 },
    manifest: {
      key: "counts",
      schema: {
        ...{ type: "string", pattern: LIMIT_NAME.pattern.source, maxLength: LIMIT_NAME.lengthMax },
        description: "The measure that the limit counts. Default: its own name.",
      },
    },
  },
  soft: {
    service: flag("It measures and never refuses. Default: false."),
    manifest: { key: "soft", schema: flag("true: counted, never refuses.") },
  },
  shadow: {
    service: flag(
      "It decides like a hard limit, counts what it would have refused, and never refuses. Not with soft. Default: false.",
    ),
    manifest: {
      key: "shadow",
      schema: flag("true: decides like a hard limit, counts what it would have refused, never refuses."),
    },
  },
  schedule: {
    service: {
      ...{ type: "array", items: SERVICE_WINDOW },
      description: "Windows with another capacity or rate. The first that matches counts.",
    },
    manifest: {
      key: "schedule",
      schema: { type: "array", items: { $ref: "#/definitions/window" }, minItems: 1, maxItems: 16 },
    },
  },
  ...JSONS,
  notifyAt: {
    service: {
      ...{ type: "array", items: { type: "number" }, maxItems: 4 },
      description:
        "One to four rising whole percentages from 1 to 100. When so much of the capacity is used, an event tells it.",
    },
    manifest: {
      key: "notify_at",
      schema: {
        ...{ type: "array", items: { type: "integer", minimum: 1, maximum: 100 } },
        ...{ minItems: 1, maxItems: 4, uniqueItems: true },
        description: "Rising percentages of the capacity; an event tells when so much is used.",
      },
    },
  },
};

function text(description: string): JsonSchema {
  return { type: "string", description };
}

function number(description: string): JsonSchema {
  return { type: "number", description };
}

function flag(description: string): JsonSchema {
  return { type: "boolean", description };
}

function tokens(key: string, of: { readonly minimum?: 0; readonly description: string }): FieldJson["manifest"] {
  return { key, unit: "tokens", schema: { ...TOKENS, ...of } };
}

/** A limit as the service takes it and answers it. */
export const LIMIT_JSON: JsonSchema = {
  type: "object",
  properties: Object.fromEntries([
    ["name", { type: "string", maxLength: 1024, description: "Its name, once in a bucket." }],
    ...["capacity", "refillAmount", "refillPeriodMs", ...Object.keys(COMMON_CHECKS), ...Object.keys(FORMS)].map(
      (field) => [field, FIELDS_JSON[field as LimitField].service],
    ),
  ]),
  required: ["name", "capacity", "refillAmount", "refillPeriodMs"],
};
