import type { NextFunction, Request, RequestHandler, Response } from "express";
import type { RateLimitExceeded } from "../domain/names/errors.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import type { Lease } from "../engine/lease/lease.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { Answer } from "./answer.ts";
import { type Arriving, type Decision, gateWithHandler } from "./gate.ts";
import { onceEnded, signalOf } from "./node-response.ts";
import type { RateLimitOptions } from "./options.ts";

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
  const { gate, handler } = gateWithHandler(options);
  return (req, res, next) => {
    gate.whenDecided(req, new RequestInChain(handler, req, res, next));
  };
}

/** One request on its way through the handlers of an application. */
class RequestInChain implements Arriving {
  readonly #handler: ExpressRateLimitOptions["handler"];
  readonly #req: Request;
  readonly #res: Response;
  readonly #next: NextFunction;

  constructor(handler: ExpressRateLimitOptions["handler"], req: Request, res: Response, next: NextFunction) {
    this.#handler = handler;
    this.#req = req;
    this.#res = res;
    this.#next = next;
  }

  address(): string | undefined {
    return this.#req.ip;
  }

  requestId() {
    return this.#req.headers["x-request-id"];
  }

  signal(): AbortSignal {
    return signalOf(this.#res);
  }

  failed(error: unknown): void {
    this.#next(error);
  }

  proceed(decision: Decision): void {
    const res = this.#res;
    const next = this.#next;
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
        this.#req.lease = lease;
        onceEnded(res, close);
        withCurrentLease(lease, next);
        return;
      }
      case "refused":
        this.#refuse(decision.answer);
        return;
      case "gone":
        // No answer is read.
        return;
    }
  }

  #refuse({ status, headers, fields, problem, refusal }: Answer): void {
    const handler = this.#handler;
    if (handler === undefined || refusal === undefined) {
      setHeaders(this.#res, headers);
      this.#res.status(status).end(JSON.stringify(problem));
      return;
    }
    setHeaders(this.#res, fields);
    (async () => handler(this.#req, this.#res, this.#next, refusal))().catch(this.#next);
  }
}

function setHeaders(res: Response, headers: Readonly<Record<string, string>>): void {
  if (res.headersSent) return;
  for (const name in headers) res.setHeader(name, headers[name] as string);
}
