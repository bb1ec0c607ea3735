import { LimiterError } from "../../domain/names/errors.ts";
import type { EdgeHttp, EntrySource } from "../../edge/edge-file.ts";
import { type Descriptor, planCall } from "../../edge/plan-call.ts";
import { type EntryText, entryText } from "../../edge/template.ts";
import { keyOfAddress } from "../../middleware/client-address.ts";
import { type Caller, callerOf, requireNamespace, requireScope } from "../caller.ts";
import type { Underway } from "../inflight.ts";
import { Problem, type RouteResponse } from "../problem.ts";
import type { Gate } from "../run-route.ts";
import type { TokenEntry } from "../tokens.ts";
import { decide } from "./decide.ts";
import type { Decision } from "./decision.ts";
import { type EdgeParts, onTenant } from "./grpc-methods.ts";
import { type AnswerTerms, limitFields, problemOf } from "./rate-limit-answer.ts";

const PATH = /^\/v1\/edge\/([^/]+)\/auth(\/.*)?$/s;

/** How long an answer may take. */
const ANSWER_MS = 10_000;

/** A question of a proxy about a request of its user. */
export interface ForwardedQuestion {
  readonly domain: string;
  /** The path behind the address of the question. Undefined: there is none. */
  readonly below: string | undefined;
}

/** The question that a path is; undefined: it is another path. */
export function forwardedQuestion(path: string): ForwardedQuestion | undefined {
  const [, domain, below] = PATH.exec(path) ?? [];
  return domain === undefined ? undefined : { domain: decoded(domain), below };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** `Authorization` belongs to the user, so the token of the proxy that asks has a field of its own. */
export interface ForwardAuthParts extends EdgeParts {
  findToken(token: string): TokenEntry | undefined;
}

/** Answers the question of a proxy: 200 lets the request of its user through. The body is never read. */
export async function answerForwarded(
  parts: ForwardAuthParts,
  { domain: name, below }: ForwardedQuestion,
  request: Request,
  { gate, underway, requestId }: { readonly gate: Gate; readonly underway: Underway; readonly requestId: string },
): Promise<RouteResponse> {
  const { service, inflight, edge } = parts;
  if (service.isStopping()) throw new Problem("stopping", "The service is stopping; try another instance, or later.");
  const caller = callerOfQuestion(parts, request, gate);
  requireScope(caller, "acquire", () => "forward auth");
  const domain = edge.domain(name);
  // A caller that may not use a namespace does not learn which domains there are.
  if (domain !== undefined) requireNamespace(caller, domain.namespace);
  if (domain?.http === undefined) {
    const what = domain === undefined ? "has no such domain" : "has no http for this domain";
    throw new Problem("domain_unknown", `The edge file of the service ${what}.`);
  }
  inflight.begin(underway, { token: caller.token?.id, namespace: domain.namespace }, "plain", ANSWER_MS);
  const user: UserRequest = { request, below };
  const plan = planCall(domain, forwardedDescriptors(domain.http, user), forwardedHits(domain.http, user));
  return onTenant(service, domain.namespace, async (tools) => {
    const decision = await decide(plan, { service, domain, tools, caller });
    return answerOf(decision, { domain, limiter: tools.limiter, units: service.settings.units }, requestId);
  });
}

function answerOf(decision: Decision, terms: AnswerTerms, requestId: string): RouteResponse {
  const { refusal, leaseId, degraded } = decision;
  const headers = limitFields(decision, terms);
  if (refusal !== undefined) {
    const { error } = refusal;
    const status = error instanceof LimiterError ? error.httpStatus : error.status;
    return { status, body: { ...problemOf(refusal, terms), requestId }, headers };
  }
  const own = {
    ...(leaseId === undefined ? {} : { "zael-lease": leaseId }),
    ...(degraded === undefined ? {} : { "zael-degraded": degraded }),
  };
  return { status: 200, headers: { ...headers, ...own } };
}

/** Fields that no page can send without being asked for first: a proxy sets one of them. */
const FIELDS_OF_PROXIES = ["x-forwarded-method", "x-original-uri", "zael-token"];

function callerOfQuestion({ findToken }: ForwardAuthParts, { headers, url }: Request, gate: Gate): Caller {
  const token = headers.get("zael-token");
  if (gate.openTo === undefined) {
    if (token === null) throw new Problem("token_missing", "A token is needed; send it in the field Zael-Token.");
    const entry = findToken(token);
    if (entry === undefined) throw new Problem("token_unknown", "Unknown, revoked or expired token; get a new one.");
    return callerOf(entry);
  }
  gate.guard.requireHost(headers.get("host") ?? (gate.isFetch ? new URL(url).host : undefined));
  if (FIELDS_OF_PROXIES.some((field) => headers.has(field))) return gate.openTo;
  throw new Problem(
    "origin_forbidden",
    "The request does not come from a proxy; let it send X-Forwarded-Method, X-Original-URI or Zael-Token.",
  );
}

/** The status that `?deny=` gives to every answer but 200. Undefined: each has its own. */
export function denyingStatus({ below }: ForwardedQuestion, url: string): number | undefined {
  // Below the address stands what the user asked for.
  if (below !== undefined) return undefined;
  const deny = new URL(url).searchParams.get("deny");
  if (deny === null) return undefined;
  if (deny === "401" || deny === "403") return Number(deny);
  throw new Problem("request_invalid", `deny is ${JSON.stringify(deny)}; give 401 or 403, or leave it out.`, {
    members: { errors: [{ pointer: "?deny", detail: "give 401 or 403" }] },
  });
}

/** The answer with the status that the proxy can pass on, and its own in a field. */
export function denied(answer: RouteResponse, status: number | undefined): RouteResponse {
  if (status === undefined || answer.status === 200) return answer;
  return { ...answer, status, headers: { ...answer.headers, "zael-status": String(answer.status) } };
}

/** The request of a proxy's user, as the question about it tells. */
interface UserRequest {
  readonly request: Request;
  /** What stands behind the address of the question. */
  readonly below: string | undefined;
}

/** The descriptors of the user's request, each with those of its entries that are there. */
function forwardedDescriptors({ entries, descriptors, trustedHops }: EdgeHttp, user: UserRequest): Descriptor[] {
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
function forwardedHits({ hits, trustedHops }: EdgeHttp, user: UserRequest): number {
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
