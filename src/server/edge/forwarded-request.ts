import type { EdgeHttp, EntrySource } from "../../edge/edge-file.ts";
import type { Descriptor } from "../../edge/plan-call.ts";
import { type EntryText, entryText } from "../../edge/template.ts";
import { keyOfAddress } from "../../middleware/client-address.ts";
import { Problem } from "../problem.ts";

/** The request of a proxy's user, as the question about it tells. */
export interface UserRequest {
  /** The question. */
  readonly request: Request;
  /** What stands behind the address of the question. */
  readonly below: string | undefined;
}

/** The descriptors of the user's request, each with those of its entries that are there. */
export function forwardedDescriptors({ entries, descriptors, trustedHops }: EdgeHttp, user: UserRequest): Descriptor[] {
  return descriptors.map((keys) => ({
    entries: keys.flatMap((key) => {
      const source = entries.get(key);
      const value = source && entryValue(source, user, trustedHops);
      return value === undefined ? [] : [{ key, value }];
    }),
    hits: undefined,
    isNegative: false,
  }));
}

/** The hits of the user's request; 1 where it does not say. */
export function forwardedHits({ hits, trustedHops }: EdgeHttp, user: UserRequest): number {
  const value = hits && entryValue(hits, user, trustedHops);
  if (value === undefined) return 1;
  if (typeof value === "string" && /^\d+$/.test(value)) return Number(value);
  throw new Problem("hits_invalid", `The hits are ${JSON.stringify(String(value))}; give a whole number, 0 or more.`);
}

function entryValue(source: EntrySource, user: UserRequest, trustedHops: number): EntryText | undefined {
  const { headers } = user.request;
  switch (source.kind) {
    case "header":
      return textOf(headers.get(source.name));
    case "query":
      return queryValue(queryIn(uriOf(user)), source.name);
    case "text":
      return source.text;
    case "path":
      return pathIn(uriOf(user));
    case "method":
      return textOf(headers.get("x-forwarded-method") ?? headers.get("x-original-method") ?? user.request.method);
    case "host":
      return textOf(headers.get("x-forwarded-host") ?? headers.get("host"));
    case "client":
      return clientOf(headers.get("x-forwarded-for"), trustedHops);
  }
}

/** The bytes of a field, which stand in it one to a character. */
function textOf(field: string | null): EntryText | undefined {
  return field === null ? undefined : entryText(Buffer.from(field, "latin1"));
}

/** The path and the query of the user's request. */
function uriOf({ request, below }: UserRequest): string {
  const { headers, url } = request;
  const told = headers.get("x-forwarded-uri") ?? headers.get("x-original-uri");
  return told ?? `${below ?? "/"}${new URL(url).search}`;
}

/** The path without its query, as its server reads it: `/a/../b`, `/%62` and `/b` are one, so that no spelling is a way around a rule. */
function pathIn(uri: string): EntryText {
  const [path = ""] = uri.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "").split(/[?#]/, 1);
  const plain = path.replace(/%[0-9a-f]{2}/gi, (octet) => {
    const character = String.fromCharCode(Number.parseInt(octet.slice(1), 16));
    return /[A-Za-z0-9._~-]/.test(character) ? character : octet.toUpperCase();
  });
  const url = URL.parse(`http://user${plain.startsWith("/") ? "" : "/"}${plain}`);
  return url?.pathname ?? (textOf(path) as EntryText);
}

function queryIn(uri: string): string {
  const mark = uri.indexOf("?");
  return mark < 0 ? "" : (uri.slice(mark + 1).split("#", 1)[0] ?? "");
}

/** The first value of that name in a query, by its bytes: a decoder of text would make strangers one. */
function queryValue(query: string, name: string): EntryText | undefined {
  for (const pair of query.split("&")) {
    const mark = pair.indexOf("=");
    const key = unescaped(mark < 0 ? pair : pair.slice(0, mark));
    if (key === name) return mark < 0 ? "" : unescaped(pair.slice(mark + 1));
  }
  return undefined;
}

function unescaped(text: string): EntryText {
  const plain = text.replaceAll("+", " ");
  const bytes = plain.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return entryText(Buffer.from(bytes, "latin1"));
}

/**
 * The address that the last of so many proxies saw. Addresses further left are what a client has written. Where there are fewer, it is the first:
 * the request came by fewer proxies. An address of IPv6 is that of its /64 network, which one customer has.
 */
function clientOf(field: string | null, hops: number): EntryText | undefined {
  if (field === null) return undefined;
  const addresses = field.split(",").map((address) => address.trim());
  const address = addresses.at(-Math.min(hops, addresses.length)) ?? "";
  return keyOfAddress(address)?.slice("ip-".length) ?? textOf(address);
}
