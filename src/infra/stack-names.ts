import { ValidationError } from "../domain/errors.ts";
import { shown } from "../domain/names.ts";

/** A function's name has at most 64 characters, and `-limits-provisioner` is the longest that is put behind a stack's. */
export const STACK_NAME_MAX = 45;
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

export function checkStackName(name: unknown): string {
  if (typeof name === "string" && name.length <= STACK_NAME_MAX && /^[A-Za-z][A-Za-z0-9-]*$/.test(name)) {
    // DynamoDB wants three characters, and the table has the stack's name.
    if (name.length >= 3) return name;
  }
  throw new ValidationError(
    "name_invalid",
    `Invalid stack name ${shown(name)}: give 3 to ${STACK_NAME_MAX} letters, digits and hyphens, beginning with a letter ` +
      "(CloudFormation allows no others, and the names of functions are made of it).",
  );
}

/** `acme-{}` for `acme-limits-app`. */
export function checkNameFormat(
  option: "roleNameFormat" | "policyNameFormat",
  format: unknown,
  { stack, most }: { readonly stack: string | undefined; readonly most: number },
): void {
  if (typeof format !== "string" || format.split("{}").length !== 2 || !/^[\w+=,.@-]*\{\}[\w+=,.@-]*$/.test(format)) {
    throw new ValidationError(
      "option_invalid",
      `${option} is ${shown(format)}; give letters, digits and +=,.@-_ with {} in it once, such as acme-{}.`,
    );
  }
  const endings = Object.values<string>(option === "roleNameFormat" ? ROLES : POLICIES);
  const ending = endings.reduce((longest, each) => (each.length > longest.length ? each : longest));
  // Without a name, what is sure: a stack's name has three characters.
  const longest = format.replace("{}", `${stack ?? "aaa"}${ending}`);
  if (longest.length > most) {
    throw new ValidationError(
      "option_invalid",
      `${option} is ${shown(format)}, and makes names as long as "${longest}", ${longest.length} characters of at most ${most}; ` +
        "give a shorter one.",
    );
  }
}
