import { ValidationError } from "./errors.ts";

/**
 * Words of the DynamoDB table: a usage record has an attribute named for each limit beside these, so that a limit of such a
 * name could not be distinguished from them. They are refused on every store, so that limits can move from one store to another.
 */
const RESERVED_NAMES: ReadonlySet<string> = new Set([
  "wcu",
  "PK",
  "SK",
  "GSI1PK",
  "GSI1SK",
  "GSI2PK",
  "GSI2SK",
  "GSI3PK",
  "GSI3SK",
  "GSI4PK",
  "GSI4SK",
  "entity_id",
  "resource",
  "window",
  "window_start",
  "total_events",
  "ttl",
]);

interface NameRule {
  readonly what: string;
  readonly code: string;
  readonly pattern: RegExp;
  readonly lengthMax: number;
  readonly reserved: ReadonlySet<string>;
  readonly remedy: string;
}

const none: ReadonlySet<string> = new Set();

const ENTITY_ID: NameRule = {
  what: "entity id",
  code: "entity_id_invalid",
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]*$/,
  lengthMax: 256,
  reserved: none,
  remedy: "begin with a letter or digit and use letters, digits and _ . - : @",
};

const RESOURCE: NameRule = {
  what: "resource",
  code: "resource_invalid",
  pattern: /^[a-zA-Z][a-zA-Z0-9_.\-/:]*$/,
  lengthMax: 64,
  reserved: new Set([...RESERVED_NAMES].filter((name) => name !== "wcu")),
  remedy: "begin with a letter and use letters, digits and _ . - / :",
};

const LIMIT_NAME: NameRule = {
  what: "limit name",
  code: "limit_name_invalid",
  pattern: /^[a-zA-Z][a-zA-Z0-9_.-]*$/,
  lengthMax: 64,
  reserved: RESERVED_NAMES,
  remedy: "begin with a letter and use letters, digits and _ . -",
};

const NAMESPACE: NameRule = {
  what: "namespace",
  code: "namespace_invalid",
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]*$/,
  lengthMax: 64,
  reserved: none,
  remedy: "begin with a letter or digit and use letters, digits and _ . - : @",
};

const PRINCIPAL: NameRule = { ...ENTITY_ID, what: "principal", code: "principal_invalid" };

export const checkEntityId = (value: unknown): string => check(ENTITY_ID, value);
export const checkResource = (value: unknown): string => check(RESOURCE, value);
export const checkLimitName = (value: unknown): string => check(LIMIT_NAME, value);
export const checkNamespace = (value: unknown): string => check(NAMESPACE, value);

/** Who made a change, for the audit trail: an identifier, or an ARN as it is. */
export function checkPrincipal(value: unknown): string {
  return typeof value === "string" && /^arn:[\x21-\x7e]+$/.test(value) && value.length <= 2048
    ? value
    : check(PRINCIPAL, value);
}

function check(rule: NameRule, value: unknown): string {
  const fail = (reason: string): never => {
    throw new ValidationError(rule.code, `Invalid ${rule.what} ${shown(value)}: ${reason}.`);
  };
  if (typeof value !== "string") return fail(`it must be a string; ${rule.remedy}`);
  if (value === "") return fail(`it must not be empty; ${rule.remedy}`);
  if (value.length > rule.lengthMax) return fail(`it is longer than ${rule.lengthMax} characters; shorten it`);
  if (rule.reserved.has(value)) return fail("the name is reserved; choose another");
  if (!rule.pattern.test(value)) return fail(rule.remedy);
  return value;
}

/** A value as an error message shows it: quoted, cut after 50 characters. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 50 ? `${value.slice(0, 50)}...` : value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function" || typeof value === "symbol" || value === undefined) return String(value);
  if (typeof value === "number") return String(value);
  const json = jsonOf(value);
  return json.length > 50 ? `${json.slice(0, 50)}...` : json;
}

// A circle, or a bigint inside: showing a wrong value must not fail in its own way.
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}
