import { USAGE_KEPT_DAYS_MAX } from "../domain/config/retention.ts";
import { FIELDS_JSON, TOKENS, WINDOW_JSON } from "../domain/limits/limit-json.ts";
import { ENTITY_ID, LIMIT_NAME, NAMESPACE, type NameRule, RESOURCE } from "../domain/names/names.ts";

type Schema = Readonly<Record<string, unknown>>;

/**
 * The JSON Schema of a manifest, for editors. It allows the keys that the parser allows; how keys depend on each other
 * only the parser checks.
 */
export function manifestSchema(): Schema {
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    $id: "https://zae-limiter.dev/manifest.schema.json",
    title: "zae-limiter manifest",
    description: "Declared limits, policies and entities of one namespace.",
    ...object({
      namespace: { ...name(NAMESPACE), description: "Must exist. Default: the namespace of the command." },
      owner: { ...name(ENTITY_ID), description: "The owner of the declared pieces. Default: default." },
      plans: mapOf(ENTITY_ID, ref("plan")),
      system: { ...object(SYSTEM), minProperties: 1 },
      resources: mapOf(RESOURCE, ref("level")),
      entities: mapOf(ENTITY_ID, ref("entity")),
    }),
    anyOf: ["plans", "system", "resources", "entities"].map((key) => ({ required: [key] })),
    definitions: {
      level: { ...object(LEVEL), minProperties: 1, not: { required: ["access", "disabled"] } },
      plan: object(PLAN),
      planLevel: { ...object({ limits: ref("limits"), ...OPTIONS }), required: ["limits"] },
      entity: object(ENTITY),
      limits: { ...mapOf(LIMIT_NAME, ref("limit")), minProperties: 1 },
      limit: { oneOf: [TOKENS, TEXT, ref("terms")] },
      terms: { ...object(TERMS), required: ["capacity"], not: { anyOf: EXCLUSIVE.map((required) => ({ required })) } },
      window: { ...object(WINDOW_JSON), required: ["cron"] },
      reset: { ...object({ cron: RESET_CRON, tz: WINDOW_JSON.tz }), required: ["cron"] },
    },
  };
}

const RESET_CRON = {
  type: "string",
  description: "Five fields: minute hour day month weekday. Or hourly, daily, weekly, monthly, yearly.",
};
const TEXT = {
  type: "string",
  pattern: "\\D",
  description: "A limit in one line: 1000/min:1500,soft; 2M,reset=monthly; $50/month in US dollars; 10@60s at once.",
};
const TEXTS = { type: "object", additionalProperties: { type: "string" } };

const INHERIT = {
  type: "boolean",
  description: "true: keeps limits of less specific levels, except those of the same name. Default: false.",
};
const APPLIES_TO = {
  enum: ["everyone", "callers"],
  description: "callers: only the entity that makes a request, not its parents.",
};
const OPTIONS = { inherit: INHERIT, applies_to: APPLIES_TO };
const TOTALS = {
  totals: { ...ref("limits"), description: "Limits over all resources together." },
  totals_inherit: INHERIT,
  totals_applies_to: APPLIES_TO,
};

const KEPT_DAYS = {
  type: "integer",
  minimum: 1,
  maximum: USAGE_KEPT_DAYS_MAX,
  description: "How many days a DynamoDB table keeps usage.",
};
const SYSTEM = {
  on_unavailable: { enum: ["allow", "block"] },
  usage_kept_days: KEPT_DAYS,
  limits: ref("limits"),
  ...OPTIONS,
  ...TOTALS,
};

const PLAN = {
  name: { type: "string", maxLength: 256 },
  metadata: TEXTS,
  limits: { ...ref("limits"), description: "Limits of its entities on resources where they have none of their own." },
  ...OPTIONS,
  ...TOTALS,
  resources: mapOf(RESOURCE, ref("planLevel")),
};

const LEVEL = {
  limits: ref("limits"),
  ...OPTIONS,
  disabled: {
    enum: [true, false, "bypass"],
    description: "true: refuse everything. false: limits apply. bypass: count, never refuse.",
  },
  access: { enum: ["disabled", "bypass", "enforce"], description: "Another form of disabled." },
  cascade: { type: "boolean", description: "Whether parents are charged; overrides the entity's own setting." },
};

const ENTITY = {
  name: { type: "string", maxLength: 256 },
  parent: { oneOf: [name(ENTITY_ID), { type: "null" }] },
  plan: { oneOf: [name(ENTITY_ID), { type: "null" }], description: "The plan of the entity." },
  cascade: { type: "boolean", description: "Whether its parent is charged too. Default: true with a parent." },
  metadata: TEXTS,
  create: {
    type: "boolean",
    description: "false: the entity is not created where it is missing, only its limits are set. Default: true.",
  },
  limits: { ...ref("limits"), description: "Short for the limits of _default_." },
  ...OPTIONS,
  ...TOTALS,
  access: { enum: ["disabled", "bypass", "enforce"], description: "Short for the setting of _default_." },
  resources: {
    type: "object",
    properties: { _default_: ref("level") },
    patternProperties: { [RESOURCE.pattern.source]: ref("level") },
    additionalProperties: false,
  },
};

const TERMS = Object.fromEntries(Object.values(FIELDS_JSON).map(({ manifest: { key, schema } }) => [key, schema]));

/** Keys that no limit has together. */
const EXCLUSIVE = [
  ["reset_schedule", "reset_after_seconds"],
  ...["reset_schedule", "reset_after_seconds", "refill_amount", "refill_period", "burst", "strict_window"].map(
    (key) => ["hold_seconds", key],
  ),
  ...["reset_schedule", "reset_after_seconds", "refill_amount"].map((key) => ["strict_window", key]),
];

function object(properties: Schema): Schema {
  return { type: "object", properties, additionalProperties: false };
}

function mapOf({ pattern }: NameRule, value: Schema): Schema {
  return { type: "object", patternProperties: { [pattern.source]: value }, additionalProperties: false };
}

function name({ pattern, lengthMax }: NameRule): Schema {
  return { type: "string", pattern: pattern.source, maxLength: lengthMax };
}

function ref(definition: string): Schema {
  return { $ref: `#/definitions/${definition}` };
}
