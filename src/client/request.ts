import type { OnExpiry } from "../domain/lease/lease-record.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import {
  alsoRule,
  asGiven,
  checkAmounts,
  checkName,
  checkNames,
  holdRule,
  oneOf,
  type Rules,
  refuse,
} from "./check.ts";

/** What to take, for whom, and how long to hold it. */
export interface ClientRequest<Measure extends string = string> extends AcquireRequest<Measure> {
  /** How long the lease is held, in ms; 0: charged at once, and no lease. Default: that of the client. */
  readonly holdMs?: number;
  /** What happens to the tokens if the lease expires. Default: that of the client. */
  readonly onExpiry?: OnExpiry;
}

const REQUEST: Rules<ClientRequest> = {
  ...{ entityId: asGiven, resource: asGiven, limits: asGiven, atomic: asGiven, requestId: asGiven },
  consume: (amounts: object) => !checkAmounts(amounts, "consume") && ["amounts", ""],
  also: alsoRule,
  leavePercent: (percent: number) =>
    !(Number.isInteger(percent) && percent >= 0 && percent <= 99) && [
      "leave",
      "a whole number of percent from 0 to 99",
    ],
  // The service waits no longer.
  wait: (wait: ClientRequest["wait"] | null) =>
    !(Number(wait?.maxMs ?? -1) >= 0 && Number(wait?.maxMs) <= 30_000) && ["wait", "{ maxMs }, at most 30000"],
  signal: (signal: AbortSignal | null) => !signal?.throwIfAborted && ["request", "an AbortSignal"],
  holdMs: holdRule,
  onExpiry: oneOf("on_expiry", "charge", "refund"),
};

/** A request with all its names known, and none of them lost in JSON. */
export function checkRequest(request: ClientRequest): ClientRequest {
  const { entityId, resource } = checkNames(request, REQUEST, "request", "The request");
  checkName("entityId", entityId);
  checkName("resource", resource);
  return request;
}

/** What a question is about: it may be asked with the request that it is about. */
export function questionOf(question: ClientRequest) {
  const { entityId, resource, consume, limits, leavePercent } = checkRequest(question);
  // Over HTTP it is answered for the stored limits.
  refuse({ limits });
  return { entityId, resource, consume, leavePercent };
}
