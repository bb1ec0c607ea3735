import { CALLING_ROLES, type CallingRole, type SchemaPart } from "./schema-part.ts";
import { RECORD_PARTS } from "./schema-records.ts";
import { TAKE_PARTS } from "./schema-takes.ts";

/** The version that this package makes and works with: it grows with each table, and with each function. */
export const SCHEMA_VERSION = 7;

/**
 * Packages older than this one would misread the tables: since version 2 limits may say more than rates (domain/limits/beyond-rates.ts), since
 * version 5 they may have an end (domain/config/overrides.ts).
 */
export const LEAST_CLIENT = 5;

/** Takes first: tables of records may refer to what takes need. */
export const SCHEMA_PARTS: readonly SchemaPart[] = [TAKE_PARTS, RECORD_PARTS];

/** Roles of the database, by what they may do. Absent: nothing is granted to such a role. */
export interface GrantedRoles {
  /** Takes, settles, keeps leases; cannot change limits. */
  readonly acquire?: string;
  /** Everything but making the schema. */
  readonly admin?: string;
  /** Reads everything. */
  readonly read?: string;
}

/** The functions that a role may call, with their arguments; `own`: those that the role before it may not. */
export function executedBy(role: CallingRole, which: "all" | "own" = "all"): readonly string[] {
  const functions = SCHEMA_PARTS.flatMap((part) => part.functions);
  const roles: readonly string[] = which === "own" ? [role] : CALLING_ROLES.slice(0, CALLING_ROLES.indexOf(role) + 1);
  return functions.flatMap((one) => (roles.includes(one.role) ? one.name : []));
}

/** The tables that whoever takes reads. */
export function readByAcquire(): readonly string[] {
  return ["meta", ...SCHEMA_PARTS.flatMap((part) => part.readByTakes)];
}

/** Which of the granted roles have the right that an error of the server names; empty where it names none of ours. */
export function rolesWith(reason: string): readonly (keyof GrantedRoles)[] {
  const [, kind, name] = /\b(function|table) "?(\w+)"?/.exec(reason) ?? [];
  if (kind === "function") {
    return CALLING_ROLES.filter((role) => executedBy(role).some((each) => each.startsWith(`${name}(`)));
  }
  if (kind === undefined) return [];
  return readByAcquire().includes(String(name)) ? ["acquire", "admin", "read"] : ["admin", "read"];
}
