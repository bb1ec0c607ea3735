import { SCHEMA_VERSION } from "../adapters/dynamodb/schema.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";

export const ROLE_NAME_MAX = 64;
export const POLICY_NAME_MAX = 128;

/** Endings that follow the stack's name. They are the original's, so that scripts go on working. */
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

/** The length of a region such as `ap-southeast-1`, with the hyphen before it. */
const REGION_LENGTH_MAX = 15;
/** The longest name of a function, and of a rule of EventBridge. */
const FUNCTION_NAME_MAX = 64;

/** The longest name of a stack: the longest ending must fit behind it. */
function stackNameMax(regional: boolean): number {
  return Math.min(
    FUNCTION_NAME_MAX - longestOf(NAMES).length,
    ROLE_NAME_MAX - longestOf(ROLES).length - (regional ? REGION_LENGTH_MAX : 0),
  );
}

function longestOf(endings: Readonly<Record<string, string>>): string {
  return Object.values(endings).reduce((longest, each) => (each.length > longest.length ? each : longest));
}

/** Throws unless a name can be a stack's. `regional`: names that are unique in the account include the region. */
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

/** Throws unless a format such as `acme-{}` makes names such as `acme-limits-app` that AWS accepts. */
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
  // Without a name, the shortest is assumed: three characters.
  const longest = format.replace("{}", `${stack ?? "aaa"}${ending}${region}`);
  if (longest.length > most) {
    throw new ValidationError(
      "option_invalid",
      `${option} is ${shown(format)}, and makes names as long as "${longest}", ${longest.length} characters of at most ${most}; ` +
        "give a shorter one.",
    );
  }
}

type Tags = Readonly<Record<string, string>>;

/** The tags that mark a stack of zae-limiter. Their names are the original's. */
export const TAG = {
  managedBy: "ManagedBy",
  name: "zae-limiter:name",
  type: "zae-limiter:type",
  version: "zae-limiter:version",
  schemaVersion: "zae-limiter:schema-version",
  lambdaVersion: "zae-limiter:lambda-version",
} as const;

export const MANAGER = "zae-limiter";

/** Makes the tags of a stack that this version of the package deploys. */
export function managedTags(name: string, version: string): Tags {
  return {
    [TAG.managedBy]: MANAGER,
    [TAG.name]: name,
    [TAG.type]: "limiter",
    [TAG.version]: version,
    [TAG.schemaVersion]: SCHEMA_VERSION,
    [TAG.lambdaVersion]: version,
  };
}

/** Selects the tags that the user gave. */
export function userTags(tags: Tags): Tags {
  const managed = new Set<string>(Object.values(TAG));
  return Object.fromEntries(Object.entries(tags).filter(([key]) => !managed.has(key) && !key.startsWith("aws:")));
}

/** CloudFormation allows 50 tags for a stack. */
const USER_TAGS_MAX = 50 - Object.keys(TAG).length;

export function checkTags(tags: Tags): Tags {
  const managed = new Set<string>(Object.values(TAG));
  for (const [key, value] of Object.entries(tags)) {
    const problem =
      key.length < 1 || key.length > 128
        ? "a key has 1 to 128 characters"
        : /^aws:/i.test(key)
          ? "keys that begin with aws: are reserved by AWS"
          : managed.has(key)
            ? "zae-limiter sets this one"
            : value.length > 256
              ? "a value has at most 256 characters"
              : undefined;
    if (problem !== undefined) {
      throw new ValidationError("tag_invalid", `Invalid tag ${shown(`${key}=${value}`)}: ${problem}; give another.`);
    }
  }
  const count = Object.keys(tags).length;
  if (count > USER_TAGS_MAX) {
    throw new ValidationError("tag_invalid", `There are ${count} tags; give at most ${USER_TAGS_MAX}.`);
  }
  return tags;
}
