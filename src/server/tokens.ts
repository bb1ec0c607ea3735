import { createHash, timingSafeEqual } from "node:crypto";
import { checkLeave } from "../domain/limits/limit-numbers.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { checkEntityId, checkNamespace, checkPrincipal, shown } from "../domain/names/names.ts";
import type { Clock } from "../ports/system.ts";
import { readText, rereadOnChange } from "./read-files.ts";

/** What a token may do. No scope includes another. */
export type Scope = "acquire" | "read" | "admin" | "refund" | "proxy";

export const SCOPES: readonly Scope[] = ["acquire", "read", "admin", "refund", "proxy"];

/** The caller in the audit trail of a service without tokens. */
export const LOCAL_ID = "local";

/** An entry of the token file. */
export interface TokenEntry {
  /** The name of the caller, for the audit trail. */
  readonly id: string;
  /** SHA-256 of the whole token, 64 hex digits. Default: none; the caller is known by `san`. */
  readonly sha256?: string;
  /**
   * A name in a client's certificate, in place of a token: `URI:spiffe://example.org/envoy` or `DNS:envoy.example.org`. It counts over gRPC
   * with `--grpc-client-ca`. Default: none.
   */
  readonly san?: string;
  /** Names of namespaces, or `"*"` for all of them and the right to make and remove namespaces. */
  readonly namespaces: readonly string[] | "*";
  /** The calls that it may make. `admin` does not include `read`. `refund`: to give back without a lease, besides `acquire`. */
  readonly scopes: readonly Scope[];
  /** When it expires, in ms since 1970. Default: never. */
  readonly expiresAtMs?: number;
  /** What its requests must leave at least, from 0 to 99: the larger of this and the request's own counts. Default: 0. */
  readonly leavePercent?: number;
  /** The entity that calls through a proxy are charged to. Default: the id. */
  readonly entityId?: string;
}

export function sha256Of(token: string): string {
  return createHash("sha256").update(token).digest("hex");
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
  for (const [i, { id, sha256, san }] of entries.entries()) {
    const isSame = (before: TokenEntry) => before.id === id || (before.sha256 === sha256 && before.san === san);
    const twin = entries.slice(0, i).find(isSame);
    if (twin === undefined) continue;
    const secret = san === undefined ? "hash" : "san";
    const what = twin.id === id ? `the id ${shown(id)}` : `the ${secret} of ${shown(twin.id)}`;
    throw invalid(`entry ${i + 1} of ${where} has ${what} again; remove one of the two`);
  }
  return entries;
}

const KEYS: readonly string[] = [
  "id",
  "sha256",
  "san",
  "namespaces",
  "scopes",
  "expiresAtMs",
  "leavePercent",
  "entityId",
];

function checkEntry(given: unknown, where: string): TokenEntry {
  const entry = objectOf(given, where);
  const unknown = Object.keys(entry).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) throw invalid(`${where} has the unknown key ${shown(unknown)}; known: ${KEYS.join(", ")}`);
  const { id, namespaces, scopes, expiresAtMs, leavePercent, entityId } = entry;
  checkedBy(where, () => checkPrincipal(id));
  if (id === LOCAL_ID)
    throw invalid(`${where} has the id "local", which is reserved for services without tokens; choose another`);
  checkSecret(entry, where);
  if (namespaces !== "*") checkNamespaces(namespaces, where);
  checkScopes(scopes, where);
  if (expiresAtMs !== undefined && (!Number.isSafeInteger(expiresAtMs) || (expiresAtMs as number) < 0)) {
    throw invalid(
      `expiresAtMs of ${where} is ${shown(expiresAtMs)}; give whole milliseconds since 1970, or leave it out`,
    );
  }
  checkedBy(where, () => checkLeave(leavePercent));
  if (entityId !== undefined) checkedBy(where, () => checkEntityId(entityId));
  const isOne = namespaces !== "*" && (namespaces as readonly unknown[]).length === 1;
  if ((scopes as readonly unknown[]).includes("proxy") && !isOne) {
    throw invalid(`${where} has the scope proxy and ${shown(namespaces)} as namespaces; give one namespace to charge`);
  }
  return entry as unknown as TokenEntry;
}

/** The token's hash, or a name in the certificate of a client. */
function checkSecret({ sha256, san }: Record<string, unknown>, where: string): void {
  if (san === undefined) {
    if (typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256)) return;
    throw invalid(`sha256 of ${where} is ${shown(sha256)}; give the 64 hex digits (0-9, a-f) of the token's SHA-256`);
  }
  if (sha256 !== undefined) throw invalid(`${where} has both sha256 and san; give one of them`);
  if (typeof san === "string" && /^(URI|DNS):[\x21-\x7e]+$/.test(san)) return;
  throw invalid(
    `san of ${where} is ${shown(san)}; give a name such as "URI:spiffe://example.org/envoy" or "DNS:envoy.example.org"`,
  );
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

interface SourceOptions {
  readonly file: string | undefined;
  readonly tokens: readonly TokenEntry[] | undefined;
  readonly clock: Clock;
  readonly log: (line: string) => void;
}

/** How often the file is looked at. A change counts, and streams of expired tokens end, within twice this time. */
const LOOK_MS = 500;

interface KnownToken {
  readonly entry: TokenEntry;
  /** Undefined: it is known by a certificate. */
  readonly digest: Buffer | undefined;
}

/** The tokens that are valid now. Their file is read again when it changes. */
export class TokenSource {
  readonly #options: SourceOptions;
  /** Undefined: there are no tokens, and the service is open. */
  #known: readonly KnownToken[] | undefined;
  #rereadOnChange: (() => boolean) | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Throws a `ValidationError` for a file that cannot be read or has something wrong in it. */
  constructor(options: SourceOptions) {
    this.#options = options;
    const { file, tokens, log } = options;
    if (tokens !== undefined) this.#known = knownTokens(checkTokens(tokens, "the tokens given"));
    if (file === undefined) return;
    const read = () => {
      this.#known = knownTokens(readTokens(file));
    };
    const done = `The tokens of ${file} were reloaded.`;
    this.#rereadOnChange = rereadOnChange({
      files: [file],
      read,
      done,
      kept: " The previous tokens stay in use.",
      log,
    });
    read();
  }

  get isOpen(): boolean {
    return this.#known === undefined;
  }

  /** The number of tokens. Undefined: the service is open. */
  get count(): number | undefined {
    return this.#known?.length;
  }

  /** The namespaces that tokens name. */
  get namespaces(): readonly string[] {
    const named = (this.#known ?? []).flatMap(({ entry }) => (entry.namespaces === "*" ? [] : entry.namespaces));
    return [...new Set(named)];
  }

  /** The entry of a valid token. Every hash is compared, so that the time says nothing about any of them. */
  find(token: string): TokenEntry | undefined {
    if (this.#known === undefined) return undefined;
    const digest = createHash("sha256").update(token).digest();
    let found: TokenEntry | undefined;
    for (const known of this.#known) {
      if (known.digest !== undefined && timingSafeEqual(known.digest, digest)) found = known.entry;
    }
    return found === undefined || this.#isExpired(found) ? undefined : found;
  }

  /** The entry of one of the names in a certificate. */
  findName(names: readonly string[]): TokenEntry | undefined {
    const isNamed = ({ entry }: KnownToken) =>
      entry.san !== undefined && names.includes(entry.san) && !this.#isExpired(entry);
    return this.#known?.find(isNamed)?.entry;
  }

  /** Whether a token that was valid before may still read a namespace, by its entry of now. */
  mayRead({ id, sha256 }: TokenEntry, namespace: string): boolean {
    const entry = this.#known?.find((known) => known.entry.id === id && known.entry.sha256 === sha256)?.entry;
    if (entry === undefined || this.#isExpired(entry) || !entry.scopes.includes("read")) return false;
    return entry.namespaces === "*" || entry.namespaces.includes(namespace);
  }

  /** Calls back after every look at the file. */
  watch(onLook: () => void): void {
    if (this.isOpen) return;
    this.#timer = setInterval(() => {
      this.#rereadOnChange?.();
      onLook();
    }, LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #isExpired({ expiresAtMs }: TokenEntry): boolean {
    return expiresAtMs !== undefined && this.#options.clock.now() >= expiresAtMs;
  }
}

function knownTokens(entries: readonly TokenEntry[]): readonly KnownToken[] {
  return entries.map((entry) => ({
    entry,
    digest: entry.sha256 === undefined ? undefined : Buffer.from(entry.sha256, "hex"),
  }));
}

/** The entries of a token file. */
export function readTokens(file: string): TokenEntry[] {
  const remedy = ` Create it with \`zae-limiter token add ${file}\`.`;
  return parseTokens(readText(file, "tokens_invalid", "The token file", remedy), file);
}
