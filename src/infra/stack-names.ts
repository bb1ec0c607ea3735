import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";

export const ROLE_NAME_MAX = 64;
export const POLICY_NAME_MAX = 128;

/** What is put behind the stack's name; kept from the original, so that scripts go on working. */
export const NAMES = {
  aggregator: "-aggregator",
  provisioner: "-limits-provisioner",
  queue: "-aggregator-dlq",
  schedule: "-aggregator-schedule",
} as const;

export const ROLES = {
  aggregator: "-aggr",
  provisioner: "-prov",
  app: "-app",
  admin: "-admin",
  read: "-read",
} as const;

export const POLICIES = {
  acquire: "-acq",
  full: "-full",
  read: "-read",
  namespaceAcquire: "-ns-acq",
  namespaceFull: "-ns-full",
  namespaceRead: "-ns-read",
} as const;

/** Such as `ap-southeast-1`, with the hyphen before it. */
const REGION_LENGTH_MAX = 15;
/** Of functions and of rules of EventBridge. */
const FUNCTION_NAME_MAX = 64;

/** What is left for a stack's name before the longest that is put behind it. */
function stackNameMax(regional: boolean): number {
  return Math.min(
    FUNCTION_NAME_MAX - longestOf(NAMES).length,
    ROLE_NAME_MAX - longestOf(ROLES).length - (regional ? REGION_LENGTH_MAX : 0),
  );
}

function longestOf(endings: Readonly<Record<string, string>>): string {
  return Object.values(endings).reduce((longest, each) => (each.length > longest.length ? each : longest));
}

/** `regional`: names that are one for the account have the region in them. */
export function checkStackName(name: unknown, { regional }: { readonly regional: boolean }): string {
  const most = stackNameMax(regional);
  if (typeof name === "string" && name.length <= most && /^[A-Za-z][A-Za-z0-9-]*$/.test(name)) {
    // DynamoDB wants three characters, and the table has the stack's name.
    if (name.length >= 3) return name;
  }
  throw new ValidationError(
    "name_invalid",
    `Invalid stack name ${shown(name)}: give 3 to ${most} letters, digits and hyphens, beginning with a letter ` +
      "(CloudFormation allows no others, and names of functions and roles contain it).",
  );
}

/** `acme-{}` for `acme-limits-app`. */
export function checkNameFormat(
  option: "roleNameFormat" | "policyNameFormat",
  format: unknown,
  { stack, most, regional }: { readonly stack: string | undefined; readonly most: number; readonly regional: boolean },
): void {
  if (typeof format !== "string" || format.split("{}").length !== 2 || !/^[\w+=,.@-]*\{\}[\w+=,.@-]*$/.test(format)) {
    throw new ValidationError(
      "option_invalid",
      `${option} is ${shown(format)}; give letters, digits and +=,.@-_ with {} in it once, such as acme-{}.`,
    );
  }
  const ending = longestOf(option === "roleNameFormat" ? ROLES : POLICIES);
  const region = regional ? "-ap-southeast-1" : "";
  // Without a name, what is sure: a stack's name has three characters.
  const longest = format.replace("{}", `${stack ?? "aaa"}${ending}${region}`);
  if (longest.length > most) {
    throw new ValidationError(
      "option_invalid",
      `${option} is ${shown(format)}, and makes names as long as "${longest}", ${longest.length} characters of at most ${most}; ` +
        "give a shorter one.",
    );
  }
}
