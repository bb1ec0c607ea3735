/** What a token may be good for; each stands alone. */
export type Scope = "acquire" | "read" | "admin";

export const SCOPES: readonly Scope[] = ["acquire", "read", "admin"];

/** Whom the audit trail names where there are no tokens. */
export const LOCAL_ID = "local";

/** An entry of the token file. */
export interface TokenEntry {
  /** Whom the audit trail names. */
  readonly id: string;
  /** SHA-256 of the whole token, 64 hex digits. */
  readonly sha256: string;
  /** Names, or `"*"` for all of them and for making and removing namespaces. */
  readonly namespaces: readonly string[] | "*";
  /** Each stands alone: `admin` does not include `read`. */
  readonly scopes: readonly Scope[];
  /** Refused from then on, in ms since 1970. */
  readonly expiresAtMs?: number;
}
