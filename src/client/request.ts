import type { OnExpiry } from "../domain/lease-record.ts";
import type { AcquireRequest } from "../engine/request.ts";
import { checkAlso, checkAmounts, checkHold, checkName, checkNames, checkOnExpiry, invalid, refuse } from "./check.ts";

/** What to take, for whom, and how long to hold it. */
export interface ClientRequest<Measure extends string = string> extends AcquireRequest<Measure> {
  /** How long the lease is held, in ms; 0: charged at once, and no lease. Default: that of the client. */
  readonly holdMs?: number;
  /** What happens to the tokens if the lease expires. Default: that of the client. */
  readonly onExpiry?: OnExpiry;
}

const REQUEST: readonly (keyof ClientRequest)[] = [
  ...(["entityId", "resource", "consume", "limits", "also", "wait", "atomic", "requestId"] as const),
  ...(["signal", "holdMs", "onExpiry"] as const),
];

/** The longest that a service waits for tokens. */
const WAIT_MAX_MS = 30_000;

/** The body of a request, checked, and what is not part of it. */
export function bodyOf(
  request: ClientRequest,
  defaults: { readonly holdMs: number; readonly onExpiry: OnExpiry | undefined },
) {
  const { signal, ...asked } = checkedNames(request);
  if (signal !== undefined && !signal?.throwIfAborted) {
    throw invalid("request_invalid", "signal", signal, "an AbortSignal");
  }
  const { wait, also, holdMs = defaults.holdMs, onExpiry = defaults.onExpiry } = asked;
  const waitMs = wait === undefined ? 0 : wait?.maxMs;
  if (!(typeof waitMs === "number" && waitMs >= 0 && waitMs <= WAIT_MAX_MS)) {
    throw invalid("wait_invalid", "wait", wait, `{ maxMs }, at most ${WAIT_MAX_MS}`);
  }
  checkAlso(also);
  return { body: { ...asked, holdMs: checkHold(holdMs), onExpiry: checkOnExpiry(onExpiry) }, signal, waitMs };
}

/** What a question is about: it may be asked with the request that it is about. */
export function questionOf(question: ClientRequest) {
  const { entityId, resource, consume, limits } = checkedNames(question);
  // Over HTTP it is answered for the stored limits.
  refuse({ limits });
  return { entityId, resource, consume };
}

function checkedNames(request: ClientRequest): ClientRequest {
  const { entityId, resource, consume } = checkNames(request, REQUEST, "request_invalid", "The request");
  checkName("entityId", entityId);
  checkName("resource", resource);
  if (consume !== undefined) checkAmounts(consume, "consume");
  return request;
}
