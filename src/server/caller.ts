import { checkLeave } from "../domain/limits/limit-numbers.ts";
import { given } from "../domain/names/given.ts";

import { Problem } from "./problem.ts";
import { LOCAL_ID, SCOPES, type Scope, type TokenEntry } from "./tokens.ts";

export interface Caller {
  /** The token's id, for the audit trail. */
  readonly id: string;
  readonly namespaces: readonly string[] | "*";
  readonly scopes: readonly Scope[];
  readonly expiresAtMs?: number;
  /** The least percentage that its requests must leave. */
  readonly leavePercent?: number;
  /** Absent: the service is open. */
  readonly token?: TokenEntry;
}

/** Every caller of a service without tokens. */
export const LOCAL: Caller = { id: LOCAL_ID, namespaces: "*", scopes: SCOPES.filter((scope) => scope !== "proxy") };

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

/** The percentage that a request must leave: the larger of its own and its token's. Undefined: neither has one. */
export function leaveOf({ leavePercent }: Caller, asked: number | undefined): number | undefined {
  // Check the value of the request even if that of the token is larger.
  const own = asked === undefined ? undefined : checkLeave(asked);
  return own === undefined || (leavePercent ?? 0) > own ? leavePercent : own;
}

/** Call it before the namespace is looked up, so that nobody learns which ones exist. */
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
