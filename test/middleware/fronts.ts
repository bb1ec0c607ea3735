import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { serve } from "@hono/node-server";
import type { Request as ExpressRequest, Response as ExpressResponse } from "express";
import type { RateLimitExceeded } from "../../src/domain/names/errors.ts";
import type { Lease } from "../../src/engine/lease/lease.ts";
import { rateLimit as expressLimit } from "../../src/entry/express.ts";
import { rateLimit as fastifyLimit } from "../../src/entry/fastify.ts";
import { rateLimit as fetchLimit } from "../../src/entry/fetch.ts";
import { rateLimit as honoLimit } from "../../src/entry/hono.ts";
import { currentLease } from "../../src/entry/index.ts";
import type { RateLimitOptions } from "../../src/middleware/options.ts";

// Every framework, newest and oldest, as the same server: what is promised of one is promised of all.

const newest = createRequire(import.meta.url);
const oldest = createRequire(new URL("../oldest/package.json", import.meta.url));

/** What a handler of the test is given. */
export interface Handled {
  readonly path: string;
  /** The lease at the place of the framework, where it has one. */
  readonly lease: Lease | undefined;
  /** Aborted when the client leaves, by whatever the framework has for it. */
  signal(): AbortSignal;
}

/** What it answers; a list of chunks is streamed. */
export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | AsyncIterable<string>;
}

export type Handle = (handled: Handled) => Promise<Reply>;

/** Options by an abstract request: its header fields. */
export type Options = RateLimitOptions<(name: string) => string | undefined> & {
  readonly handler?: (refusal: RateLimitExceeded) => Reply & { readonly body: string };
  /** A second limiter inside of the first. */
  readonly inner?: Options;
};

export interface Running {
  readonly url: string;
  close(): Promise<void>;
}

export interface Front {
  readonly name: string;
  readonly start: (options: Options, handle: Handle) => Promise<Running>;
}

export const FRONTS: readonly Front[] = [
  { name: "Express 5", start: (options, handle) => express(newest, options, handle) },
  { name: "Express 4.18", start: (options, handle) => express(oldest, options, handle) },
  { name: "Fastify 5", start: (options, handle) => fastify(newest, options, handle) },
  { name: "Fastify 5.0", start: (options, handle) => fastify(oldest, options, handle) },
  { name: "Hono 4", start: (options, handle) => hono(newest, options, handle) },
  { name: "Hono 4.0", start: (options, handle) => hono(oldest, options, handle) },
  { name: "fetch", start: fetchFront },
];

type Header = (name: string) => string | undefined;

/** The options with functions of the framework's own request. */
function translated<In>(options: Options, headerOf: (input: In) => Header): RateLimitOptions<In> {
  const { handler: _, inner: __, ...rest } = options;
  const functions = Object.entries(rest).map(([name, value]) => [
    name,
    typeof value === "function" && ["key", "resource", "limits", "consume", "skip", "shadow"].includes(name)
      ? (input: In) => (value as (header: Header) => unknown)(headerOf(input))
      : value,
  ]);
  return Object.fromEntries(functions) as RateLimitOptions<In>;
}

async function express(load: NodeJS.Require, options: Options, handle: Handle): Promise<Running> {
  const make = load("express") as typeof import("express");
  const app = make();
  for (let each: Options | undefined = options; each !== undefined; each = each.inner) {
    const { handler } = each;
    app.use(
      expressLimit({
        ...translated(each, (req) => (name) => req.get(name)),
        ...(handler && {
          handler: (_req, res, _next, refusal) => {
            const { status = 200, headers = {}, body } = handler(refusal);
            res.status(status).set(headers).send(body);
          },
        }),
      }),
    );
  }
  app.all(load === oldest ? "/found/*" : "/found/*path", async (req, res, next) => {
    try {
      const {
        status = 200,
        headers = {},
        body = "",
      } = await handle({
        ...{ path: req.path, lease: req.lease },
        signal: () => signalOf(res),
      });
      res.status(status).set(headers);
      if (typeof body === "string") res.send(body);
      else
        Readable.from(body)
          .on("error", () => res.destroy())
          .pipe(res);
    } catch (error) {
      next(error);
    }
  });
  // The default answer has the stack, and prints it.
  app.use(
    (error: Error, _req: ExpressRequest, res: ExpressResponse, _next: unknown) =>
      void res.status(500).send(error.message),
  );
  return listening(createServer(app));
}

async function fastify(load: NodeJS.Require, options: Options, handle: Handle): Promise<Running> {
  const make = load("fastify") as typeof import("fastify").fastify;
  const app = make({ forceCloseConnections: true });
  for (let each: Options | undefined = options; each !== undefined; each = each.inner) {
    const { handler } = each;
    await app.register(fastifyLimit, {
      ...translated(
        each,
        (request: { headers: IncomingMessage["headers"] }) => (name) => request.headers[name] as string,
      ),
      ...(handler && {
        handler: (_request, reply, refusal) => {
          const { status = 200, headers = {}, body } = handler(refusal);
          reply.code(status).headers(headers);
          return body;
        },
      }),
    });
  }
  app.route({
    method: ["GET", "HEAD", "OPTIONS", "POST"],
    url: "/found/*",
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const {
        status = 200,
        headers = {},
        body = "",
      } = await handle({
        ...{ path: request.url, lease: request.lease },
        signal: () => signalOf(reply.raw),
      });
      reply.code(status).headers(headers);
      return typeof body === "string" ? body : reply.send(Readable.from(body));
    },
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => app.close() };
}

async function hono(load: NodeJS.Require, options: Options, handle: Handle): Promise<Running> {
  const { Hono } = load("hono") as typeof import("hono");
  const app = new Hono<{ Variables: { lease?: Lease } }>();
  for (let each: Options | undefined = options; each !== undefined; each = each.inner) {
    const { handler } = each;
    app.use(
      "*",
      honoLimit({
        ...translated(each, (c: { req: { header(name: string): string | undefined } }) => (name) => c.req.header(name)),
        ...(handler && {
          handler: (_c, refusal) => {
            const { status = 200, headers = {}, body } = handler(refusal);
            return new Response(body, { status, headers });
          },
        }),
      }),
    );
  }
  app.all("/found/*", async (c) =>
    responseOf(await handle({ path: c.req.path, lease: c.var.lease, signal: () => c.req.raw.signal })),
  );
  app.onError((error) => new Response(error.message, { status: 500 }));
  return honoServer(app.fetch);
}

async function fetchFront(options: Options, handle: Handle): Promise<Running> {
  type Bindings = { readonly incoming: IncomingMessage };
  type Answer = (request: Request, env: Bindings) => Promise<Response>;
  let answer: Answer = async (request) => {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith("/found/")) return new Response("not found", { status: 404 });
    return responseOf(await handle({ path: pathname, lease: currentLease(), signal: () => request.signal }));
  };
  const all: Options[] = [];
  for (let each: Options | undefined = options; each !== undefined; each = each.inner) all.unshift(each);
  for (const each of all) {
    const { handler } = each;
    answer = fetchLimit(answer, {
      ...translated(each, (request: Request) => (name) => request.headers.get(name) ?? undefined),
      ...(handler && {
        handler: (_request: Request, refusal: RateLimitExceeded) => {
          const { status = 200, headers = {}, body } = handler(refusal);
          return new Response(body, { status, headers });
        },
      }),
    });
  }
  // As Deno tells the address.
  return honoServer((request, env) => {
    const { incoming } = env as Bindings;
    const beside = { remoteAddr: { hostname: incoming.socket.remoteAddress } } as unknown as Bindings;
    return answer(request, beside).catch((error: Error) => new Response(error.message, { status: 500 }));
  });
}

function signalOf(response: ServerResponse): AbortSignal {
  const left = new AbortController();
  response.once("close", () => left.abort());
  return left.signal;
}

function responseOf({ status = 200, headers = {}, body = "" }: Reply): Response {
  const stream = typeof body === "string" ? body : Readable.toWeb(Readable.from(body, { objectMode: false }));
  return new Response(status === 204 || status === 304 ? null : (stream as ReadableStream), { status, headers });
}

function honoServer(fetch: (request: Request, env: unknown) => Response | Promise<Response>): Promise<Running> {
  return new Promise((resolve) => {
    const server = serve({ fetch: fetch as never, hostname: "127.0.0.1", port: 0 }, ({ port }) =>
      resolve({ url: `http://127.0.0.1:${port}`, close: () => closed(server as Server) }),
    );
  });
}

async function listening(server: Server): Promise<Running> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => closed(server) };
}

function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}
