import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import type { TestContext } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService, type ServiceOptions, type TokenEntry } from "../../src/entry/server.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { conforms } from "./conformity.ts";

export const NS = "/v1/namespaces/default";

/** An answer over HTTP, its body as JSON where it is some. */
export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects to be there.
  readonly body: any;
}

export interface Sent {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly token?: string;
}

/** A client that holds every answer against the OpenAPI document. */
export function clientOf(url: string) {
  return async (method: string, path: string, { body, headers = {}, token }: Sent = {}): Promise<Answered> => {
    const response = await fetch(new URL(path, url), {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const type = response.headers.get("content-type") ?? "";
    const answered = {
      status: response.status,
      headers: response.headers,
      body: /json/.test(type) && !/ndjson/.test(type) && text !== "" ? JSON.parse(text) : text,
    };
    // As it was sent: `..` is taken out of an address before.
    conforms(method, new URL(path, url).pathname, answered);
    return answered;
  };
}

export const LIMITS = [Limit.perMinute("rpm", 100), Limit.perMinute("tpm", 10_000, { burst: 20_000 })];

/** A service in this process, on memory and a simulated clock, with limits on gpt-4; gone with its test. */
export async function serviceOf(t: TestContext, options: ServiceOptions = {}) {
  const clock = new SimulatedClock(1_800_000_000_000);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  await limiter.setResourceDefaults("gpt-4", LIMITS);
  const log: string[] = [];
  const service = await createService({ limiter, log: (line) => log.push(line), ...options });
  const { url, port, close } = await service.listen({ port: 0 });
  t.after(async () => {
    await close();
    await limiter.close();
  });
  return { url, port, close, limiter, clock, service, log, call: clientOf(url) };
}

/** A token and its entry. */
export function tokenOf(id: string, about: Partial<TokenEntry> = {}) {
  const token = `zael_${randomBytes(32).toString("base64url")}`;
  const sha256 = createHash("sha256").update(token).digest("hex");
  const entry: TokenEntry & { readonly sha256: string } = {
    ...{ id, namespaces: "*", scopes: ["acquire", "read", "admin"], ...about },
    sha256,
  };
  return { token, entry };
}

/** Sends bytes as they are; answers what came back until the connection ended, or `until` was there. */
export async function raw(port: number, text: string, until?: RegExp): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(text);
  let said = "";
  for await (const chunk of socket) {
    said += chunk;
    if (until?.test(said)) break;
  }
  socket.destroy();
  return said;
}

export function problem({ status, body, headers }: Answered, expected: number, code: string): void {
  assert.equal(status, expected, JSON.stringify(body));
  assert.equal(body.code, code);
  assert.equal(body.status, expected);
  assert.match(headers.get("content-type") ?? "", /^application\/problem\+json/);
  assert.equal(body.requestId, headers.get("x-request-id"));
  if (expected !== 429) assert.equal(body.type, `urn:zae-limiter:problem:${code}`);
  assert.ok(body.title.length > 0 && body.detail.length > 10, body.detail);
}

/** The events of a stream, one after the other. */
export async function eventsOf(url: string, path: string, headers: Readonly<Record<string, string>> = {}) {
  const leaving = new AbortController();
  const response = await fetch(new URL(path, url), { headers, signal: leaving.signal });
  assert.equal(response.status, 200, await (response.status === 200 ? "" : response.text()));
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const frames: string[] = [];
  /** The next frame as it stands; undefined at the end of the stream. */
  const frame = async (): Promise<string | undefined> => {
    while (frames.length === 0) {
      const { done, value } = await reader.read();
      if (done) return undefined;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop() ?? "";
      frames.push(...parts);
    }
    return frames.shift();
  };
  /** The next event of one of these types, of any where none is given. */
  const next = async (
    ...types: readonly string[]
  ): Promise<{ id: string; event: string; data: Record<string, unknown> } | undefined> => {
    for (;;) {
      const got = await frame();
      if (got === undefined) return undefined;
      const fields = Object.fromEntries(got.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.event !== undefined && (types.length === 0 || types.includes(fields.event))) {
        return { id: fields.id, event: fields.event, data: JSON.parse(fields.data) };
      }
    }
  };
  return { frame, next, response, leave: () => leaving.abort() };
}
