import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { crc32 } from "node:zlib";

// Real servers on localhost for tests of what talks HTTP; gone with their test.

export async function serve(t: TestContext, listener: RequestListener): Promise<{ server: Server; url: string }> {
  const server = createServer(listener);
  return { server, url: `http://127.0.0.1:${await listening(t, server)}` };
}

/** Its port. */
export async function listening(t: TestContext, server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Resolves when no connection is left. */
export function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** A server that answers only when told: `held` resolves once a request with that body has arrived. */
export async function holding(t: TestContext, dateMs: number) {
  const bodies: string[] = [];
  const slots = new Map<string, Deferred<ServerResponse>>();
  const slot = (body: string): Deferred<ServerResponse> => {
    const made = slots.get(body) ?? deferred<ServerResponse>();
    slots.set(body, made);
    return made;
  };
  const served = await serve(t, async (request, response) => {
    response.setHeader("date", new Date(dateMs).toUTCString());
    const body = await text(request);
    bodies.push(body);
    slot(body).resolve(response);
  });
  return { ...served, bodies, held: (body: string) => slot(body).promise };
}

export async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** Answers as DynamoDB does. */
export function answer(response: ServerResponse, status: number, body: object): void {
  const bytes = Buffer.from(JSON.stringify(body));
  response.writeHead(status, { "content-type": "application/x-amz-json-1.0", "x-amz-crc32": crc32(bytes) }).end(bytes);
}

export interface Deferred<Value> {
  readonly promise: Promise<Value>;
  resolve(value: Value): void;
}

export function deferred<Value>(): Deferred<Value> {
  let resolve: (value: Value) => void = () => {};
  const promise = new Promise<Value>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
