import { SCHEMA_VERSION } from "../adapters/dynamodb/schema.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";

type Tags = Readonly<Record<string, string>>;

/** By which stacks of ours are found; names of the original. */
export const TAG = {
  managedBy: "ManagedBy",
  name: "zae-limiter:name",
  type: "zae-limiter:type",
  version: "zae-limiter:version",
  schemaVersion: "zae-limiter:schema-version",
  lambdaVersion: "zae-limiter:lambda-version",
} as const;

export const MANAGER = "zae-limiter";

/** `version`: of this package. */
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

/** Those of a stack that are the user's. */
export function userTags(tags: Tags): Tags {
  const managed = new Set<string>(Object.values(TAG));
  return Object.fromEntries(Object.entries(tags).filter(([key]) => !managed.has(key) && !key.startsWith("aws:")));
}

/** CloudFormation allows 50 a stack. */
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
