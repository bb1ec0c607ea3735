import { createHash } from "node:crypto";
import type { StoredConfig } from "../domain/config/config.ts";
import { canonical } from "../domain/lease/canonical.ts";
import { Problem } from "./problem.ts";

/** What a client expects to be there. `some`: whatever it is; `none`: nothing. */
export type Precondition =
  | { readonly kind: "absent" }
  | { readonly kind: "some" }
  | { readonly kind: "none" }
  | { readonly kind: "tags"; readonly tags: readonly string[] };

/** `If-Match` and `If-None-Match: *` (RFC 9110). */
export function preconditionOf({ headers }: Request): Precondition {
  const match = headers.get("if-match")?.trim();
  const noneMatch = headers.get("if-none-match")?.trim();
  if (match !== undefined && noneMatch !== undefined)
    throw wrong("If-Match and If-None-Match are both given; send one");
  if (noneMatch !== undefined) {
    if (noneMatch === "*") return { kind: "none" };
    throw wrong(`If-None-Match is ${noneMatch}; send *, which means that nothing is stored yet`);
  }
  if (match === undefined) return { kind: "absent" };
  if (match === "*") return { kind: "some" };
  if (TAGS.test(match)) return { kind: "tags", tags: match.match(TAG) ?? [] };
  throw wrong(`If-Match is ${match}; send the ETag of GET, quotes included`);
}

const TAG = /(?:W\/)?"[\x21\x23-\x7e]*"/g;
const TAGS = /^(?:W\/)?"[\x21\x23-\x7e]*"(?:\s*,\s*(?:W\/)?"[\x21\x23-\x7e]*")*$/;

/** Whether what is there is what was expected. A weak tag (`W/`) never is: it need not be the same to the byte. */
export function isMet(precondition: Precondition, config: StoredConfig): boolean {
  switch (precondition.kind) {
    case "absent":
      return true;
    case "some":
      return saysSomething(config);
    case "none":
      return !saysSomething(config);
    case "tags":
      return saysSomething(config) && precondition.tags.includes(etagOf(config));
  }
}

/** Whether a level says anything; of one that does not there is no representation. */
export function saysSomething({ limits, ...rest }: StoredConfig): boolean {
  return limits.length > 0 || Object.keys(rest).length > 0;
}

/** The same for the same limits, in whatever order they were set, and the same options, policy and settings. */
export function etagOf({ limits, ...rest }: StoredConfig): string {
  const sorted = limits.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const hash = createHash("sha256").update(canonical({ ...rest, limits: sorted }));
  return `"${hash.digest("base64url").slice(0, 22)}"`;
}

function wrong(what: string): Problem {
  return new Problem("request_invalid", `${what}.`);
}
