import { createHash } from "node:crypto";
import type { StoredConfig } from "../domain/config/config.ts";
import { canonical } from "../domain/lease/idempotency.ts";
import { Problem } from "./problem.ts";

/** The condition of a request on the stored configuration. `some`: there is any; `none`: there is none. */
type Precondition =
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

/** Whether the stored configuration meets the condition. A weak tag (`W/`) never does: it need not mean the same bytes. */
export function isMet(precondition: Precondition, config: StoredConfig): boolean {
  switch (precondition.kind) {
    case "absent":
      return true;
    case "some":
      return isSet(config);
    case "none":
      return !isSet(config);
    case "tags":
      return isSet(config) && precondition.tags.includes(etagOf(config));
  }
}

/** Whether anything is stored for a level; a level without anything has no representation. */
export function isSet({ limits, ...rest }: StoredConfig): boolean {
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
