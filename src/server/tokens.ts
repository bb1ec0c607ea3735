import { createHash, timingSafeEqual } from "node:crypto";
import { checkLeave } from "../domain/limits/floor.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { checkNamespace, checkPrincipal, shown } from "../domain/names/names.ts";
import { LOCAL_ID, SCOPES, type TokenEntry } from "./token-entry.ts";

/** The tokens that are good at present. */
export class TokenSet {
  readonly #entries: readonly { readonly entry: TokenEntry; readonly digest: Buffer }[];

  constructor(entries: readonly TokenEntry[]) {
    this.#entries = entries.map((entry) => ({ entry, digest: Buffer.from(entry.sha256, "hex") }));
  }

  /** The entry of a token. All hashes are looked at, so that the time taken says nothing of any. */
  find(token: string, nowMs: number): TokenEntry | undefined {
    const digest = createHash("sha256").update(token).digest();
    let found: TokenEntry | undefined;
    for (const known of this.#entries) if (timingSafeEqual(known.digest, digest)) found = known.entry;
    return found !== undefined && !isExpired(found, nowMs) ? found : undefined;
  }

  get size(): number {
    return this.#entries.length;
  }

  get namespaces(): readonly string[] {
    const named = this.#entries.flatMap(({ entry }) => (entry.namespaces === "*" ? [] : entry.namespaces));
    return [...new Set(named)];
  }

  /** What an entry that was good once has become; undefined where it is no longer good. */
  now({ id, sha256 }: TokenEntry, nowMs: number): TokenEntry | undefined {
    const known = this.#entries.find(({ entry }) => entry.id === id && entry.sha256 === sha256)?.entry;
    return known !== undefined && !isExpired(known, nowMs) ? known : undefined;
  }
}

export function sha256Of(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

function isExpired({ expiresAtMs }: TokenEntry, nowMs: number): boolean {
  return expiresAtMs !== undefined && nowMs >= expiresAtMs;
}

/** The entries of a token file's text, checked. */
export function parseTokens(text: string, where: string): TokenEntry[] {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    throw invalid(`${where} is not JSON: ${(error as Error).message}`, error);
  }
  const { tokens, ...others } = objectOf(document, where);
  const [other] = Object.keys(others);
  if (other !== undefined) throw invalid(`${where} has the unknown key ${shown(other)}; known: "tokens"`);
  return checkTokens(tokens, where);
}

/** A list of entries, checked. An error names the entry, the value and the remedy. */
export function checkTokens(tokens: unknown, where: string): TokenEntry[] {
  if (!Array.isArray(tokens)) throw invalid(`"tokens" of ${where} is ${shown(tokens)}; give a list of entries`);
  const entries = tokens.map((entry, i) => checkEntry(entry, `entry ${i + 1} of ${where}`));
  for (const [i, { id, sha256 }] of entries.entries()) {
    const twin = entries.slice(0, i).find((before) => before.id === id || before.sha256 === sha256);
    if (twin === undefined) continue;
    const what = twin.id === id ? `the id ${shown(id)}` : `the hash of ${shown(twin.id)}`;
    throw invalid(`entry ${i + 1} of ${where} has ${what} again; remove one of the two`);
  }
  return entries;
}

const KEYS: readonly string[] = ["id", "sha256", "namespaces", "scopes", "expiresAtMs", "leavePercent"];

function checkEntry(given: unknown, where: string): TokenEntry {
  const entry = objectOf(given, where);
  const unknown = Object.keys(entry).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) throw invalid(`${where} has the unknown key ${shown(unknown)}; known: ${KEYS.join(", ")}`);
  const { id, sha256, namespaces, scopes, expiresAtMs, leavePercent } = entry;
  checkedBy(where, () => checkPrincipal(id));
  if (id === LOCAL_ID)
    throw invalid(`${where} has the id "local", which is reserved for services without tokens; choose another`);
  if (typeof sha256 !== "string" || !/^[0-9a-f]{64}$/.test(sha256)) {
    throw invalid(`sha256 of ${where} is ${shown(sha256)}; give the 64 hex digits (0-9, a-f) of the token's SHA-256`);
  }
  if (namespaces !== "*") checkNamespaces(namespaces, where);
  checkScopes(scopes, where);
  if (expiresAtMs !== undefined && (!Number.isSafeInteger(expiresAtMs) || (expiresAtMs as number) < 0)) {
    throw invalid(
      `expiresAtMs of ${where} is ${shown(expiresAtMs)}; give whole milliseconds since 1970, or leave it out`,
    );
  }
  checkedBy(where, () => checkLeave(leavePercent));
  return entry as unknown as TokenEntry;
}

function checkNamespaces(namespaces: unknown, where: string): void {
  if (!Array.isArray(namespaces) || namespaces.length === 0) {
    throw invalid(`namespaces of ${where} is ${shown(namespaces)}; give a list of names, or "*"`);
  }
  for (const name of namespaces) checkedBy(where, () => checkNamespace(name));
}

function checkScopes(scopes: unknown, where: string): void {
  const known = SCOPES.join(", ");
  if (!Array.isArray(scopes) || scopes.length === 0) {
    throw invalid(`scopes of ${where} is ${shown(scopes)}; give a list of ${known}`);
  }
  const wrong = scopes.find((scope) => !SCOPES.includes(scope));
  if (wrong !== undefined) throw invalid(`${where} has the scope ${shown(wrong)}; scopes are ${known}`);
}

function checkedBy(where: string, check: () => unknown): void {
  try {
    check();
  } catch (error) {
    throw invalid(`${where}: ${(error as Error).message.replace(/\.$/, "")}`, error);
  }
}

function objectOf(value: unknown, where: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw invalid(`${where} is ${shown(value)}; give an object`);
}

function invalid(what: string, cause?: unknown): ValidationError {
  const sentence = what.charAt(0).toUpperCase() + what.slice(1);
  return new ValidationError("tokens_invalid", `${sentence}.`, cause === undefined ? {} : { cause });
}
