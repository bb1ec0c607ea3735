/** Methods and request fields that a page of an allowed origin may use. There are no credentials: tokens are sent as a field. */
const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE";
const FIELDS = "authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, x-request-id";
const READABLE =
  "etag, idempotency-replayed, location, ratelimit, ratelimit-policy, retry-after, x-request-id, zael-changed";

/** What lets a page of this origin read an answer. */
export function corsFields(origin: string): Readonly<Record<string, string>> {
  return { "access-control-allow-origin": origin, "access-control-expose-headers": READABLE, vary: "Origin" };
}

/** The answer to a preflight of an allowed origin. */
export function preflightFields(origin: string): Readonly<Record<string, string>> {
  return {
    "access-control-allow-origin": origin,
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": FIELDS,
    "access-control-max-age": "600",
    vary: "Origin",
  };
}
