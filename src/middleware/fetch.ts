import type { RateLimitExceeded } from "../domain/names/errors.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { addressOfWorker } from "./client-address.ts";
import { gateWithHandler } from "./gate.ts";
import { checkWrapped, type RateLimitOptions } from "./options.ts";
import { goneResponse, limitedResponse, problemResponse } from "./response.ts";

/** Options of `rateLimit` for handlers of the web platform. */
export interface FetchRateLimitOptions<In extends Request = Request> extends RateLimitOptions<In> {
  /** Answers a refusal; the response gets the header fields that it does not have. Default: 429 with a problem. */
  readonly handler?: (request: In, refusal: RateLimitExceeded) => MaybePromise<Response>;
}

/**
 * Limits a function that makes a `Response` of a `Request`: route handlers of Next, loaders of Remix, `Bun.serve`,
 * `Deno.serve`, workers. Further arguments are passed on. The lease is `currentLease()` and closes with the end of the
 * response's body.
 *
 * ```ts
 * export const POST = rateLimit(async (request) => Response.json(await reply(request)), { limiter, limits, key });
 * ```
 */
export function rateLimit<In extends Request = Request, Rest extends unknown[] = unknown[]>(
  handler: (request: In, ...rest: Rest) => MaybePromise<Response>,
  options: FetchRateLimitOptions<In>,
): (request: In, ...rest: Rest) => Promise<Response> {
  checkWrapped(handler);
  const { gate, handler: onRefusal } = gateWithHandler(options);
  return async (request, ...rest) => {
    const arrival = {
      address: () => addressOfWorker(request, rest[0]),
      requestId: () => request.headers.get("x-request-id"),
      signal: () => request.signal,
      hasLeft: () => request.signal.aborted,
    };
    const decision = await gate.decide(request, arrival);
    const isHead = request.method === "HEAD";
    switch (decision.kind) {
      case "skipped":
        return handler(request, ...rest);
      case "gone":
        return goneResponse();
      case "passed":
        return limitedResponse(await handler(request, ...rest), { isHead, headers: decision.headers }, undefined);
      case "refused": {
        const { refusal, fields } = decision.answer;
        if (onRefusal === undefined || refusal === undefined) return problemResponse(decision.answer);
        return limitedResponse(await onRefusal(request, refusal), { isHead, headers: fields }, undefined);
      }
      case "granted": {
        const { lease, headers, close } = decision;
        try {
          const response = await withCurrentLease(lease, () => handler(request, ...rest));
          return limitedResponse(response, { isHead, headers }, close);
        } catch (error) {
          await close({ kind: "error", error });
          throw error;
        }
      }
    }
  };
}
