import type { Tokens } from "../domain/charge/amounts.ts";
import { measuresOf } from "../domain/charge/measures.ts";
import { checkLeave } from "../domain/limits/floor.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { resourceOf } from "../domain/names/text-names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import { paidBody } from "../engine/lease/work-end.ts";
import { fieldOf } from "./wire-fields.ts";

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
  /** How many percent of every hard limit a call must leave, from 0 to 99. Default: 0. */
  readonly leavePercent?: number;
  /** How long to wait for tokens before refusing, in ms. Default: no wait. */
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
    return {
      ...{ entityId: whose, resource: what },
      ...(tokens === undefined ? {} : { consume: tokens }),
      ...(leavePercent === undefined ? {} : { leavePercent }),
      ...(wait === undefined ? {} : { wait }),
    };
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

/** By which a caller stops a tool: `abortSignal` of the AI SDK, `signal` of LangChain. */
function signalsIn(args: readonly unknown[]): readonly AbortSignal[] {
  const named = args.flatMap((arg) => [arg, fieldOf(arg, "signal"), fieldOf(arg, "abortSignal")]);
  return named.filter((value) => value instanceof AbortSignal);
}

async function valueFor<Value, Args extends readonly unknown[]>(
  given: Value | ((...args: Args) => Value | Promise<Value>),
  args: Args,
): Promise<Value> {
  return typeof given === "function" ? (given as (...args: Args) => Value | Promise<Value>)(...args) : given;
}

/** 1 of every measure that the entity's own limits count; undefined where it has none: only the request itself is then counted. */
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
  const { limiter, entityId, resource, consume, wait } = options;
  const given = limiter as Partial<Acquiring & Promise<unknown>> | null | undefined;
  if (typeof given?.withLease !== "function" && typeof given?.then !== "function") {
    throw invalid("limiter", limiter, "a RateLimiter, a LimiterClient, or a promise of one");
  }
  if (!isText(entityId) && typeof entityId !== "function") throw invalid("entityId", entityId, "an id, or a function");
  if (resource === undefined && fn.name === "") {
    throw new ValidationError(
      "option_invalid",
      'The function that limitTool was given has no name, and no resource is given; give one, as in { resource: "tool:search" }.',
    );
  }
  if (resource !== undefined && !isText(resource) && typeof resource !== "function") {
    throw invalid("resource", resource, "a text, or a function");
  }
  if (consume !== undefined && typeof consume !== "function" && (typeof consume !== "object" || consume === null)) {
    throw invalid("consume", consume, "tokens by measure, or a function");
  }
  checkLeave(options.leavePercent);
  if (wait !== undefined && !(Number.isSafeInteger(wait?.maxMs) && wait.maxMs >= 0)) {
    throw invalid("wait", wait, "{ maxMs } in whole milliseconds");
  }
  return options;
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function invalid(name: string, value: unknown, wanted: string): ValidationError {
  return new ValidationError("option_invalid", `${name} of limitTool is ${shown(value)}; give ${wanted}.`);
}
