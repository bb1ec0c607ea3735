/**
 * A piece of the schema: what the versions of the package that know it need. `tables` are made once, in the version that brings them, and
 * are never changed once released. `functions` carry a version in their name and are made anew with each version of the schema;
 * each is named with its arguments, for grants (`take_2(text, text)`). Those of takes call `audit_event_1(namespace text, event json)`,
 * which is one of the records.
 */
export interface SchemaPart {
  /** By version, from 1 on. */
  readonly tables: readonly string[];
  readonly functions: readonly SchemaFunction[];
  /** Tables that whoever takes must be able to read. */
  readonly readByTakes: readonly string[];
}

interface SchemaFunction {
  /** With its arguments, as GRANT names it: `take_2(jsonb)`. */
  readonly name: string;
  readonly text: string;
  /** The least role that may call it: those after it may, too. `inner`: only other functions do. */
  readonly role: CallingRole | "inner";
}

export type CallingRole = (typeof CALLING_ROLES)[number];

/** Each may call what those before it may. */
export const CALLING_ROLES = ["read", "acquire", "admin"] as const;

/** So many changes of a namespace are kept: a process that has missed more reads everything again. */
export const CHANGES_KEPT = 128;

/** The functions of a list, whose texts are found by their names. */
export function functionsOf<Name extends string>(
  list: readonly (readonly [name: Name, types: string, role: SchemaFunction["role"]])[],
  textOf: (name: Name) => string,
): readonly SchemaFunction[] {
  return list.map(([name, types, role]) => ({ name: `${name}(${types})`, text: textOf(name), role }));
}
