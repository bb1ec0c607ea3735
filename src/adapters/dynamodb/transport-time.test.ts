import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { answer, closed, deferred, holding, serve } from "../../../test/engines/http-kit.ts";
import type { DynamoClient } from "./client.ts";
import { openTransport, type TransportOptions } from "./transport.ts";

const keys = { accessKeyId: "AKID", secretAccessKey: "secret" };
const LONG = { timeoutMs: 30_000 };
const NOW_MS = Date.UTC(2026, 0, 15, 12);

test("an answer after its time is told to whoever still wants to know, and its connection is used again", async (t) => {
  const { server, url, held } = await holding(t, NOW_MS);
  let connections = 0;
  server.on("connection", () => connections++);
  const client = await open(t, { endpoint: url, connections: 1 });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const sending = client.send("UpdateItem", "slow", { timeoutMs: 500 });
  const response = await held("slow");
  t.mock.timers.tick(499);
  t.mock.timers.tick(1);
  const lost = await sending;
  assert.ok(lost.kind === "lost" && lost.later !== undefined);
  t.mock.timers.tick(9_999);
  answer(response, 200, { Attributes: {} });
  assert.deepEqual(await lost.later, { kind: "answered", body: { Attributes: {} } });
  t.mock.timers.tick(20_000);
  const next = client.send("GetItem", "next", LONG);
  answer(await held("next"), 200, {});
  assert.equal((await next).kind, "answered");
  assert.equal(connections, 1);
});

test("an answer that never comes costs its connection when the grace is over, and is lost for good", async (t) => {
  const { url, held } = await holding(t, NOW_MS);
  const client = await open(t, { endpoint: url, graceMs: 2000 });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const sending = client.send("UpdateItem", "never", { timeoutMs: 500 });
  const response = await held("never");
  t.mock.timers.tick(500);
  const lost = await sending;
  assert.ok(lost.kind === "lost" && lost.later !== undefined);
  const closed = once(response, "close");
  t.mock.timers.tick(2000);
  assert.equal((await lost.later).kind, "lost");
  await closed;
});

test("a request whose time is over while it waits for a connection is unsent, and never sent", async (t) => {
  const { url, held, bodies } = await holding(t, NOW_MS);
  const client = await open(t, { endpoint: url, connections: 1 });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const first = client.send("GetItem", "first", LONG);
  const response = await held("first");
  const second = client.send("UpdateItem", "second", { timeoutMs: 500 });
  t.mock.timers.tick(500);
  assert.equal((await second).kind, "unsent");
  const third = client.send("GetItem", "third", LONG);
  answer(response, 200, {});
  answer(await held("third"), 200, {});
  assert.equal((await first).kind, "answered");
  assert.equal((await third).kind, "answered");
  assert.deepEqual(bodies, ["first", "third"]);
});

test("while a token is replaced the time runs on, and what is then given up is never sent again", async (t) => {
  const { url, held, bodies } = await holding(t, NOW_MS);
  const fresh = deferred<typeof keys>();
  const asked = deferred<void>();
  let asks = 0;
  const client = await open(t, {
    endpoint: url,
    credentials: () => {
      if (asks++ === 0) return Promise.resolve(keys);
      asked.resolve();
      return fresh.promise;
    },
  });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const sending = client.send("UpdateItem", "once", { timeoutMs: 500 });
  answer(await held("once"), 400, { __type: "com.amazon.coral.service#ExpiredTokenException" });
  await asked.promise;
  t.mock.timers.tick(500);
  assert.equal((await sending).kind, "unsent");
  fresh.resolve(keys);
  const next = client.send("UpdateItem", "next", LONG);
  answer(await held("next"), 200, {});
  assert.equal((await next).kind, "answered");
  assert.deepEqual(bodies, ["once", "next"]);
});

test("every answer's Date is told with the stamp taken when its request was written, refusals and late ones too", async (t) => {
  const { url, held } = await holding(t, NOW_MS);
  let stamps = 0;
  const seen: unknown[] = [];
  const client = await open(t, { endpoint: url, stamp: () => ++stamps, onDate: (date) => void seen.push(date) });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const refused = client.send("UpdateItem", "refused", LONG);
  answer(await held("refused"), 400, { __type: "x#ThrottlingException" });
  await refused;
  const late = client.send("UpdateItem", "late", { timeoutMs: 500 });
  const response = await held("late");
  t.mock.timers.tick(500);
  const lost = await late;
  answer(response, 200, {});
  assert.ok(lost.kind === "lost");
  await lost.later;
  assert.deepEqual(seen, [
    { dateMs: NOW_MS, sent: 1 },
    { dateMs: NOW_MS, sent: 2 },
  ]);
});

test("closing waits for those who wait, cuts what is late already, and takes nothing more", async (t) => {
  const { server, url, held } = await holding(t, NOW_MS);
  const client = await open(t, { endpoint: url });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const late = client.send("UpdateItem", "late", { timeoutMs: 500 });
  const waiting = client.send("UpdateItem", "waiting", LONG);
  const [response] = await Promise.all([held("waiting"), held("late")]);
  t.mock.timers.tick(500);
  const lost = await late;
  let isClosed = false;
  const closing = client.close().then(() => {
    isClosed = true;
  });
  assert.equal((await client.send("GetItem", "{}", LONG)).kind, "unsent");
  assert.equal(isClosed, false);
  answer(response, 200, {});
  assert.equal((await waiting).kind, "answered");
  await closing;
  assert.ok(lost.kind === "lost");
  assert.equal((await lost.later)?.kind, "lost");
  await client.close();
  await closed(server);
});

test("a late answer that finds the clock wrong is told as it is: nobody waits for a second attempt", async (t) => {
  const { url, held, bodies } = await holding(t, NOW_MS);
  const client = await open(t, { endpoint: url, now: () => NOW_MS + 3_600_000 });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const sending = client.send("UpdateItem", "late", { timeoutMs: 500 });
  const response = await held("late");
  t.mock.timers.tick(500);
  const lost = await sending;
  answer(response, 400, { __type: "x#InvalidSignatureException" });
  assert.ok(lost.kind === "lost");
  assert.equal((await lost.later)?.kind, "failed");
  await client.close();
  assert.deepEqual(bodies, ["late"]);
});

test("closing also closes connections that were made after the first attempt at them had failed", async (t) => {
  const { server, url } = await serve(t, (_request, response) => answer(response, 200, {}));
  server.keepAliveTimeout = 0;
  const { port } = server.address() as AddressInfo;
  await closed(server);
  const sockets: Socket[] = [];
  server.on("connection", (socket) => sockets.push(socket));
  const client = await open(t, { endpoint: url, connections: 1 });
  let isUp: Promise<unknown> | undefined;
  const calls = Array.from({ length: 300 }, async () => {
    const { kind } = await client.send("GetItem", "{}", LONG);
    isUp ??= once(server.listen(port, "127.0.0.1"), "listening");
    return kind;
  });
  const kinds = new Set(await Promise.all(calls));
  assert.deepEqual(kinds, new Set(["unsent", "answered"]));
  await isUp;
  const gone = sockets.map((socket) => socket.destroyed || once(socket, "close"));
  await client.close();
  await Promise.all(gone);
});

async function open(t: TestContext, options: Partial<TransportOptions>): Promise<DynamoClient> {
  const client = await openTransport({ region: "us-east-1", credentials: keys, now: Date.now, ...options });
  t.after(() => client.close());
  return client;
}
