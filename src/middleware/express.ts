import type { NextFunction, Request, RequestHandler, Response } from "express";
import { RateLimitExceeded } from "../domain/errors.ts";
import { withCurrentLease } from "../engine/current-lease.ts";
import type { Lease } from "../engine/lease.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { type Decision, Gate } from "./gate.ts";
import { onceEnded, signalOf } from "./node-response.ts";
import { checkHandler, checkOptions, type RateLimitOptions } from "./options.ts";

declare global {
  namespace Express {
    interface Request {
      /** The lease of the request. Absent where it was not limited, and where it passed without one. */
      lease?: Lease;
    }
  }
}

/** Options of `rateLimit` for Express. */
export interface ExpressRateLimitOptions extends RateLimitOptions<Request> {
  /** Answers a refusal; header fields are set already. Default: 429 with a problem. */
  readonly handler?: (
    req: Request,
    res: Response,
    next: NextFunction,
    refusal: RateLimitExceeded,
  ) => MaybePromise<void>;
}

/**
 * Limits the requests of an Express application. The lease is at `req.lease` and closes with the response.
 *
 * ```ts
 * app.use("/chat", rateLimit({ limiter, limits: [Limit.perMinute("rpm", 60)], key: (req) => req.get("x-api-key") }));
 * ```
 */
export function rateLimit(options: ExpressRateLimitOptions): RequestHandler {
  const gate = new Gate(checkOptions(options, ["handler"]));
  const handler = checkHandler(options.handler);
  return (req, res, next) => {
    const arrival = { address: () => req.ip, signal: () => signalOf(res) };
    gate.whenDecided(req, arrival, (decision) => proceed(decision, handler, { req, res, next }), next);
  };
}

function proceed(
  decision: Decision,
  handler: ExpressRateLimitOptions["handler"],
  { req, res, next }: { readonly req: Request; readonly res: Response; readonly next: NextFunction },
): void {
  switch (decision.kind) {
    case "skipped":
      next();
      return;
    case "passed":
      setHeaders(res, decision.headers);
      next();
      return;
    case "granted": {
      const { lease, headers, close } = decision;
      setHeaders(res, headers);
      req.lease = lease;
      onceEnded(res, close, () => undefined);
      withCurrentLease(lease, () => next());
      return;
    }
    case "refused": {
      const { status, headers, problem, error } = decision.answer;
      if (handler !== undefined && error instanceof RateLimitExceeded) {
        const { "content-type": _, ...fields } = headers;
        setHeaders(res, fields);
        (async () => handler(req, res, next, error))().catch(next);
        return;
      }
      setHeaders(res, headers);
      res.status(status).end(JSON.stringify(problem));
      return;
    }
    case "gone":
      // Nobody reads an answer.
      return;
  }
}

function setHeaders(res: Response, headers: Readonly<Record<string, string>>): void {
  if (res.headersSent) return;
  for (const name in headers) res.setHeader(name, headers[name] as string);
}
