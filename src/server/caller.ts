import { checkLeave } from "../domain/limits/floor.ts";
import { given } from "../domain/names/given.ts";

import { Problem } from "./problem.ts";
import { LOCAL_ID, SCOPES, type Scope, type TokenEntry } from "./token-entry.ts";

/** Who makes a request. */
export interface Caller {
  /** The token's id, for the audit trail. */
  readonly id: string;
  readonly namespaces: readonly string[] | "*";
  readonly scopes: readonly Scope[];
  readonly expiresAtMs?: number;
  /** What its requests must leave at least. */
  readonly leavePercent?: number;
  /** Absent: the service is open. */
  readonly token?: TokenEntry;
}

/** Whoever reaches a service without tokens. */
export const LOCAL: Caller = { id: LOCAL_ID, namespaces: "*", scopes: SCOPES };

export function callerOf(token: TokenEntry): Caller {
  const { id, namespaces, scopes, expiresAtMs, leavePercent } = token;
  return { id, namespaces, scopes, token, ...given({ expiresAtMs, leavePercent }) };
}

/** `what`: that which needs the scope, as the subject of a sentence. */
export function requireScope({ id, scopes }: Caller, scope: Scope, what: () => string): void {
  if (scopes.includes(scope)) return;
  throw new Problem("insufficient_scope", `The token ${id} lacks the scope ${scope}, which ${what()} needs.`, {
    members: { scope },
  });
}

/** What a request must leave: what it says itself or what its token says, whichever is more. Undefined: neither says anything. */
export function leaveOf({ leavePercent }: Caller, asked: number | undefined): number | undefined {
  // What is not valid is told as such, however much the token says.
  const own = asked === undefined ? undefined : checkLeave(asked);
  return own === undefined || (leavePercent ?? 0) > own ? leavePercent : own;
}

/** Before the namespace is looked up, so that nobody learns which ones there are. */
export function requireNamespace({ id, namespaces }: Caller, name: string): void {
  if (namespaces === "*" || namespaces.includes(name)) return;
  throw new Problem("namespace_forbidden", `The token ${id} has no access to this namespace.`);
}

export function requireAllNamespaces({ id, namespaces }: Caller): void {
  if (namespaces === "*") return;
  throw new Problem(
    "namespace_forbidden",
    `The token ${id} needs namespaces "*" to create, delete and recover namespaces.`,
  );
}
