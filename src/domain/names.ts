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

export interface NameRule {
  readonly what: string;
  readonly code: string;
  readonly pattern: RegExp;
  /** A character that may stand anywhere but at the beginning. */
  readonly laterCharacter: RegExp;
  readonly lengthMax: number;
  readonly reserved: ReadonlySet<string>;
  readonly remedy: string;
  /** The function that makes such a name of any text. */
  readonly ofText?: string;
}

const none: ReadonlySet<string> = new Set();

export const ENTITY_ID: NameRule = {
  what: "entity id",
  code: "entity_id_invalid",
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]*$/,
  laterCharacter: /^[a-zA-Z0-9_.\-:@]$/,
  lengthMax: 256,
  reserved: none,
  remedy: "begin with a letter or digit and use letters, digits and _ . - : @",
  ofText: "entityIdOf",
};

export const RESOURCE: NameRule = {
  what: "resource",
  code: "resource_invalid",
  pattern: /^[a-zA-Z][a-zA-Z0-9_.\-/:]*$/,
  laterCharacter: /^[a-zA-Z0-9_.\-/:]$/,
  lengthMax: 64,
  reserved: new Set([...RESERVED_NAMES].filter((name) => name !== "wcu")),
  remedy: "begin with a letter and use letters, digits and _ . - / :",
  ofText: "resourceOf",
};

export const LIMIT_NAME: NameRule = {
  what: "limit name",
  code: "limit_name_invalid",
  pattern: /^[a-zA-Z][a-zA-Z0-9_.-]*$/,
  laterCharacter: /^[a-zA-Z0-9_.-]$/,
  lengthMax: 64,
  reserved: RESERVED_NAMES,
  remedy: "begin with a letter and use letters, digits and _ . -",
};

const MEASURE: NameRule = { ...LIMIT_NAME, what: "measure" };

export const NAMESPACE: NameRule = {
  what: "namespace",
  code: "namespace_invalid",
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]*$/,
  laterCharacter: /^[a-zA-Z0-9_.\-:@]$/,
  lengthMax: 64,
  reserved: none,
  remedy: "begin with a letter or digit and use letters, digits and _ . - : @",
};

/** As of entities; `entityIdOf` makes one of any text. */
const PLAN_ID: NameRule = { ...ENTITY_ID, what: "plan id", code: "plan_id_invalid" };

const PRINCIPAL: NameRule = { ...ENTITY_ID, what: "principal", code: "principal_invalid" };

export const checkEntityId = (value: unknown): string => checkName(ENTITY_ID, value);
export const checkPlanId = (value: unknown): string => checkName(PLAN_ID, value);
export const checkResource = (value: unknown): string => checkName(RESOURCE, value);
export const checkLimitName = (value: unknown): string => checkName(LIMIT_NAME, value);
export const checkMeasure = (value: unknown): string => checkName(MEASURE, value);
export const checkNamespace = (value: unknown): string => checkName(NAMESPACE, value);

export function isAllowed({ pattern, lengthMax, reserved }: NameRule, name: string): boolean {
  return name.length <= lengthMax && pattern.test(name) && !reserved.has(name);
}

/** Who made a change, for the audit trail: an identifier, or an ARN as it is. */
export function checkPrincipal(value: unknown): string {
  return typeof value === "string" && /^arn:[\x21-\x7e]+$/.test(value) && value.length <= 2048
    ? value
    : checkName(PRINCIPAL, value);
}

/** The name, if it is one; otherwise throws with what is wrong, and how a name is made of a text that is none. */
export function checkName(rule: NameRule, value: unknown): string {
  const fail = (reason: string): never => {
    const { ofText } = rule;
    const made = ofText === undefined || typeof value !== "string" ? "" : ` ${ofText}(text) makes one of any text.`;
    throw new ValidationError(rule.code, `Invalid ${rule.what} ${shown(value)}: ${reason}.${made}`);
  };
  if (typeof value !== "string") return fail(`it must be a string; ${rule.remedy}`);
  if (value === "") return fail(`it must not be empty; ${rule.remedy}`);
  if (value.length > rule.lengthMax) {
    throw new ValidationError(
      rule.code,
      `Invalid ${rule.what} ${shown(value)}: it is longer than ${rule.lengthMax} characters; shorten it.`,
    );
  }
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
