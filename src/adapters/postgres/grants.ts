import { inSchema } from "./connection.ts";
import { executedBy, type GrantedRoles, readByAcquire } from "./rights.ts";

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

/** The name of a role as SQL has it. */
export function quoted(role: string): string {
  return `"${role.replaceAll('"', '""')}"`;
}
