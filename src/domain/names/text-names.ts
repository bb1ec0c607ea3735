import { ValidationError } from "./errors.ts";
import { checkName, ENTITY_ID, type NameRule, RESOURCE, shown } from "./names.ts";
import { isItsOwnName, textIn, written } from "./written-names.ts";

/**
 * Makes an entity id from any text, such as `auth0|42`, `a+b@x.org` or `::1`. A text that is a valid id stays as it
 * is. The same text always gives the same id, and two texts never give the same one. `textOfEntityId` is the way back.
 * An empty text, or one that is too long, is refused.
 *
 * ```ts
 * entityIdOf("key-1"); // "key-1"
 * entityIdOf("auth0|42"); // "text:auth0_7C42"
 * ```
 */
export function entityIdOf(text: string): string {
  return nameOf(text, ENTITY_ID);
}

/**
 * Makes a resource from any text: `resourceOf("GET /users")` is `"text:GET_20/users"`. A text that is a valid resource
 * stays as it is. Two texts never give the same resource. `textOfResource` is the way back. An empty text, or one that
 * is too long, is refused.
 */
export function resourceOf(text: string): string {
  return nameOf(text, RESOURCE);
}

/** The text that an entity id was made from. An id that `entityIdOf` did not change is its own text. */
export function textOfEntityId(entityId: string): string {
  return textIn(checkName(ENTITY_ID, entityId), ENTITY_ID) ?? entityId;
}

/** The text that a resource was made from. A resource that `resourceOf` did not change is its own text. */
export function textOfResource(resource: string): string {
  return textIn(checkName(RESOURCE, resource), RESOURCE) ?? resource;
}

function nameOf(text: string, rule: NameRule): string {
  if (typeof text !== "string") {
    throw new ValidationError(rule.code, `No ${rule.what} can be made of ${shown(text)}; give a string.`);
  }
  // A header or a field that is not there would give everybody without it one bucket.
  if (text === "") {
    throw new ValidationError(
      rule.code,
      `No ${rule.what} can be made of an empty string: all callers without one would share a bucket. Refuse them, or give each a string.`,
    );
  }
  const name = isItsOwnName(text, rule) ? text : written(text, rule);
  if (name !== undefined) return name;
  throw new ValidationError(
    rule.code,
    `The text ${shown(text)} of ${text.length} characters is too long: as ${rule.what} it needs more than ` +
      `${rule.lengthMax} characters. Use a shorter text, or a hash of this one.`,
  );
}
