/**
 * A piece of the schema: what the versions of the package that know it need. `tables` are made once, in the version that brings them, and
 * are never changed once released. `functions` carry a version in their name and are made anew with each version of the schema;
 * each is named with its arguments, for grants (`take_1(text, text)`). Those of takes call `audit_event_1(namespace text, event json)`,
 * which is one of the records.
 */
export interface SchemaPart {
  /** By version, from 1 on. */
  readonly tables: readonly string[];
  readonly functions: readonly SchemaFunction[];
  /** Tables that whoever takes must be able to read. */
  readonly readByTakes: readonly string[];
}

export interface SchemaFunction {
  /** With its arguments, as GRANT names it: `take_1(jsonb)`. */
  readonly name: string;
  readonly text: string;
  /** Which role may call it; `admin` may call all of them. `inner`: only other functions do. */
  readonly role: "acquire" | "admin" | "inner";
}

/** The head that every function has, after its arguments and what it returns. */
export const FUNCTION_HEAD = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp";
