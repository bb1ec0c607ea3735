import type { Context, Env, MiddlewareHandler } from "hono";
import type { RateLimitExceeded } from "../domain/names/errors.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import type { Lease } from "../engine/lease/lease.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { addressOfWorker } from "./client-address.ts";
import { gateWithHandler } from "./gate.ts";
import type { RateLimitOptions, RequestOutcome } from "./options.ts";
import { goneResponse, limitedResponse, problemResponse } from "./response.ts";

/** The variables that the middleware sets in the context. */
export interface HonoRateLimitEnv extends Env {
  /** Where the lease is. */
  readonly Variables: {
    /** The lease of the request. Absent where it was not limited, and where it passed without one. */
    lease?: Lease;
  };
}

/** Options of `rateLimit` for Hono. */
export interface HonoRateLimitOptions extends RateLimitOptions<Context> {
  /** Answers a refusal; header fields are set already. Default: 429 with a problem. */
  readonly handler?: (c: Context, refusal: RateLimitExceeded) => MaybePromise<Response>;
}

/**
 * Limits the requests of a Hono application, on every runtime. The lease is at `c.var.lease` and closes with the end of
 * the response's body.
 *
 * ```ts
 * app.use("/chat", rateLimit({ limiter, limits: [Limit.perMinute("rpm", 60)], key: (c) => c.req.header("x-api-key") }));
 * ```
 */
export function rateLimit(options: HonoRateLimitOptions): MiddlewareHandler<HonoRateLimitEnv> {
  const { gate, handler } = gateWithHandler(options);
  return async (c, next) => {
    const { raw } = c.req;
    const arrival = {
      address: () => addressOf(c),
      requestId: () => raw.headers.get("x-request-id"),
      signal: () => raw.signal,
      hasLeft: () => raw.signal.aborted,
    };
    const decision = await gate.decide(c, arrival);
    switch (decision.kind) {
      case "skipped":
        return next();
      case "gone":
        return goneResponse();
      case "passed":
        await next();
        return answer(c, decision.headers, undefined);
      case "refused": {
        const { refusal, fields } = decision.answer;
        if (handler === undefined || refusal === undefined) return problemResponse(decision.answer);
        for (const name in fields) c.header(name, fields[name]);
        return limitedResponse(await handler(c, refusal), { isHead: false, headers: fields }, undefined);
      }
      case "granted": {
        const { lease, headers, close } = decision;
        c.set("lease", lease);
        try {
          await withCurrentLease(lease, () => next());
        } catch (error) {
          await close({ kind: "error", error });
          throw error;
        }
        // An error that the application answered with less than 500 is an answer like others.
        if (c.error !== undefined && c.res.status >= 500) await close({ kind: "error", error: c.error });
        answer(c, headers, close);
      }
    }
  };
}

/** Puts the fields on the response of the context, and `close` at the end of its body. */
function answer(
  c: Context,
  headers: Readonly<Record<string, string>>,
  close: ((outcome: RequestOutcome) => Promise<void>) | undefined,
): void {
  const response = limitedResponse(c.res, { isHead: c.req.method === "HEAD", headers }, close);
  if (response === c.res) return;
  // Without this, Hono would mix the fields of both responses.
  c.res = undefined;
  c.res = response;
}

/** The environment that servers give to Hono. */
interface ServerEnv {
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } };
  readonly requestContext?: {
    readonly http?: { readonly sourceIp?: string };
    readonly identity?: { readonly sourceIp?: string };
  };
  readonly server?: ServerEnv;
}

/** The client's address on Node, Bun, Deno, Lambda and Cloudflare. */
function addressOf(c: Context): string | undefined {
  const env = c.env as ServerEnv | undefined;
  const { incoming, requestContext } = env?.server ?? env ?? {};
  return (
    incoming?.socket?.remoteAddress ??
    requestContext?.http?.sourceIp ??
    requestContext?.identity?.sourceIp ??
    addressOfWorker(c.req.raw, env?.server ?? env)
  );
}
