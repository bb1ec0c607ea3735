import { createHash } from "node:crypto";
import { LeaseClosed, LimiterError, NotFoundError, ValidationError } from "../../domain/names/errors.ts";
import type { EdgeDomain } from "../../edge/edge-file.ts";
import { DESCRIPTORS_MAX } from "../../edge/parse.ts";
import { type Descriptor, planAll, planCall } from "../../edge/plan-call.ts";
import type { EntryText } from "../../edge/template.ts";
import { FRAME_BYTES, type GrpcCall, type GrpcMethod } from "../../grpc/listen-grpc.ts";
import {
  OK,
  OVER_LIMIT,
  readCommitRequest,
  readRateLimitRequest,
  readReserveRequest,
  writeCommitResponse,
  writeRateLimitResponse,
  writeReserveResponse,
} from "../../grpc/messages.ts";
import { type GrpcCode, GrpcError, timeoutMs } from "../../grpc/status.ts";
import { MessageInvalid } from "../../grpc/wire.ts";
import { type Caller, callerOf, requireNamespace, requireScope } from "../caller.ts";
import type { Inflight } from "../inflight.ts";
import { Problem } from "../problem.ts";
import type { ServiceParts } from "../route.ts";
import { isNamespaceMissing, type TenantTools } from "../tenants.ts";
import type { TokenEntry } from "../tokens.ts";
import {
  type AskedOfDomain,
  charge,
  type DecidingFor,
  decide,
  settleReservation,
  type TakingCall,
  type TakingMethod,
  wouldFit,
} from "./decide.ts";
import { GRANTED } from "./decision.ts";
import type { EdgeSource } from "./edge-source.ts";
import { rateLimitResponse } from "./rate-limit-answer.ts";

/** The ways in which callers of a listener are known. */
export interface CallerSource {
  /** The caller of a service without tokens. Undefined: a token or a certificate is needed. */
  readonly openTo: Caller | undefined;
  findToken(token: string): TokenEntry | undefined;
  /** The entry of one of these names of a certificate. */
  findName(names: readonly string[]): TokenEntry | undefined;
}

export interface EdgeParts {
  readonly service: ServiceParts;
  readonly inflight: Inflight;
  readonly edge: EdgeSource;
}

const ENVOY = "/envoy.service.ratelimit.v3.RateLimitService/";
const KUADRANT = "/kuadrant.service.ratelimit.v1.RateLimitService/";

/** How long a message may take to arrive, and how long an answer. */
const BODY_MS = 21_000;
const ANSWER_MS = 10_000;

/** The methods of the edge, by their paths. */
export function edgeMethods(parts: EdgeParts, callers: CallerSource): ReadonlyMap<string, GrpcMethod> {
  const taking = (work: TakingMethod): GrpcMethod => ({
    kind: "unary",
    answer: (call) => answered(parts, callers, call, work),
  });
  return new Map<string, GrpcMethod>([
    [`${ENVOY}ShouldRateLimit`, taking(shouldRateLimit)],
    ...kuadrantMethods.map(([name, work]) => [`${KUADRANT}${name}`, taking(work)] as const),
  ]);
}

const shouldRateLimit: TakingMethod = (call) => {
  const asked = readRateLimitRequest(call.message);
  return call.on(asked, async (on) => {
    // 0 is not said, and stands for 1: that is how the protocol has it.
    const decision = await decide(planCall(on.domain, asked.descriptors, asked.hits || 1), on);
    const terms = { domain: on.domain, limiter: on.tools.limiter, units: on.service.settings.units };
    return writeRateLimitResponse(rateLimitResponse(decision, asked.descriptors.length, terms), FRAME_BYTES);
  });
};

function answered(parts: EdgeParts, callers: CallerSource, call: GrpcCall, work: TakingMethod): Promise<Buffer> {
  const { service, inflight, edge } = parts;
  if (service.isStopping()) return Promise.reject(new GrpcError("UNAVAILABLE", "The service is stopping."));
  const givenMs = timeoutMs(call.headers["grpc-timeout"]?.toString());
  const untilMs = givenMs === undefined ? undefined : service.clock.now() + givenMs;
  return inflight.run(BODY_MS, async (underway) => {
    const caller = callerOfCall(call, callers);
    const message = await call.message();
    const begin = (domain: EdgeDomain) => {
      requireScope(caller, "acquire", () => "this method");
      requireNamespace(caller, domain.namespace);
      const holder = { token: caller.token?.id, namespace: domain.namespace };
      inflight.begin(underway, holder, "plain", ANSWER_MS);
      if (untilMs !== undefined && service.clock.now() >= untilMs) {
        throw new GrpcError("DEADLINE_EXCEEDED", "The time of the call was over before anything was taken.");
      }
    };
    const on: TakingCall["on"] = (asked, deciding) => {
      checkAsked(asked);
      if (asked.limitsGiven > 0) service.metrics.edgeIgnored("limit", asked.limitsGiven);
      const domain = domainOf(edge, asked.domain);
      begin(domain);
      requireRefunds(asked.descriptors, domain, caller);
      return onTenant(service, domain.namespace, (tools) => deciding({ service, domain, tools, caller }));
    };
    return work({ message, on });
  });
}

function checkAsked({ domain, descriptors }: AskedOfDomain): void {
  if (domain === "") throw new GrpcError("INVALID_ARGUMENT", "The call names no domain.");
  if (descriptors.length === 0 || descriptors.length > DESCRIPTORS_MAX) {
    const message = `The call has ${descriptors.length} descriptors; give 1 to ${DESCRIPTORS_MAX}.`;
    throw new GrpcError("INVALID_ARGUMENT", message);
  }
  if (descriptors.some(({ entries }) => entries.some(({ key }) => key.length === 0))) {
    throw new GrpcError("INVALID_ARGUMENT", "An entry of a descriptor has no key.");
  }
}

function domainOf(edge: EdgeSource, name: EntryText): EdgeDomain {
  const domain = typeof name === "string" ? edge.domain(name) : undefined;
  if (domain !== undefined) return domain;
  throw new GrpcError("NOT_FOUND", "The edge file of the service has no such domain.");
}

function requireRefunds(descriptors: readonly Descriptor[], { refunds }: EdgeDomain, caller: Caller): void {
  if (!descriptors.some(({ isNegative }) => isNegative)) return;
  if (!refunds) {
    throw new GrpcError(
      "PERMISSION_DENIED",
      "The domain takes no negative hits; its edge file must say refunds: true.",
    );
  }
  requireScope(caller, "refund", () => "giving back");
}

/** Works on the namespace of a domain, again where its name stands for another namespace by now. */
export async function onTenant<Answer>(
  { tenants }: ServiceParts,
  namespace: string,
  work: (tools: TenantTools) => Promise<Answer>,
): Promise<Answer> {
  const tenant = tenants.get(namespace);
  try {
    return await work(await tenant.tools());
  } catch (error) {
    if (!isNamespaceMissing(error) || !tenants.lost(tenant)) throw error;
    return work(await tenants.get(namespace).tools());
  }
}

const CODES_BY_STATUS: Readonly<Record<number, GrpcCode>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  503: "UNAVAILABLE",
};

/** The status that an error of a method becomes; `onBug` hears of one that no input may cause. */
export function statusOf(error: unknown, onBug: (error: unknown) => void): GrpcError {
  if (error instanceof GrpcError) return error;
  if (error instanceof MessageInvalid)
    return new GrpcError("INVALID_ARGUMENT", `No message of this method: ${error.message}.`);
  if (error instanceof Problem) {
    const code = error.code === "overloaded" ? "RESOURCE_EXHAUSTED" : CODES_BY_STATUS[error.status];
    return new GrpcError(code ?? "INTERNAL", error.message);
  }
  if (error instanceof LimiterError) {
    const { detail } = error.toProblem();
    return new GrpcError(limiterCode(error), String(detail));
  }
  onBug(error);
  return new GrpcError("INTERNAL", "A bug in the service; its log has the cause.");
}

function limiterCode(error: LimiterError): GrpcCode {
  if (error.httpStatus >= 500) return "UNAVAILABLE";
  if (error instanceof NotFoundError) return "NOT_FOUND";
  if (error instanceof LeaseClosed || error instanceof ValidationError) return "FAILED_PRECONDITION";
  return "UNAVAILABLE";
}

/** The caller by the name in the client's certificate, or by a token. */
function callerOfCall(call: GrpcCall, { openTo, findToken, findName }: CallerSource): Caller {
  if (openTo !== undefined) return openTo;
  const { certificateNames: names } = call;
  const named = names.length === 0 ? undefined : findName(names);
  if (named !== undefined) return callerOf(named);
  const field = call.headers.authorization;
  if (field === undefined) {
    throw new GrpcError("UNAUTHENTICATED", "The call has no token; send the metadata authorization: Bearer TOKEN.");
  }
  const [, token] = /^Bearer +(\S+)$/i.exec(field) ?? [];
  const entry = token === undefined ? undefined : findToken(token);
  if (entry !== undefined) return callerOf(entry);
  throw new GrpcError("UNAUTHENTICATED", "The token is unknown or has expired.");
}

/** Looks whether the hits would fit; takes nothing. */
const checkRateLimit: TakingMethod = (call) => {
  const asked = readRateLimitRequest(call.message);
  return call.on(asked, async (on) => {
    const decision = await wouldFit(planCall(on.domain, asked.descriptors, asked.hits || 1), on);
    return writeRateLimitResponse(rateLimitResponse(decision, asked.descriptors.length, termsOf(on)), FRAME_BYTES);
  });
};

/** Charges the hits, whatever the rules say. */
const report: TakingMethod = (call) => {
  const asked = readRateLimitRequest(call.message);
  return call.on(asked, async (on) => {
    await charge(planAll("charge", on.domain, asked.descriptors, asked.hits || 1).charges, on);
    return writeRateLimitResponse(rateLimitResponse(GRANTED, asked.descriptors.length, termsOf(on)), FRAME_BYTES);
  });
};

/** Takes an amount, and holds it until it is committed or its time is over; then it is given back. */
const reserve: TakingMethod = (call) => {
  const asked = readReserveRequest(call.message);
  return call.on(asked, async (on) => {
    const { holdMs, holdMaxMs } = on.service.settings;
    const heldMs = Math.min(holdMaxMs, Math.max(1_000, Math.ceil(asked.ttlMs ?? holdMs)));
    const plan = planAll("take", on.domain, asked.descriptors, asked.amount);
    const held = { holdMs: heldMs, onExpiry: "refund" } as const;
    const takes = [...plan.takes, ...plan.peeks].map((part) => ({ ...part, ...held }));
    const decision = await decide({ ...plan, peeks: [], takes }, on);
    const code = decision.refusal === undefined ? OK : OVER_LIMIT;
    return writeReserveResponse(code, decision.leaseId ?? "", FRAME_BYTES);
  });
};

/** Settles a reservation to what it came to; what has no open reservation is charged. */
const commit: TakingMethod = (call) => {
  const asked = readCommitRequest(call.message);
  return call.on(asked, async (on) => {
    const { charges } = planAll("charge", on.domain, asked.descriptors, asked.actualAmount);
    const leaseId = typeof asked.reservationId === "string" ? asked.reservationId : "";
    try {
      if (/^[\w-]{1,128}$/.test(leaseId)) {
        await settleReservation(leaseId, charges, on);
        return writeCommitResponse(true, FRAME_BYTES);
      }
    } catch (error) {
      if (!isGone(error)) throw error;
    }
    await charge(charges, on, asked.reservationId.length === 0 ? undefined : keyOf(asked.reservationId));
    return writeCommitResponse(false, FRAME_BYTES);
  });
};

/** The methods of Kuadrant, by their names. */
const kuadrantMethods: readonly (readonly [name: string, method: TakingMethod])[] = [
  ["CheckRateLimit", checkRateLimit],
  ["Report", report],
  ["Reserve", reserve],
  ["Commit", commit],
];

function termsOf({ domain, tools, service }: DecidingFor) {
  return { domain, limiter: tools.limiter, units: service.settings.units };
}

/** Whether a reservation holds nothing any more: it has expired, or is not known. */
function isGone(error: unknown): boolean {
  if (!(error instanceof LimiterError)) return false;
  if (error.code === "lease_closed") return (error as { readonly leaseStatus?: string }).leaseStatus === "expired";
  return error.code === "lease_not_found";
}

/** The idempotency key of a commit without an open reservation: however often it is sent, it is charged once. */
function keyOf(reservationId: string | Uint8Array): string {
  return `commit:${createHash("sha256").update(reservationId).digest("hex")}`;
}
