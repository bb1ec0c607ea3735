import { LimiterError } from "../../domain/names/errors.ts";
import { planCall } from "../../edge/plan-call.ts";
import { type Caller, callerOf, requireNamespace, requireScope } from "../caller.ts";
import type { Underway } from "../inflight.ts";
import { Problem, type RouteResponse } from "../problem.ts";
import type { Gate } from "../run-route.ts";
import type { TokenEntry } from "../tokens.ts";
import { decide } from "./decide.ts";
import type { Decision } from "./decision.ts";
import { forwardedDescriptors, forwardedHits, type UserRequest } from "./forwarded-request.ts";
import { type EdgeParts, onTenant } from "./grpc-methods.ts";
import { type AnswerTerms, limitFields, problemOf } from "./rate-limit-answer.ts";

const PATH = /^\/v1\/edge\/([^/]+)\/auth(\/.*)?$/s;

/** How long an answer may take. */
const ANSWER_MS = 10_000;

/** A question of a proxy about a request of its user. */
export interface ForwardedQuestion {
  readonly domain: string;
  /** What stands behind the address of the question. Undefined: nothing. */
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

/** Who asks forward auth: `Authorization` belongs to the user, so the proxy's token has a field of its own. */
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
  // Who may not use a namespace does not learn which domains there are.
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
