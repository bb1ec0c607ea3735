import type { OnUnavailable } from "../domain/config/config.ts";
import type { OnExpiry } from "../domain/lease/lease-record.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import {
  alsoRule,
  asGiven,
  checkAmounts,
  checkName,
  checkNames,
  holdRule,
  invalid,
  nameRule,
  oneOf,
  type Rules,
  refuse,
} from "./check.ts";

/** The service, the caller's token, and the bounds of an answer. */
export interface ClientOptions {
  /** The address of the service, http or https, such as `https://limits.internal`. */
  readonly url: string;
  /** The token, as `zae-limiter token add` printed it. Default: none, for a service that is open. */
  readonly token?: string;
  /** The tenant. Default: `"default"`. */
  readonly namespace?: string;
  /** The longest time for an answer, in ms. Default: 2,000. */
  readonly timeoutMs?: number;
  /**
   * The outcome of a request while the service cannot answer. `"block"`: `RateLimiterUnavailable`. `"allow"`: a lease that
   * charges nothing and has `degraded`. Default: `"block"`.
   */
  readonly onUnavailable?: OnUnavailable;
  /** The time that a lease is held, in ms, where the request does not say; 0: charged at once, and no lease. Default: 60,000. */
  readonly holdMs?: number;
  /** The end of the tokens of a lease that expires, where the request does not say. Default: the service decides. */
  readonly onExpiry?: OnExpiry;
}

/** Options that were checked, and complete. */
export interface CheckedOptions {
  /** The address without a slash at the end. */
  readonly base: string;
  readonly token: string | undefined;
  readonly namespace: string;
  readonly timeoutMs: number;
  readonly onUnavailable: OnUnavailable;
  readonly holdMs: number;
  readonly onExpiry: OnExpiry | undefined;
}

const OPTIONS: Rules<ClientOptions> = {
  url: asGiven,
  // The token itself is in no message, whatever is wrong with it.
  token: asGiven,
  // They stand in every address.
  namespace: nameRule("namespace"),
  timeoutMs: (ms: number) => !(Number.isSafeInteger(ms) && ms > 0) && ["option", "whole milliseconds, at least 1"],
  onUnavailable: oneOf("option", "allow", "block"),
  holdMs: holdRule,
  onExpiry: oneOf("on_expiry", "charge", "refund"),
};

export function checkOptions(options: ClientOptions): CheckedOptions {
  const { url, token, ...given } = checkNames(options, OPTIONS, "options", "LimiterClient");
  if (token !== undefined && !(typeof token === "string" && /^[!-~]+$/.test(token))) {
    throw invalid("token", "The token", "wrong", "it as it was printed");
  }
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const defaults = { namespace: "default", timeoutMs: 2_000, onUnavailable: "block", holdMs: 60_000 } as const;
  return { ...defaults, onExpiry: undefined, ...set, token, base: addressOf(url) };
}

function addressOf(url: unknown): string {
  const parsed = typeof url === "string" && URL.canParse(url) && new URL(url);
  if (parsed && /^https?:\/\/[^@?#]*$/.test(parsed.href)) return parsed.href.replace(/\/+$/, "");
  // An address that is wrong may have a password in it, wherever that stands: only a scheme and a host are shown.
  const isShown = /^(\w+:\/\/[\w.-]+|localhost:\d+|undefined)$/.test(url as string);
  throw invalid("url", "The url", isShown ? url : "...", "an http or https URL, no user or query");
}

/** A request for tokens, and for how long to hold them. */
export interface ClientRequest<Measure extends string = string> extends AcquireRequest<Measure> {
  /** The time that the lease is held, in ms; 0: charged at once, and no lease. Default: that of the client. */
  readonly holdMs?: number;
  /** The end of the tokens if the lease expires. Default: that of the client. */
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

/** The fields of a question. A whole request may be given as one. */
export function questionOf(question: ClientRequest) {
  const { entityId, resource, consume, limits, leavePercent } = checkRequest(question);
  // Over HTTP it is answered for the stored limits.
  refuse({ limits });
  return { entityId, resource, consume, leavePercent };
}
