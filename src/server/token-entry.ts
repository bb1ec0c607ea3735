/** What a token may do. No scope includes another. */
export type Scope = "acquire" | "read" | "admin";

export const SCOPES: readonly Scope[] = ["acquire", "read", "admin"];

/** Whom the audit trail names where there are no tokens. */
export const LOCAL_ID = "local";

/** An entry of the token file. */
export interface TokenEntry {
  /** The name of the caller, for the audit trail. */
  readonly id: string;
  /** SHA-256 of the whole token, 64 hex digits. */
  readonly sha256: string;
  /** Names of namespaces, or `"*"` for all of them and the right to make and remove namespaces. */
  readonly namespaces: readonly string[] | "*";
  /** What it may do. `admin` does not include `read`. */
  readonly scopes: readonly Scope[];
  /** When it expires, in ms since 1970. Default: never. */
  readonly expiresAtMs?: number;
  /** What its requests must leave at least, from 0 to 99: the larger of this and the request's own counts. Default: 0. */
  readonly leavePercent?: number;
}
