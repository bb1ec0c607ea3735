import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { endOfUnanswered } from "../engine/lease/work-end.ts";
import { type HeaderForm, headersOf } from "../engine/refusal/rate-limit-headers.ts";
import type { LimitedCall } from "../llm/limited-call.ts";
import type { LimitedCalls } from "../llm/limited-calls.ts";
import { passLimited, refusalOf } from "../llm/limited-http.ts";
import { OPENAI_WIRE } from "../llm/openai.ts";
import { type PoolSlot, SharedPool } from "../server/inflight.ts";
import { bound, serverWith } from "../server/listening.ts";
import { nameInHost } from "../server/origin-guard.ts";
import type { TlsFiles } from "../server/tls-files.ts";
import type { TokenEntry } from "../server/tokens.ts";
import { fieldsToCaller, fieldsToProvider, type Provider, type Route, routeOf, tokenOf } from "./forwarding.ts";
import { ProviderConnections, ProviderFault } from "./provider-request.ts";

/** The tokens that are valid now. */
export interface ProxyTokens {
  find(token: string): TokenEntry | undefined;
  /** Their number, for shares of what may be under way. */
  readonly count: number | undefined;
}

interface ProxyParts {
  readonly providers: ReadonlyMap<string, Provider>;
  readonly tokens: ProxyTokens;
  readonly callsOf: (caller: TokenEntry) => LimitedCalls;
  /** The metrics of some namespaces; undefined: a service has them. */
  readonly metrics: ((namespaces: TokenEntry["namespaces"]) => string) | undefined;
  readonly bodyMax: number;
  readonly inflightMax: number;
  readonly providerTimeoutMs: number;
  readonly drainMs: number;
  readonly log: (line: string) => void;
}

export interface ListeningProxy {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Takes nobody new, and waits for calls under way, at most `drainMs`. Those that are left then are settled by what has come. */
  close(): Promise<void>;
}

/** Listens for calls, and sends on those that the limits let through. */
export async function listenProxy(
  parts: ProxyParts,
  { host, port, tls }: { readonly host: string; readonly port: number; readonly tls: TlsFiles | undefined },
): Promise<ListeningProxy> {
  const proxy = new ModelProxy(parts);
  const { server, unwatch } = serverWith(SERVER_OPTIONS, tls, parts.log);
  server.on("request", proxy.listener);
  await bound(server, host, port);
  const actual = (server.address() as AddressInfo).port;
  return {
    ...{ url: `${tls === undefined ? "http" : "https"}://${nameInHost(host)}:${actual}/`, host, port: actual },
    async close() {
      unwatch();
      const gone = new Promise<void>((resolve) => server.close(() => resolve()));
      await proxy.drain();
      server.closeAllConnections();
      await gone;
    },
  };
}

/** Proxies in front of this one keep their connections for a shorter time, so that it is they who close them. A request has its body. */
const SERVER_OPTIONS = { keepAliveTimeout: 75_000, requestTimeout: 300_000 };
/** A caller that takes nothing of its answer for so long has left. */
const STALLED_MS = 600_000;

const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const FORM: HeaderForm = { headers: "draft-10", levels: "own", units: new Map() };

/** An answer of the proxy itself. */
class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly fields: Readonly<Record<string, string>>;

  constructor(status: number, code: string, detail: string, fields: Readonly<Record<string, string>> = {}) {
    super(detail);
    this.status = status;
    this.code = code;
    this.fields = fields;
  }
}

class ModelProxy {
  readonly #parts: ProxyParts;
  readonly #pool: SharedPool;
  readonly #connections: ProviderConnections;
  readonly #underWay = new Map<Promise<void>, AbortController>();
  #isDraining = false;

  constructor(parts: ProxyParts) {
    this.#parts = parts;
    this.#pool = new SharedPool(parts.inflightMax, () => parts.tokens.count);
    this.#connections = new ProviderConnections(parts.providerTimeoutMs);
  }

  readonly listener = (request: IncomingMessage, response: ServerResponse): void => {
    const leaving = new AbortController();
    response.on("close", () => leaving.abort(new Error("The caller has left.")));
    const answered = this.#answer(request, response, leaving.signal).finally(() => this.#underWay.delete(answered));
    this.#underWay.set(answered, leaving);
  };

  async drain(): Promise<void> {
    this.#isDraining = true;
    const all = Promise.all(this.#underWay.keys());
    const timer = setTimeout(() => {
      for (const leaving of this.#underWay.values()) leaving.abort(new Error("The proxy has stopped."));
    }, this.#parts.drainMs);
    await all;
    clearTimeout(timer);
    this.#connections.close();
  }

  /** Never rejects. */
  async #answer(request: IncomingMessage, response: ServerResponse, leaving: AbortSignal): Promise<void> {
    const { method = "GET", url = "/" } = request;
    const probe = method === "GET" ? this.#probed(url) : undefined;
    if (probe !== undefined) return send(response, probe, {}, { status: probe === 200 ? "ok" : "stopping" });
    const route = routeOf(method, url, this.#parts.providers);
    const metrics = method === "GET" && url === "/metrics" ? this.#parts.metrics : undefined;
    let slot: PoolSlot | undefined;
    try {
      const caller = this.#caller(request, metrics === undefined ? "proxy" : "read");
      if (metrics !== undefined) {
        response.writeHead(200, { "content-type": METRICS_TYPE }).end(metrics(caller.namespaces));
        return;
      }
      slot = this.#slot(caller);
      if (route.kind === "none") throw unmetered(method, url, route, this.#parts.providers);
      await this.#pass(request, response, { route, caller, leaving });
    } catch (error) {
      if (response.headersSent || leaving.aborted) response.destroy();
      else this.#refuse(response, error, route);
    } finally {
      slot?.release();
    }
  }

  #probed(url: string): number | undefined {
    if (url === "/healthz") return 200;
    if (url === "/readyz") return this.#isDraining ? 503 : 200;
    return undefined;
  }

  #caller(request: IncomingMessage, scope: "proxy" | "read"): TokenEntry {
    const token = tokenOf(request.headers);
    if (token === undefined) {
      throw new Refusal(401, "token_missing", "There is no token; send it as the API key of your client.");
    }
    const caller = this.#parts.tokens.find(token);
    if (caller === undefined) throw new Refusal(401, "token_unknown", "The token is not known, or has expired.");
    if (caller.scopes.includes(scope)) return caller;
    throw new Refusal(403, "insufficient_scope", `The token ${caller.id} lacks the scope ${scope}.`);
  }

  #slot({ id, namespaces }: TokenEntry): PoolSlot {
    const soon = { "retry-after": "1" };
    if (this.#isDraining) {
      throw new Refusal(503, "stopping", "The proxy stops; try again.", { ...soon, connection: "close" });
    }
    const slot = this.#pool.take({ token: id, namespace: String(namespaces[0]) });
    if (slot !== undefined) return slot;
    throw new Refusal(503, "overloaded", "Too many calls are under way; try again.", soon);
  }

  async #pass(
    request: IncomingMessage,
    response: ServerResponse,
    { route, caller, leaving }: { route: Exclude<Route, { kind: "none" }>; caller: TokenEntry; leaving: AbortSignal },
  ): Promise<void> {
    const { kind, provider, target } = route;
    const { method = "GET" } = request;
    const given = await bodyOf(request, this.#parts.bodyMax);
    const fields = fieldsToProvider(request.headers, provider);
    const sendOn = (body: string | Uint8Array | undefined) =>
      this.#connections.send({ target, method, fields, body, signal: leaving });
    let ofLimits: Readonly<Record<string, string>> = {};
    let answer: Response;
    if (kind === "unmetered") answer = await sendOn(given.length === 0 ? undefined : given);
    else {
      const params = paramsOf(given);
      if (params.background === true) throw answeredLater();
      answer = await passLimited(this.#parts.callsOf(caller), provider.wire, {
        ...{ pathname: target.pathname, params, entityId: undefined, isFixed: false, signal: leaving },
        send: (body) => sendOn(body ?? given),
        endOf: (error) => (error instanceof ProviderFault ? error.end : endOfUnanswered(error)),
        admitted: (call) => {
          ofLimits = fieldsOf(call);
        },
        passOn: (bytes) => bytes,
      });
    }
    const refusal = refusalOf(answer);
    if (refusal !== undefined) ofLimits = headersOf(refusal, FORM);
    else if (answer.status === 401 || answer.status === 403) {
      await answer.body?.cancel();
      this.#parts.log(`The provider ${provider.name} refused its key: ${answer.status}.`);
      throw new Refusal(502, "provider_key_refused", `The provider ${provider.name} refused the key of the proxy.`);
    }
    await passOn(answer, response, fieldsToCaller(answer.headers, ofLimits), leaving);
  }

  #refuse(response: ServerResponse, error: unknown, { provider }: Route): void {
    const wire = provider?.wire ?? OPENAI_WIRE;
    const { status, code, fields, detail } = refusedBy(error);
    if (error instanceof ProviderFault) {
      const { cause } = error;
      const why = cause instanceof Error ? ` ${cause.message}.` : "";
      this.#parts.log(`Provider ${provider?.name}: ${error.message}${why}`);
    }
    if (status === 500) this.#parts.log(`A call failed: ${error instanceof Error ? error.stack : error}`);
    send(response, status, fields, wire.errorBody({ status, code, detail }));
  }
}

function refusedBy(error: unknown): {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly fields: Readonly<Record<string, string>>;
} {
  if (error instanceof Refusal) {
    const { status, code, message: detail, fields } = error;
    return { status, code, detail, fields };
  }
  if (error instanceof ProviderFault) {
    const { status, code, message: detail } = error;
    return { status, code, detail, fields: {} };
  }
  return { status: 500, code: "internal", detail: "The proxy failed; this is a defect of it.", fields: {} };
}

/** The header fields of the caller's own limits. */
function fieldsOf({ lease }: LimitedCall): Readonly<Record<string, string>> {
  return lease === undefined ? {} : headersOf(lease, FORM);
}

function unmetered(
  method: string,
  url: string,
  { provider }: Route,
  providers: ReadonlyMap<string, Provider>,
): Refusal {
  const path = url.split("?", 1)[0];
  const known = [...providers.keys()].map((name) => `/${name}`).join(", ");
  const detail =
    provider === undefined
      ? `No provider is at ${path}; there is ${known}.`
      : `${method} ${path} is not metered, so it is not sent; whoever runs the proxy may allow it for ${provider.name}.`;
  return new Refusal(404, "route_unmetered", detail);
}

/** Its answer is fetched by another request, which nobody meters. */
function answeredLater(): Refusal {
  const detail = "A call in the background is answered later, where its usage is not seen; leave out background.";
  return new Refusal(400, "background_unmetered", detail);
}

async function bodyOf(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const { "content-length": length, "content-encoding": encoding = "identity" } = request.headers;
  if (encoding !== "identity") {
    throw new Refusal(415, "content_encoding_unsupported", `The body is ${encoding}; send it uncompressed.`);
  }
  const tooLarge = () =>
    new Refusal(413, "body_too_large", `The body has more than ${bytesMax} bytes.`, { connection: "close" });
  if (Number(length ?? 0) > bytesMax) throw tooLarge();
  const parts: Buffer[] = [];
  let size = 0;
  // The connection stays open, for the answer.
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    size += (part as Buffer).length;
    if (size > bytesMax) throw tooLarge();
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts);
}

function paramsOf(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const params: unknown = JSON.parse(body.toString("utf8"));
    if (typeof params === "object" && params !== null && !Array.isArray(params)) {
      return params as Readonly<Record<string, unknown>>;
    }
  } catch {
    // Text that is no JSON gets the answer of JSON that is no object.
  }
  throw new Refusal(400, "body_invalid", "The body is no JSON object.");
}

function send(response: ServerResponse, status: number, fields: Readonly<Record<string, string>>, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json", ...fields });
  response.end(JSON.stringify(body));
}

/** Passes an answer on, chunk by chunk: the provider is read as fast as the caller reads. */
async function passOn(
  answer: Response,
  response: ServerResponse,
  fields: Record<string, string>,
  leaving: AbortSignal,
): Promise<void> {
  response.writeHead(answer.status, fields);
  if (answer.body === null) {
    response.end();
    return;
  }
  response.flushHeaders();
  const reader = answer.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!response.write(value)) await room(response, leaving);
    }
  } catch (error) {
    await reader.cancel(error).catch(() => {});
    throw error;
  }
  response.end();
}

/** Waits until the caller has taken what was written. */
function room(response: ServerResponse, leaving: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), STALLED_MS);
    const go = () => {
      clearTimeout(timer);
      response.off("drain", go);
      leaving.removeEventListener("abort", go);
      resolve();
    };
    response.on("drain", go);
    leaving.addEventListener("abort", go, { once: true });
    if (leaving.aborted) go();
  });
}
