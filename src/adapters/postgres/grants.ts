import { inSchema } from "./connection.ts";
import { SCHEMA_PARTS } from "./schema.ts";

/** Roles of the database, by what they may do. Absent: nothing is granted to such a role. */
export interface GrantedRoles {
  /** Takes, settles, keeps leases; cannot change limits. */
  readonly acquire?: string;
  /** Everything but making the schema. */
  readonly admin?: string;
  /** Reads everything. */
  readonly read?: string;
}

/** The statements that give roles their rights, for the owner of the schema. */
export function grants(schema: string, { acquire, admin, read }: GrantedRoles): readonly string[] {
  const functions = SCHEMA_PARTS.flatMap((part) => part.functions);
  const named = (roles: readonly string[]) =>
    functions.filter(({ role }) => roles.includes(role)).map(({ name }) => `@.${name}`);
  const takersRead = ["meta", ...SCHEMA_PARTS.flatMap((part) => part.readByTakes)].map((table) => `@.${table}`);
  const all = `ALL TABLES IN SCHEMA "${schema}"`;
  const given = [
    ...to(acquire, takersRead.join(", "), named(["acquire"])),
    ...to(admin, all, named(["acquire", "admin"])),
    ...to(read, all, []),
  ];
  return given.map((text) => inSchema(text, schema));

  function to(role: string | undefined, tables: string, called: readonly string[]): readonly string[] {
    if (role === undefined) return [];
    const name = quoted(role);
    return [
      `GRANT USAGE ON SCHEMA "${schema}" TO ${name};`,
      `GRANT SELECT ON ${tables} TO ${name};`,
      ...called.map((each) => `GRANT EXECUTE ON FUNCTION ${each} TO ${name};`),
    ];
  }
}

function quoted(role: string): string {
  return `"${role.replaceAll('"', '""')}"`;
}
