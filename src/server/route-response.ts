/** What a route answers: JSON, or bytes of another type. */
export interface RouteResponse {
  readonly status: number;
  /** Becomes JSON; absent with `bytes`, `stream`, and where there is none. */
  readonly body?: unknown;
  readonly bytes?: Uint8Array | string;
  readonly stream?: ReadableStream<Uint8Array>;
  readonly headers?: Readonly<Record<string, string>>;
}

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'";

/** The answer as a response, with the fields that every one has. `own` are those of this request. */
export function responseOf(answer: RouteResponse, own: Readonly<Record<string, string>>): Response {
  const { status, body, bytes, stream, headers } = answer;
  const all: Record<string, string> = {
    "cache-control": "no-store",
    "content-security-policy": CSP,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    ...own,
    ...headers,
  };
  if (body !== undefined) {
    all["content-type"] = status >= 400 ? "application/problem+json" : "application/json";
    return new Response(JSON.stringify(body), { status, headers: all });
  }
  return new Response((bytes as string | undefined) ?? stream ?? null, { status, headers: all });
}
