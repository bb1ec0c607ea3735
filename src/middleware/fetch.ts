import { RateLimitExceeded } from "../domain/names/errors.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { addressOfWorker } from "./fetch-address.ts";
import { Gate } from "./gate.ts";
import { checkHandler, checkOptions, type RateLimitOptions } from "./options.ts";
import { goneResponse, limitedResponse, problemResponse } from "./response.ts";
import { checkWrapped } from "./wrapped.ts";

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
  const gate = new Gate(checkOptions(options, ["handler"]));
  const onRefusal = checkHandler(options.handler);
  return async (request, ...rest) => {
    const arrival = {
      address: () => addressOfWorker(request, rest[0]),
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
        const { error, headers } = decision.answer;
        if (onRefusal === undefined || !(error instanceof RateLimitExceeded)) return problemResponse(decision.answer);
        const { "content-type": _, ...fields } = headers;
        return limitedResponse(await onRefusal(request, error), { isHead, headers: fields }, undefined);
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
