import { measuresOf, type Tokens } from "../domain/charge/amounts.ts";
import { checkLeave } from "../domain/limits/limit-numbers.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { resourceOf } from "../domain/names/text-names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import { paidBody } from "../engine/lease/work-end.ts";
import { fieldOf, wholeOf } from "./wire-fields.ts";

/** Options of `limitTool`. Functions get the arguments of the call, and may be async. */
export interface LimitToolOptions<Args extends readonly unknown[]> {
  /** A `RateLimiter`, a `LimiterClient`, or a promise of one. */
  readonly limiter: Acquiring | Promise<Acquiring>;
  /** The entity that is charged. */
  readonly entityId: string | ((...args: Args) => string | Promise<string>);
  /** The resource that is charged, any text. Default: `tool:` and the function's name. */
  readonly resource?: string | ((...args: Args) => string | Promise<string>);
  /**
   * Whole tokens by measure. Default: 1 of every measure that the entity's limits on the resource count; they are
   * looked up for each call.
   */
  readonly consume?: Tokens | ((...args: Args) => Tokens | Promise<Tokens>);
  /** The share of every hard limit that a call must leave, in percent from 0 to 99. Default: 0. */
  readonly leavePercent?: number;
  /** The longest wait for tokens before a refusal, in ms. Default: no wait. */
  readonly wait?: { readonly maxMs: number };
}

const OPTIONS = new KnownNames<LimitToolOptions<never>>({
  ...{ limiter: true, entityId: true, resource: true, consume: true, leavePercent: true, wait: true },
});

/**
 * Limits any async function, such as the `execute` of a tool: the same arguments and the same result. A call that is
 * refused throws `RateLimitExceeded` and does not run; one that throws gives its tokens back, unless it was aborted.
 *
 * ```ts
 * const search = limitTool(searchTheWeb, { limiter, entityId: "key-1", consume: { calls: 1 } });
 * const pages = await search("token buckets");
 * ```
 */
export function limitTool<Args extends readonly unknown[], Result>(
  fn: (...args: Args) => Result | Promise<Result>,
  options: LimitToolOptions<Args>,
): (...args: Args) => Promise<Result> {
  const { limiter, entityId, resource, consume, leavePercent, wait } = checkOptions(fn, options);
  const requestFor = async (from: Acquiring, args: Args): Promise<AcquireRequest> => {
    const whose = await valueFor(entityId, args);
    const what = resourceOf(resource === undefined ? `tool:${fn.name}` : await valueFor(resource, args));
    const tokens = consume === undefined ? await oneOfEach(from, whose, what) : await valueFor(consume, args);
    return given({ entityId: whose, resource: what, consume: tokens, leavePercent, wait });
  };
  async function limited(this: unknown, ...args: Args): Promise<Result> {
    const from = await limiter;
    return from.withLease(await requestFor(from, args), (lease) =>
      withCurrentLease(lease, () =>
        paidBody(lease, signalsIn(args), () => fn.apply(this, args as unknown as Args & unknown[])),
      ),
    );
  }
  // Frameworks list a tool by the name of its function.
  return Object.defineProperty(limited, "name", { value: fn.name });
}

/** The signals that stop a tool: `abortSignal` of the AI SDK, `signal` of LangChain. */
function signalsIn(args: readonly unknown[]): readonly AbortSignal[] {
  const named = args.flatMap((arg) => [arg, fieldOf(arg, "signal"), fieldOf(arg, "abortSignal")]);
  return named.filter((value) => value instanceof AbortSignal);
}

async function valueFor<Value, Args extends readonly unknown[]>(
  option: Value | ((...args: Args) => Value | Promise<Value>),
  args: Args,
): Promise<Value> {
  return typeof option === "function" ? (option as (...args: Args) => Value | Promise<Value>)(...args) : option;
}

/** Returns 1 of every measure that the entity's own limits count. Without limits it is undefined, and only the request is counted. */
export async function oneOfEach(limiter: Acquiring, entityId: string, resource: string): Promise<Tokens | undefined> {
  const { limits } = await limiter.resolveLimits(entityId, resource);
  return limits.length === 0 ? undefined : Object.fromEntries(measuresOf(limits).map((measure) => [measure, 1]));
}

function checkOptions<Args extends readonly unknown[]>(
  fn: unknown,
  options: LimitToolOptions<Args>,
): LimitToolOptions<Args> {
  if (typeof fn !== "function") {
    throw new ValidationError("tool_invalid", `limitTool was given ${shown(fn)}; give the function of the tool.`);
  }
  OPTIONS.check(options as LimitToolOptions<never>, "The options of limitTool");
  checkToolOptions(options as LimitToolOptions<never>, "limitTool", "an id, or a function");
  if (options.resource !== undefined || fn.name !== "") return options;
  throw new ValidationError(
    "option_invalid",
    'The function that limitTool was given has no name, and no resource is given; give one, as in { resource: "tool:search" }.',
  );
}

/** Throws unless the options that `limitTool` and `limitTools` share can be used. `idWanted`: what an entity id may be. */
export function checkToolOptions(
  {
    limiter,
    entityId,
    resource,
    consume,
    leavePercent,
    wait,
  }: { readonly [Name in keyof LimitToolOptions<never>]: unknown },
  tool: "limitTool" | "limitTools",
  idWanted: string,
): void {
  const check = (name: string, value: unknown, isValid: boolean, wanted: string): void =>
    requireOption(`${name} of ${tool}`, value, isValid, wanted);
  const isLimiter = [fieldOf(limiter, "withLease"), fieldOf(limiter, "then")].some(
    (each) => typeof each === "function",
  );
  const isTokens = typeof consume === "function" || (typeof consume === "object" && consume !== null);
  check("limiter", limiter, isLimiter, "a RateLimiter, a LimiterClient, or a promise of one");
  check("entityId", entityId, isTextOrFunction(entityId), idWanted);
  check("resource", resource, resource === undefined || isTextOrFunction(resource), "a text, or a function");
  check("consume", consume, consume === undefined || isTokens, "tokens by measure, or a function");
  checkLeave(leavePercent);
  const isWait = wholeOf(fieldOf(wait, "maxMs")) !== undefined;
  check("wait", wait, wait === undefined || isWait, "{ maxMs } in whole milliseconds");
}

function isTextOrFunction(value: unknown): boolean {
  return typeof value === "function" || (typeof value === "string" && value !== "");
}
