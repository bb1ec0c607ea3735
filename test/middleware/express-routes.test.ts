import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import express, { type Express } from "express";
import { rateLimit } from "../../src/entry/express.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

async function limited(t: TestContext) {
  const limiter = await RateLimiter.open({ store: "memory", clock: new SimulatedClock(1_800_000_000_000) });
  const closed: string[] = [];
  const limits = [Limit.perMinute("rpm", 10)];
  const middleware = rateLimit({
    ...{ limiter, limits, key: () => "key-1", resource: "api" },
    onClosed: ({ outcome, lease }) => closed.push(`${outcome.kind} ${lease.status}`),
  });
  t.after(() => limiter.close());
  const left = async () => (await limiter.available({ entityId: "key-1", resource: "api", limits }))[0]?.available;
  return { middleware, closed, left };
}

async function listening(t: TestContext, app: Express): Promise<string> {
  const server = app.listen(0, "127.0.0.1");
  t.after(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a handler that passes on to the next route is charged once", async (t) => {
  const { middleware, left } = await limited(t);
  const app = express();
  app.get("/", middleware, (_req, _res, next) => next("route"));
  app.get("/", (req, res) => void res.json({ status: req.lease?.status, consumed: req.lease?.consumed }));
  const url = await listening(t, app);
  assert.deepEqual(await (await fetch(url)).json(), { status: "open", consumed: { rpm: 1 } });
  assert.equal(await left(), 9);
});

test("the lease of server-sent events is open until the last of them", async (t) => {
  const { middleware, closed } = await limited(t);
  const app = express();
  const ends: (() => void)[] = [];
  app.get("/", middleware, (_req, res) => {
    res.setHeader("content-type", "text/event-stream");
    res.write("data: 1\n\n");
    ends.push(() => res.end("data: 2\n\n"));
  });
  const url = await listening(t, app);
  const response = await fetch(url);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const { value } = await reader.read();
  assert.equal(new TextDecoder().decode(value), "data: 1\n\n");
  assert.deepEqual(closed, []);
  ends[0]?.();
  let rest = "";
  for (let read = await reader.read(); !read.done; read = await reader.read())
    rest += new TextDecoder().decode(read.value);
  assert.equal(rest, "data: 2\n\n");
  while (closed.length === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(closed, ["finished settled"]);
});

test("on memory a request is decided without a wait: the handler runs in the turn in which it came", async (t) => {
  const { middleware, left, closed } = await limited(t);
  const app = express();
  const turns: string[] = [];
  app.use((req, res, next) => {
    let turn = "the same turn";
    middleware(req, res, (error?: unknown) => {
      turns.push(turn);
      next(error);
    });
    turn = "a later turn";
  });
  app.get("/", (_req, res) => void res.end("hello"));
  const url = await listening(t, app);
  // The first reads whose limits they are, and checks those that were given.
  for (let i = 0; i < 3; i++) assert.equal(await (await fetch(url)).text(), "hello");
  assert.deepEqual(turns, ["a later turn", "the same turn", "the same turn"]);
  assert.equal(await left(), 7);
  assert.deepEqual(closed, Array(3).fill("finished settled"));
});
