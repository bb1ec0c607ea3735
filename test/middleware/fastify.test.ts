import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, constants } from "node:http2";
import { createRequire } from "node:module";
import { type TestContext, test } from "node:test";
import { type FastifyRateLimitOptions, rateLimit } from "../../src/entry/fastify.ts";
import { currentLease, Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/entry/testing.ts";

const VERSIONS = [
  ["Fastify 5", createRequire(import.meta.url)],
  ["Fastify 5.0", createRequire(new URL("../oldest/package.json", import.meta.url))],
] as const;

const limits = [Limit.perMinute("rpm", 10)];

async function made(t: TestContext, load: NodeJS.Require, given: Partial<FastifyRateLimitOptions>) {
  const limiter = await RateLimiter.open({ store: "memory", clock: new SimulatedClock(0) });
  const { fastify } = load("fastify") as typeof import("fastify");
  const app = fastify({ forceCloseConnections: true });
  t.after(() => app.close());
  await app.register(rateLimit, { limiter, limits, key: () => "key-1", ...given });
  const left = async (resource = "http") => {
    const [rpm] = await limiter.available({ entityId: "key-1", resource, limits });
    return rpm?.available;
  };
  const listen = () => app.listen({ host: "127.0.0.1", port: 0 });
  return { app, left, listen };
}

for (const [name, load] of VERSIONS) {
  test(`${name}: a route has options of its own, or none`, async (t) => {
    const { app, left, listen } = await made(t, load, {});
    app.get("/plain", () => "plain");
    app.get("/free", { config: { rateLimit: false } }, () => "free");
    app.get("/dear", { config: { rateLimit: { resource: "dear", consume: { rpm: 4 } } } }, () => "dear");
    // Plugins below are limited too.
    await app.register(async (inner) => {
      inner.get("/inner", () => "inner");
    });
    const url = await listen();
    for (const path of ["/plain", "/free", "/dear", "/inner"]) await (await fetch(url + path)).text();
    assert.deepEqual([await left(), await left("dear")], [8, 6]);
    const free = await fetch(`${url}/free`);
    assert.equal(free.headers.has("ratelimit"), false);
  });

  test(`${name}: with global: false only routes that ask for it are limited`, async (t) => {
    const { app, left, listen } = await made(t, load, { global: false });
    app.get("/plain", () => "plain");
    app.get("/limited", { config: { rateLimit: {} } }, () => "limited");
    const url = await listen();
    await (await fetch(`${url}/plain`)).text();
    assert.equal(await left(), 10);
    await (await fetch(`${url}/limited`)).text();
    assert.equal(await left(), 9);
  });

  test(`${name}: with global: false each route may say what it costs; wrong options are told at once`, async (t) => {
    const limiter = await RateLimiter.open({ store: "memory" });
    const { fastify } = load("fastify") as typeof import("fastify");
    const app = fastify({ forceCloseConnections: true });
    t.after(() => app.close());
    await app.register(rateLimit, { limiter, global: false });
    app.get("/", { config: { rateLimit: { limits: [Limit.perMinute("rpm", 1)] } } }, () => "hello");
    assert.equal((await app.inject("/")).statusCode, 200);
    assert.equal((await app.inject("/")).statusCode, 429);
    await assert.rejects(async () => fastify().register(rateLimit, { limiter, global: false, wait: 5 as never }), {
      code: "wait_invalid",
    });
  });

  test(`${name}: a client of HTTP/2 that leaves has left`, async (t) => {
    const limiter = await RateLimiter.open({ store: "memory" });
    const { fastify } = load("fastify") as typeof import("fastify");
    const app = fastify({ http2: true });
    const closed: string[] = [];
    await app.register(
      rateLimit as never,
      {
        ...{ limiter, limits, key: () => "key-1" },
        onClosed: ({ outcome }: { outcome: { kind: string } }) => void closed.push(outcome.kind),
      } as never,
    );
    let begins = () => {};
    const begun = new Promise<void>((resolve) => {
      begins = resolve;
    });
    app.get("/waits", async (_request, reply) => {
      begins();
      await once(reply.raw, "close");
      return "late";
    });
    app.get("/answers", () => "ok");
    const session = connect(await app.listen({ host: "127.0.0.1", port: 0 }));
    t.after(async () => {
      session.destroy();
      await app.close();
    });
    const answered = session.request({ ":path": "/answers" });
    answered.resume();
    await once(answered, "end");
    const left = session.request({ ":path": "/waits" });
    left.on("error", () => {});
    await begun;
    left.close(constants.NGHTTP2_CANCEL);
    while (closed.length < 2) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(closed, ["finished", "disconnected"]);
  });

  test(`${name}: wrong options are told when the plugin or the route is added`, async (t) => {
    const { app } = await made(t, load, {});
    const add = (rateLimit: unknown) => () => app.get("/x", { config: { rateLimit } as never }, () => "x");
    assert.throws(add({ wait: 5 }), { code: "wait_invalid" });
    assert.throws(add("yes"), { code: "option_invalid" });
    for (const wrong of [{ limiter: {} }, { global: 1 }, { hook: "onSend" }, { limit: [] }]) {
      await assert.rejects(made(t, load, wrong as never), { name: "ValidationError" });
    }
  });

  for (const hook of ["onRequest", "preValidation", "preHandler"] as const) {
    test(`${name}: the current lease is known in a handler after a body was read (${hook})`, async (t) => {
      const { app, left, listen } = await made(t, load, {
        hook,
        consume: (request) => ({ rpm: (request.body as { cost?: number } | undefined)?.cost ?? 1 }),
      });
      app.post("/", async (request) => {
        await new Promise((resolve) => setImmediate(resolve));
        return { same: currentLease() === request.lease && request.lease !== undefined };
      });
      const url = await listen();
      const headers = { "content-type": "application/json" };
      const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify({ cost: 3 }) });
      assert.deepEqual(await answer.json(), { same: true });
      // Before the body is read nothing of it can be counted.
      assert.equal(await left(), hook === "onRequest" ? 9 : 7);
    });
  }

  test(`${name}: what a handler threw is told`, async (t) => {
    const outcomes: unknown[] = [];
    const { app, listen, left } = await made(t, load, { onClosed: ({ outcome }) => void outcomes.push(outcome) });
    const boom = new Error("boom");
    app.get("/throws", () => {
      throw boom;
    });
    app.get("/refuses", () => {
      throw Object.assign(new Error("teapot"), { statusCode: 418 });
    });
    const url = await listen();
    assert.equal((await fetch(`${url}/throws`)).status, 500);
    assert.equal((await fetch(`${url}/refuses`)).status, 418);
    while (outcomes.length < 2) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(outcomes, [
      { kind: "error", error: boom },
      { kind: "finished", status: 418 },
    ]);
    assert.equal(await left(), 9);
  });
}

test("a handler that throws after the first byte has thrown", async (t) => {
  const closed: unknown[] = [];
  const { app, left, listen } = await made(t, VERSIONS[0][1], {
    onClosed: ({ outcome }) => void closed.push(outcome.kind),
  });
  app.get("/late", (_request, reply) => {
    reply.raw.write("first words");
    throw new Error("late");
  });
  await fetch(`${await listen()}/late`)
    .then((answer) => answer.text())
    .catch(() => {});
  while (closed.length === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([closed, await left()], [["error"], 10]);
});
