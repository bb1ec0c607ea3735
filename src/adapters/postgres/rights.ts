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

/** Which of the granted roles have the right that an error of the server names; empty where it names none of ours. */
export function rolesWith(reason: string): readonly (keyof GrantedRoles)[] {
  const [, kind, name] = /\b(function|table) "?(\w+)"?/.exec(reason) ?? [];
  if (kind === "function") {
    const isCalledBy = (role: "acquire" | "admin") => executedBy([role]).some((each) => each.startsWith(`${name}(`));
    return isCalledBy("acquire") ? ["acquire", "admin"] : isCalledBy("admin") ? ["admin"] : [];
  }
  if (kind === undefined) return [];
  return readByAcquire().includes(String(name)) ? ["acquire", "admin", "read"] : ["admin", "read"];
}
