import { amountsOf, measuresOf, type Tokens } from "../domain/charge/amounts.ts";
import { checkLimits, type Limit } from "../domain/limits/limit.ts";
import { checkLeave } from "../domain/limits/limit-numbers.ts";
import { type RateLimitExceeded, ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { resourceOf } from "../domain/names/text-names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import { checkWait } from "../engine/acquire/request.ts";
import type { Lease } from "../engine/lease/lease.ts";
import { isGivenBack } from "../engine/lease/work-end.ts";
import { checkHeaderOptions, type HeaderForm } from "../engine/refusal/rate-limit-headers.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";

/** The end of a request: the response was sent, the handler threw, or the client left before the end. */
export type RequestOutcome = FinishedRequest | FailedRequest | LeftRequest;

/** The response was handed over to its last byte. */
interface FinishedRequest {
  /** Always `"finished"`. */
  readonly kind: "finished";
  /** The status of the response. */
  readonly status: number;
}

/** The handler threw, or its stream failed. */
interface FailedRequest {
  /** Always `"error"`. */
  readonly kind: "error";
  /** The error that was thrown. */
  readonly error: unknown;
}

/** The client left before the end of the response. */
interface LeftRequest {
  /** Always `"disconnected"`. */
  readonly kind: "disconnected";
}

/** The argument of `onRefused`. */
export interface RefusedRequest {
  /** The limits that refused, and when the request would fit. */
  readonly refusal: RateLimitExceeded;
  /** True where the request went on all the same. */
  readonly shadow: boolean;
  /** The entity that the key became. */
  readonly entityId: string;
  /** The resource. */
  readonly resource: string;
}

/** The argument of `onClosed`. */
export interface ClosedRequest {
  /** The lease, closed. */
  readonly lease: Lease;
  /** The end of the request. */
  readonly outcome: RequestOutcome;
}

/** Options of the middleware of every framework. `In` is what the framework calls a request. Every function may be async. */
export interface RateLimitOptions<In> {
  /** The limiter, or a promise of one: a `RateLimiter` or a `LimiterClient`. */
  readonly limiter: Acquiring | Promise<Acquiring>;
  /**
   * Whose request it is, as any text; `entityIdOf` makes the entity id. Without a text the request is answered with
   * 400 `key_missing`. Default: `ip-` and the client's address as the framework says it, of IPv6 the /64 network.
   */
  readonly key?: (input: In) => MaybePromise<string | null | undefined>;
  /** The resource that the request asks for, as any text; `resourceOf` makes the resource. Default: `"http"`. */
  readonly resource?: string | ((input: In) => MaybePromise<string>);
  /** The limits, in place of the stored ones. Default: the stored limits. */
  readonly limits?: readonly Limit[] | ((input: In) => MaybePromise<readonly Limit[]>);
  /** Whole tokens by measure. Default: 1 of each measure of `limits`; without `limits`, `{ requests: 1 }`. */
  readonly consume?: Tokens | ((input: In) => MaybePromise<Tokens>);
  /**
   * The share of every hard limit that must be left after the request, in percent from 0 to 99: what is kept for requests that
   * leave less. Default: 0.
   */
  readonly leavePercent?: number | ((input: In) => MaybePromise<number>);
  /** The longest wait for tokens before a refusal, in ms. The wait ends when the client leaves. Default: no wait. */
  readonly wait?: { readonly maxMs: number };
  /** True: the request is not limited and has no header fields. Default: never. */
  readonly skip?: (input: In) => MaybePromise<boolean>;
  /**
   * Decides and tells, but never refuses and never waits. What does not fit passes without a lease. Default: `false`.
   */
  readonly shadow?: boolean | ((input: In) => MaybePromise<boolean>);
  /**
   * When tokens are given back: a list, or a function of the outcome. `"error"`: the handler threw, or the status is
   * 500 or above. `"disconnect"`: the client left before the end. Default: `["error"]`.
   */
  readonly giveBackOn?: readonly ("error" | "disconnect")[] | ((outcome: RequestOutcome) => MaybePromise<boolean>);
  /** The header fields that answers have; `false`: none but `Retry-After`. Default: `"draft-10"`. */
  readonly headers?: "draft-10" | "legacy" | "both" | false;
  /**
   * Whose limits stand in header fields and bodies. `"own"`: the caller's; if none of them counts the request, those of
   * the nearest parent. `"all"`: those of all levels. Default: `"own"`.
   */
  readonly levels?: "own" | "all";
  /** The unit of a limit by its name, for the parameter `qu`: `{ tpm: "tokens" }`. Default: none. */
  readonly units?: Readonly<Record<string, string>>;
  /**
   * During an outage of the store: `"block"` answers 503, `"allow"` lets requests pass without a lease. Default: what
   * the limiter says.
   */
  readonly onUnavailable?: "block" | "allow";
  /** Hears of every refusal. What it throws is published on the channel `degraded`. Default: none. */
  readonly onRefused?: (refused: RefusedRequest) => unknown;
  /** Hears of every lease that was closed. What it throws is published on the channel `degraded`. Default: none. */
  readonly onClosed?: (closed: ClosedRequest) => unknown;
}

/** The options, checked; what is the same for all requests is worked out. */
export interface CheckedOptions<In>
  extends Pick<RateLimitOptions<In>, "key" | "wait" | "skip" | "onUnavailable" | "onRefused" | "onClosed"> {
  readonly limiter: Acquiring | Promise<Acquiring>;
  readonly resource: string | ((input: In) => MaybePromise<string>);
  readonly limits: readonly Limit[] | ((input: In) => MaybePromise<readonly Limit[]>) | undefined;
  /** Undefined: 1 of each of the limits that the function answers. */
  readonly consume: Tokens | ((input: In) => MaybePromise<Tokens>) | undefined;
  /** Undefined: nothing must be left. */
  readonly leavePercent: number | ((input: In) => MaybePromise<number>) | undefined;
  readonly shadow: boolean | ((input: In) => MaybePromise<boolean>);
  readonly givesBackOn: (outcome: RequestOutcome) => MaybePromise<boolean>;
  /** True if it matters that the client of an answered request has left. */
  readonly hearsOfLeaving: boolean;
  /** Undefined: no header fields but `Retry-After`. */
  readonly form: HeaderForm | undefined;
  readonly levels: "own" | "all";
}

const NAMES = {
  ...{ limiter: true, key: true, resource: true, limits: true, consume: true, wait: true, skip: true, shadow: true },
  ...{ giveBackOn: true, leavePercent: true, headers: true, levels: true, units: true },
  ...{ onUnavailable: true, onRefused: true, onClosed: true },
} as const satisfies { readonly [Name in keyof RateLimitOptions<never>]-?: true };

/** Crons are checked where limits are made, and by the limiter: a calendar would be half of the bundle. */
const ANY_CRON = { problemOf: () => undefined };

/** Checks the options of a middleware. `further`: names of options that only the framework has. */
export function checkOptions<In>(options: RateLimitOptions<In>, further: readonly string[]): CheckedOptions<In> {
  const also = Object.fromEntries(further.map((name) => [name, true as const]));
  new KnownNames<RateLimitOptions<In>>({ ...NAMES, ...also }).check(options, "The options of rateLimit");
  const { limiter, key, skip, onUnavailable, onRefused, onClosed, wait, limits, consume, headers } = options;
  const { leavePercent, levels = "own", units = {}, shadow = false, resource = "http" } = options;
  checkLimiter(limiter);
  for (const [name, value] of Object.entries({ key, skip, onRefused, onClosed })) requireFunction(name, value);
  const isPolicy = onUnavailable === undefined || onUnavailable === "block" || onUnavailable === "allow";
  requireOption("onUnavailable", onUnavailable, isPolicy, '"block" or "allow"');
  checkWait(wait);
  if (typeof leavePercent !== "function") checkLeave(leavePercent);
  const isMode = typeof shadow === "boolean" || typeof shadow === "function";
  requireOption("shadow", shadow, isMode, "true, false or a function");
  const form = checkHeaderOptions({ levels, units, ...(headers === false ? {} : { headers: headers ?? "draft-10" }) });
  const checkedLimits = typeof limits === "function" || limits === undefined ? limits : checkLimits(limits, ANY_CRON);
  if (typeof consume !== "function" && consume !== undefined) amountsOf(consume, "consume");
  return {
    ...given({ limiter, key, skip, onUnavailable, onRefused, onClosed, levels, shadow, wait, limits: checkedLimits }),
    leavePercent: leavePercent === 0 ? undefined : leavePercent,
    resource: typeof resource === "function" ? resource : resourceOf(resource),
    consume: consume ?? (typeof checkedLimits === "function" ? undefined : costOf(checkedLimits)),
    givesBackOn: givesBackOn(options.giveBackOn ?? ["error"]),
    hearsOfLeaving: options.giveBackOn !== undefined || onClosed !== undefined,
    form: headers === false ? undefined : form,
  } as CheckedOptions<In>;
}

/** The default cost of a request: 1 of each measure of its limits; by stored limits one request, as in every acquire. */
export function costOf(limits: readonly Limit[] | undefined): Tokens {
  if (limits === undefined) return { requests: 1 };
  return Object.fromEntries(measuresOf(limits).map((measure) => [measure, 1]));
}

/** Throws unless an option is a function or left out. */
export function requireFunction(name: string, value: unknown): void {
  requireOption(name, value, value === undefined || typeof value === "function", "a function");
}

function checkLimiter(limiter: unknown): void {
  const { tryAcquire, then } = (limiter ?? {}) as { tryAcquire?: unknown; then?: unknown };
  if (typeof tryAcquire === "function" || typeof then === "function") return;
  throw new ValidationError(
    "limiter_invalid",
    `limiter is ${shown(limiter)}; give a RateLimiter, a LimiterClient, or a promise of one.`,
  );
}

function givesBackOn(on: NonNullable<RateLimitOptions<never>["giveBackOn"]>): CheckedOptions<never>["givesBackOn"] {
  if (typeof on === "function") return on;
  const isList = Array.isArray(on) && on.every((name) => name === "error" || name === "disconnect");
  requireOption("giveBackOn", on, isList, 'a list of "error" and "disconnect", or a function');
  const [onError, onDisconnect] = [on.includes("error"), on.includes("disconnect")];
  return (outcome) => {
    if (outcome.kind === "disconnected") return onDisconnect || isGivenBack("abandoned");
    return onError && isGivenBack(outcome.kind === "error" || outcome.status >= 500 ? "failed" : "answered");
  };
}

/** Throws unless the handler that is limited is a function. */
export function checkWrapped(handler: unknown): void {
  if (typeof handler === "function") return;
  throw new ValidationError(
    "handler_invalid",
    `The first argument of rateLimit is ${shown(handler)}; give the function that answers requests, and the options after it.`,
  );
}
