import { TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import { ValidationError } from "./errors.ts";
import { ENTITY_ID, LIMIT_NAME, NAMESPACE, type NameRule, RESOURCE } from "./name-rules.ts";
import { shown } from "./shown.ts";

export { ENTITY_ID, isAllowed, LIMIT_NAME, NAMESPACE, type NameRule, RESOURCE } from "./name-rules.ts";
export { shown, withoutSecrets } from "./shown.ts";

const OWNER: NameRule = { ...ENTITY_ID, what: "owner", ofText: undefined };

const MEASURE: NameRule = { ...LIMIT_NAME, what: "measure" };

/** The rule is that of entities; `entityIdOf` makes a plan id from any text. */
const PLAN_ID: NameRule = { ...ENTITY_ID, what: "plan id", code: "plan_id_invalid" };

const PRINCIPAL: NameRule = { ...ENTITY_ID, what: "principal", code: "principal_invalid" };

export const checkEntityId = (value: unknown): string => checkName(ENTITY_ID, value);
export const checkPlanId = (value: unknown): string => checkName(PLAN_ID, value);
export const checkOwner = (value: unknown): string => checkName(OWNER, value);
export const checkResource = (value: unknown): string => checkName(RESOURCE, value);
/** Checks the resource of a question or an operation, which may be about totals. */
export const checkBucketResource = (value: unknown): string =>
  value === TOTAL_RESOURCE ? TOTAL_RESOURCE : checkResource(value);
export const checkLimitName = (value: unknown): string => checkName(LIMIT_NAME, value);
export const checkMeasure = (value: unknown): string => checkName(MEASURE, value);
export const checkNamespace = (value: unknown): string => checkName(NAMESPACE, value);

/** Checks who made a change, for the audit trail: an identifier, or an ARN as it is. */
export function checkPrincipal(value: unknown): string {
  return typeof value === "string" && /^arn:[\x21-\x7e]+$/.test(value) && value.length <= 2048
    ? value
    : checkName(PRINCIPAL, value);
}

/** The name, if it is one; otherwise throws with what is wrong, and how a name is made of a text that is none. */
export function checkName(rule: NameRule, value: unknown): string {
  const fail = (reason: string): never => {
    const { ofText } = rule;
    const isText = ofText !== undefined && typeof value === "string";
    throw new ValidationError(
      rule.code,
      (ways) => `Invalid ${rule.what} ${shown(value)}: ${reason}.${isText ? ways.ofText(ofText) : ""}`,
    );
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
