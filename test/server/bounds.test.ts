import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { Inflight } from "../../src/server/inflight.ts";
import { NS, problem, raw, serviceOf } from "./service-kit.ts";

const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 }, holdMs: 0 };
const drain = { ...take, consume: { rpm: 100 } };
const waiting = { ...take, consume: { rpm: 50 }, wait: { maxMs: 30_000 } };

test("a body above the bound is 413, by its length or as it comes, and nothing was done", async (t) => {
  const { call, port, limiter } = await serviceOf(t, { bodyMax: 1_000 });
  const big = JSON.stringify({ id: "a", name: "x".repeat(1_000) });
  problem(await call("POST", `${NS}/entities`, { body: big }), 413, "body_too_large");
  const head = `POST ${NS}/entities HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Type: application/json\r\n`;
  const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n${big.length.toString(16)}\r\n${big}\r\n0\r\n\r\n`;
  assert.match(await raw(port, chunked, /body_too_large/), /^HTTP\/1\.1 413 /);
  // Told at once, before the body is there.
  assert.match(await raw(port, `${head}Content-Length: 1000000\r\n\r\n{`, /body_too_large/), /^HTTP\/1\.1 413 /);
  const small = JSON.stringify({ id: "b" });
  const fits = `${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${small.length.toString(16)}\r\n${small}\r\n0\r\n\r\n`;
  assert.match(await raw(port, fits), /^HTTP\/1\.1 201 /);
  assert.deepEqual(
    (await limiter.listEntities()).map(({ id }) => id),
    ["b"],
  );
});

test("so many requests wait and no more, and those that wait keep nobody from being served", {
  timeout: 60_000,
}, async (t) => {
  const { call, clock } = await serviceOf(t, { inflightMax: 1, waitingMax: 3 });
  await call("POST", `${NS}/acquire`, { body: drain });
  const held: ReturnType<typeof call>[] = [];
  for (let i = 1; i <= 3; i++) {
    held.push(call("POST", `${NS}/acquire`, { body: waiting }));
    while (!new RegExp(`queued_requests\\{[^}]*\\} ${i}$`, "m").test((await call("GET", "/metrics")).body));
  }
  const fourth = await call("POST", `${NS}/acquire`, { body: waiting });
  problem(fourth, 503, "overloaded");
  assert.equal(fourth.headers.get("retry-after"), "1");
  assert.equal((await call("GET", "/v1/me")).status, 200);
  await clock.advance(30_000);
  assert.deepEqual((await Promise.all(held)).map(({ status }) => status).sort(), [200, 429, 429]);
});

async function opened(port: number, text: string): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(text);
  return socket;
}

test("half-sent requests and thousands of connections do not keep others from being served", {
  timeout: 120_000,
}, async (t) => {
  const { call, port } = await serviceOf(t);
  const halves = [
    "",
    "GET / HT",
    `POST ${NS}/acquire HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"entity`,
  ];
  const sockets = await Promise.all(
    // More bodies that never come to their end than requests may be under way.
    Array.from({ length: 3_000 }, (_, i) =>
      opened(port, i % 2 === 1 ? (halves[2] ?? "") : (halves[(i / 2) % 2] ?? "")),
    ),
  );
  for (let i = 0; i < 20; i++) assert.equal((await call("POST", `${NS}/acquire`, { body: take })).status, 200);
  for (const socket of sockets) socket.destroy();
  assert.equal((await call("GET", "/readyz")).status, 200);
});

test("slow clients are ended: headers that do not come, bodies that do not come", { timeout: 120_000 }, async (t) => {
  const { port, call } = await serviceOf(t);
  const startedMs = performance.now();
  const ended = async (text: string) => {
    const socket = await opened(port, text);
    let said = "";
    for await (const chunk of socket) said += chunk;
    return { said, seconds: (performance.now() - startedMs) / 1000 };
  };
  const [silent, headers, body] = await Promise.all([
    ended(""),
    ended("GET / HTTP/1.1\r\nHost: "),
    ended(
      `POST ${NS}/acquire HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{`,
    ),
  ]);
  for (const { said, seconds } of [silent, headers]) {
    assert.ok(seconds >= 9.5 && seconds < body.seconds, `${seconds} s, and ${body.seconds} s for a body`);
    assert.match(said, /^$|^HTTP\/1\.1 408 /);
  }
  assert.ok(body.seconds >= 19.5, `${body.seconds} s`);
  assert.equal((await call("GET", "/v1/me")).status, 200);
});

test("a client that leaves in the middle of its body is no defect", async (t) => {
  const { port, call, log } = await serviceOf(t);
  for (let i = 0; i < 20; i++) {
    const socket = await opened(
      port,
      `POST ${NS}/acquire HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{`,
    );
    socket.resetAndDestroy();
  }
  assert.equal((await call("GET", "/v1/me")).status, 200);
  assert.deepEqual(log, []);
});

test("stopping: who comes anew is told so, what waits goes on, after the drain it is told, and the store is closed last", {
  timeout: 60_000,
}, async (t) => {
  const { call, close, port, limiter, service } = await serviceOf(t, { drainMs: 300, open: true });
  await call("POST", `${NS}/acquire`, { body: drain });
  const held = call("POST", `${NS}/acquire`, { body: waiting });
  while (!/queued_requests\{[^}]*\} 1/.test((await call("GET", "/metrics")).body));
  // A connection that is open already hears that it is over.
  const kept = await opened(port, `GET /healthz HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`);
  await once(kept, "readable");
  kept.read();
  const closing = close();
  const ready = await service.fetch(new Request("http://localhost/readyz"));
  assert.deepEqual([ready.status, ((await ready.json()) as { code: string }).code], [503, "stopping"]);
  assert.equal((await service.fetch(new Request("http://localhost/healthz"))).status, 200);
  assert.equal((await service.fetch(new Request("http://localhost/v1/me"))).status, 503);
  // Probes come over connections of their own.
  problem(await call("GET", "/readyz"), 503, "stopping");
  problem(await call("GET", "/v1/me"), 503, "stopping");
  problem(await held, 503, "stopping");
  await closing;
  await assert.rejects(fetch(`http://127.0.0.1:${port}/healthz`));
  kept.destroy();
  // A limiter that was given stays the caller's.
  assert.equal(await limiter.isAvailable(), true);
  assert.equal((await limiter.available({ entityId: "key-1", resource: "gpt-4" }))[0]?.available, 0);
});

test("an export keeps its place until it has ended, and a stop waits for it", { timeout: 60_000 }, async (t) => {
  const { call, close, port, limiter } = await serviceOf(t, { inflightMax: 1, drainMs: 30_000 });
  let goOn = () => {};
  const gate = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  t.mock.method(limiter, "exportUsage", async function* () {
    for (let i = 0; i < 30; i++) yield "x".repeat(70_000);
    await gate;
    yield "end";
  });
  const path = `http://127.0.0.1:${port}${NS}/usage/export?window=hourly`;
  const left = await fetch(path);
  problem(await call("GET", "/v1/me"), 503, "overloaded");
  await left.body?.cancel();
  while ((await call("GET", "/v1/me")).status === 503);
  const read = await fetch(path);
  const closing = close();
  goOn();
  assert.equal((await read.text()).length, 30 * 70_000 + 3);
  await closing;
});

test("stopping: a request that ends in time is answered as usual", { timeout: 60_000 }, async (t) => {
  const { call, close, clock } = await serviceOf(t, { drainMs: 30_000 });
  await call("POST", `${NS}/acquire`, { body: drain });
  const held = call("POST", `${NS}/acquire`, { body: waiting });
  while (!/queued_requests\{[^}]*\} 1/.test((await call("GET", "/metrics")).body));
  const closing = close();
  await clock.advance(30_000);
  assert.equal((await held).status, 200);
  await closing;
});

test("many requests on one connection, one after the other and all at once, are answered in order", {
  timeout: 60_000,
}, async (t) => {
  const { port } = await serviceOf(t);
  const one = `GET /v1/me HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`;
  const last = `GET /nope HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: close\r\n\r\n`;
  const said = await raw(port, one.repeat(50) + last);
  assert.deepEqual(
    Array.from(said.matchAll(/HTTP\/1\.1 (\d+) /g), ([, status]) => status),
    [...Array(50).fill("200"), "404"],
  );
  const continued = request({
    port,
    host: "127.0.0.1",
    method: "POST",
    path: `${NS}/acquire`,
    headers: { expect: "100-continue", "content-type": "application/json" },
  });
  continued.flushHeaders();
  await once(continued, "continue");
  continued.end(JSON.stringify(take));
  const [answer] = await once(continued, "response");
  assert.equal(answer.statusCode, 200);
  answer.resume();
});

test("an answer that takes too long is 503, and what waits for it is told", { timeout: 60_000 }, async () => {
  const inflight = new Inflight({ inflightMax: 1, waitingMax: 1 }, () => undefined);
  const holder = { token: undefined, namespace: "default" };
  let aborted: unknown;
  const never = inflight.run(1, (underway) => {
    inflight.begin(underway, holder, "plain", 1);
    underway.controller = new AbortController();
    underway.controller.signal.addEventListener("abort", () => {
      aborted = underway.controller?.signal.reason;
    });
    return new Promise(() => {});
  });
  await assert.rejects(never, { code: "overloaded", status: 503 });
  assert.equal((aborted as { code: string }).code, "overloaded");
  // It is still under way, and counts.
  await assert.rejects(
    inflight.run(1, async (underway) => inflight.begin(underway, holder, "plain", 1)),
    { code: "overloaded" },
  );
  inflight.close();
});

test("a store that does not answer: 503, and readyz says so", async (t) => {
  const { call, limiter } = await serviceOf(t);
  await limiter.close();
  problem(await call("GET", "/readyz"), 503, "unavailable");
  assert.equal((await call("GET", "/healthz")).status, 200);
  for (const [method, path, body] of [
    ["GET", `${NS}/entities`, undefined],
    ["POST", `${NS}/acquire`, take],
    ["POST", `${NS}/acquire`, { ...take, holdMs: 5_000 }],
  ] as const) {
    const answer = await call(method, path, body === undefined ? {} : { body });
    problem(answer, 503, "stopping");
    assert.equal(answer.headers.get("retry-after"), "1");
  }
});
