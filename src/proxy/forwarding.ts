import type { IncomingHttpHeaders } from "node:http";
import type { Wire } from "../llm/limited-http.ts";

export interface Provider {
  /** The first part of the path. */
  readonly name: string;
  /** The form in which it sends its key, and its errors are written. */
  readonly wire: Wire;
  readonly keyHeader: (key: string) => readonly [name: string, value: string];
  /** The address, without a slash at the end. */
  readonly baseUrl: string;
  /** Calls that pass unmetered besides the list of models: `POST /v1/messages/count_tokens`. */
  readonly allow: readonly string[];
  /** The provider's own key, as it is now. */
  readonly key: () => string;
}

/** Where a request goes. `none`: nowhere, since it would be spent unseen. */
export type Route =
  | { readonly kind: "metered" | "unmetered"; readonly provider: Provider; readonly target: URL }
  | { readonly kind: "none"; readonly provider: Provider | undefined };

const LIST_OF_MODELS = "GET /v1/models";

/** Reads `/{provider}/REST`, which goes to the provider's address and `/REST`. */
export function routeOf(method: string, url: string, providers: ReadonlyMap<string, Provider>): Route {
  const [, name = "", rest = "", query = ""] = /^\/([^/?#]+)(\/[^?#]*)(\?[^#]*)?$/.exec(url) ?? [];
  const provider = providers.get(name);
  if (provider === undefined || hasDots(rest)) return { kind: "none", provider };
  const address = `${provider.baseUrl}${rest}${query}`;
  if (!URL.canParse(address)) return { kind: "none", provider };
  const target = new URL(address);
  const called = `${method} ${rest}`;
  if (called === LIST_OF_MODELS || provider.allow.includes(called)) return { kind: "unmetered", provider, target };
  const isMetered = method === "POST" && provider.wire.callOf(target.pathname, {}, false) !== undefined;
  return isMetered ? { kind: "metered", provider, target } : { kind: "none", provider };
}

/** True if a part of the path goes up, however it is written, or cannot be read. */
function hasDots(path: string): boolean {
  try {
    return /(^|[/\\])\.\.?([/\\]|$)|\\/.test(decodeURIComponent(path));
  } catch {
    return true;
  }
}

/** The token of a caller: of `Authorization`, as OpenAI's clients send it, or of `x-api-key`, as Anthropic's do. */
export function tokenOf({ authorization, "x-api-key": apiKey }: IncomingHttpHeaders): string | undefined {
  const [, bearer] = /^Bearer +(\S+) *$/i.exec(authorization ?? "") ?? [];
  return bearer ?? (typeof apiKey === "string" && apiKey !== "" ? apiKey : undefined);
}

const PASSED_ON: ReadonlySet<string> = new Set([
  ...["content-type", "accept", "user-agent", "idempotency-key"],
  ...["anthropic-version", "anthropic-beta", "openai-beta"],
]);

/** The header fields that a provider gets: a few of the caller's, and its own key. */
export function fieldsToProvider(given: IncomingHttpHeaders, { keyHeader, key }: Provider): Headers {
  const fields = new Headers();
  for (const [name, value] of Object.entries(given)) {
    if (typeof value !== "string" || !(PASSED_ON.has(name) || name.startsWith("x-stainless-"))) continue;
    fields.set(name, value);
  }
  // The bytes pass as they come, and usage is read from them.
  fields.set("accept-encoding", "identity");
  fields.set(...keyHeader(key()));
  return fields;
}

/** Fields about one connection, about the proxy's account, and those that have our own values. */
const KEPT_BACK: ReadonlySet<string> = new Set([
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["set-cookie", "openai-organization", "openai-project", "ratelimit", "ratelimit-policy"],
]);

/** The header fields of the provider that a caller gets, with those of the limits. */
export function fieldsToCaller(given: Headers, ofLimits: Readonly<Record<string, string>>): Record<string, string> {
  const isStream = given.get("content-type")?.includes("text/event-stream") === true;
  const fields: Record<string, string> = {};
  for (const [name, value] of given) {
    if (KEPT_BACK.has(name) || /^(x|anthropic)-ratelimit-/.test(name)) continue;
    // An event that the caller did not ask for is left out of a stream, so that its length is another.
    if (name === "content-length" && isStream) continue;
    fields[name] = value;
  }
  return { ...fields, ...ofLimits };
}
