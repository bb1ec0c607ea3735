import { TOKENS_MAX } from "../domain/limits/limit-numbers.ts";
import { ENTITY_ID, LIMIT_NAME, NAMESPACE, type NameRule, RESOURCE } from "../domain/names/names.ts";
import { LEASE_KEY } from "./edge-file.ts";
import { DESCRIPTORS_MAX } from "./parse.ts";

type Schema = Readonly<Record<string, unknown>>;

/** The JSON Schema of an edge file, for editors. How keys depend on each other only the parser checks. */
export function edgeSchema(): Schema {
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    $id: "https://zae-limiter.dev/edge.schema.json",
    title: "zae-limiter edge file",
    description: "What the descriptors of proxies become: which entity takes what of which resource.",
    ...object({ domains: { type: "object", minProperties: 1, additionalProperties: ref("domain") } }, ["domains"]),
    definitions: {
      domain: object(DOMAIN, ["rules"]),
      rule: object(RULE, ["match", "entity", "resource"]),
      http: object(HTTP, ["entries"]),
    },
  };
}

const DOMAIN = {
  namespace: { ...name(NAMESPACE), description: "Default: the name of the domain." },
  unmatched: { enum: ["allow", "refuse"], description: "A descriptor that no rule matches. Default: allow." },
  refunds: { type: "boolean", description: "Whether is_negative_hits gives back. Default: false." },
  levels: { enum: ["own", "all"], description: "all: answers show limits of parents, too. Default: own." },
  rules: { type: "array", minItems: 1, items: ref("rule"), description: "The first that matches counts." },
  http: { ...ref("http"), description: "How a request of forward auth becomes descriptors." },
};

const VALUE = { type: "string", description: '"*": any value.' };

const RULE = {
  match: {
    type: "object",
    minProperties: 1,
    propertyNames: { not: { const: LEASE_KEY } },
    additionalProperties: {
      oneOf: [VALUE, { type: "array", minItems: 1, items: { type: "string", not: { const: "*" } } }],
    },
    description: "Exactly these keys, in any order, each with its values.",
  },
  entity: template(ENTITY_ID),
  resource: template(RESOURCE),
  consume: {
    type: "object",
    minProperties: 1,
    patternProperties: {
      [LIMIT_NAME.pattern.source]: { oneOf: [{ const: "hits" }, { type: "integer", minimum: 0, maximum: TOKENS_MAX }] },
    },
    additionalProperties: false,
    description: "By measure: hits, or whole tokens. Default: { requests: hits }.",
  },
  mode: { enum: ["take", "charge"], description: "charge: debited in full, never refused. Default: take." },
  hold: {
    type: "string",
    pattern: "^\\d+(ms|s|m|h|d)$",
    description: "The take is a lease for so long, such as 60s. Default: it is settled at once.",
  },
  on_expiry: { enum: ["charge", "refund"], description: "What happens when nobody settles the lease." },
};

const SOURCE = {
  type: "string",
  pattern: "^(header \\S+|query .+|text( .*)?|path|method|host|client)$",
  description: "header NAME, query NAME, text VALUE, path, method, host or client.",
};

const HTTP = {
  entries: { type: "object", minProperties: 1, additionalProperties: SOURCE },
  descriptors: {
    type: "array",
    minItems: 1,
    maxItems: DESCRIPTORS_MAX,
    items: { type: "array", minItems: 1, items: { type: "string" } },
    description: "The keys of each descriptor. Default: one, of all entries that are there.",
  },
  hits: { type: "string", pattern: "^(header \\S+|query .+|text .+)$", description: "Default: 1." },
  trusted_hops: {
    type: "integer",
    minimum: 1,
    maximum: 100,
    description: "The client is so many addresses from the right of X-Forwarded-For. Default: 1.",
  },
};

function object(properties: Schema, required: readonly string[]): Schema {
  return { type: "object", properties, required, additionalProperties: false };
}

function name({ pattern, lengthMax }: NameRule): Schema {
  return { type: "string", pattern: pattern.source, maxLength: lengthMax };
}

function template({ what }: NameRule): Schema {
  return { type: "string", minLength: 1, description: `The ${what}: {key} stands for the value of an entry.` };
}

function ref(definition: string): Schema {
  return { $ref: `#/definitions/${definition}` };
}
