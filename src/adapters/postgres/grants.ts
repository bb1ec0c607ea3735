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

/** The functions that roles may call, with their arguments. */
export function executedBy(roles: readonly ("acquire" | "admin")[]): readonly string[] {
  const functions = SCHEMA_PARTS.flatMap((part) => part.functions);
  return functions.filter(({ role }) => role !== "inner" && roles.includes(role)).map(({ name }) => name);
}

/** The tables that whoever takes reads. */
export function readByAcquire(): readonly string[] {
  return ["meta", ...SCHEMA_PARTS.flatMap((part) => part.readByTakes)];
}

/** The statements that give roles their rights, for the owner of the schema. */
export function grants(schema: string, { acquire, admin, read }: GrantedRoles): readonly string[] {
  const named = (roles: readonly ("acquire" | "admin")[]) => executedBy(roles).map((name) => `@.${name}`);
  const takersRead = readByAcquire().map((table) => `@.${table}`);
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
