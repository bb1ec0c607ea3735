import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { eventsOf, LIMITS, NS, problem, serviceOf } from "./service-kit.ts";

const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, tpm: 500 }, holdMs: 0 };

test("a stream begins with retry and hello, and tells what happens as it happens", { timeout: 60_000 }, async (t) => {
  const { call, url, clock } = await serviceOf(t);
  const { frame, next, response, leave } = await eventsOf(url, `${NS}/events`);
  assert.match(response.headers.get("content-type") ?? "", /^text\/event-stream/);
  assert.equal(response.headers.get("cache-control"), "no-store");
  assert.equal(await frame(), "retry: 2000");
  const hello = await next();
  assert.equal(hello?.event, "hello");
  const instance = String(hello?.data.instance);
  assert.deepEqual(hello?.data, { atMs: clock.now(), namespace: "default", instance });
  assert.ok(hello?.id.startsWith(`${instance}-`));

  await call("POST", `${NS}/acquire`, { body: take, headers: { "x-request-id": "req-1" } });
  assert.deepEqual((await next("acquired"))?.data, {
    ...{ atMs: clock.now(), namespace: "default", entityId: "key-1", resource: "gpt-4", requestId: "req-1" },
    ...{ consumed: take.consume, role: "entity", asked: take.consume },
  });
  const bucket = (await next("bucket"))?.data as { limits: { limit: string; available: number }[] };
  assert.deepEqual(
    bucket.limits.map(({ limit, available }) => [limit, available]),
    [
      ["rpm", 99],
      ["tpm", 19_500],
    ],
  );

  await call("POST", `${NS}/acquire`, { body: { ...take, consume: { tpm: 20_000 } } });
  const refused = (await next("refused"))?.data as { statuses: { limit: string }[]; retryAfterMs: number };
  assert.deepEqual([refused.statuses[0]?.limit, refused.retryAfterMs], ["tpm", 3_000]);

  const { leaseId } = (await call("POST", `${NS}/acquire`, { body: { ...take, holdMs: 5_000 } })).body;
  assert.deepEqual(
    [(await next("lease"))?.data].map((data) => [data?.leaseId, data?.status]),
    [[leaseId, "open"]],
  );
  await call("POST", `${NS}/leases/${leaseId}/adjust`, { body: { delta: { tpm: 7 } } });
  assert.deepEqual((await next("charged"))?.data.amounts, { tpm: 7 });
  await call("POST", `${NS}/leases/${leaseId}/rollback`);
  // The bucket's new level may be told between them: that goes by a timer.
  const both = ["gave-back", "lease"];
  const [back, ended] = [await next(...both), await next(...both)].sort((a, b) =>
    (a?.event ?? "") < (b?.event ?? "") ? -1 : 1,
  );
  assert.deepEqual([back?.event, ended?.event, ended?.data.status], ["gave-back", "lease", "rolledBack"]);
  await call("PUT", `${NS}/limits?resource=gpt-4`, {
    body: { limits: [{ name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 1000 }] },
  });
  assert.equal((await next("limits-changed"))?.data.entityId, "$RESOURCE:gpt-4");
  leave();
});

test("a filter lets through its types, its entity and its resource, and never keeps hello back", {
  timeout: 60_000,
}, async (t) => {
  const { call, url } = await serviceOf(t);
  const mine = await eventsOf(url, `${NS}/events?types=refused,acquired&entityId=b&resource=gpt-4`);
  assert.equal((await mine.next())?.event, "hello");
  for (const entityId of ["a", "b"]) await call("POST", `${NS}/acquire`, { body: { ...take, entityId } });
  await call("POST", `${NS}/acquire`, { body: { ...take, entityId: "b", consume: { tpm: 20_000 } } });
  assert.deepEqual(
    [await mine.next(), await mine.next()].map((got) => [got?.event, got?.data.entityId]),
    [
      ["acquired", "b"],
      ["refused", "b"],
    ],
  );
  problem(await call("GET", `${NS}/events?types=acquired,nope`), 400, "request_invalid");
  problem(await call("GET", "/v1/namespaces/nope/events"), 404, "namespace_not_found");
  mine.leave();
});

test("who comes back goes on where they were; what is gone, or was another instance's, is told as a gap", {
  timeout: 60_000,
}, async (t) => {
  const { call, url, limiter } = await serviceOf(t);
  const first = await eventsOf(url, `${NS}/events?types=acquired`);
  const hello = await first.next();
  await call("POST", `${NS}/acquire`, { body: { ...take, entityId: "one" } });
  const seen = await first.next();
  first.leave();
  for (const entityId of ["two", "three"]) await call("POST", `${NS}/acquire`, { body: { ...take, entityId } });
  const again = await eventsOf(url, `${NS}/events?types=acquired`, { "last-event-id": seen?.id ?? "" });
  const came = [await again.next(), await again.next(), await again.next()];
  assert.deepEqual(
    came.map((got) => [got?.event, got?.data.entityId]),
    [
      ["hello", undefined],
      ["acquired", "two"],
      ["acquired", "three"],
    ],
  );
  assert.equal(came[0]?.id, seen?.id, "one that is lost before it reads on goes on from there");
  again.leave();
  for (let i = 0; i < 2_100; i++)
    await limiter.tryAcquire({ entityId: `many-${i}`, resource: "gpt-4", consume: { rpm: 1 } });
  for (const id of [hello?.id ?? "", "other-5", "nonsense", `${hello?.data.instance}-999999`]) {
    const late = await eventsOf(url, `${NS}/events?types=acquired`, { "last-event-id": id });
    assert.deepEqual([(await late.next())?.event, (await late.next())?.event], ["hello", "gap"], id);
    late.leave();
  }
});

test("a service only tells what went through its own limiter", { timeout: 60_000 }, async (t) => {
  const [one, other] = [await serviceOf(t), await serviceOf(t)];
  const { next, leave } = await eventsOf(one.url, `${NS}/events?types=acquired`);
  await next("hello");
  await other.call("POST", `${NS}/acquire`, { body: { ...take, entityId: "elsewhere" } });
  await one.call("POST", `${NS}/acquire`, { body: { ...take, entityId: "here" } });
  assert.equal((await next())?.data.entityId, "here");
  leave();
});

test("there are so many streams and no more, and one that ends makes room", { timeout: 60_000 }, async (t) => {
  const { call, url } = await serviceOf(t, { streamsMax: 2 });
  const streams = [await eventsOf(url, `${NS}/events`), await eventsOf(url, `${NS}/events`)];
  const full = await call("GET", `${NS}/events`);
  problem(full, 503, "overloaded");
  assert.equal(full.headers.get("retry-after"), "1");
  streams[0]?.leave();
  for (;;) {
    const leaving = new AbortController();
    const { status } = await fetch(new URL(`${NS}/events`, url), { signal: leaving.signal });
    leaving.abort();
    if (status === 200) break;
  }
  streams[1]?.leave();
});

test("a client that does not read is cut off, and the service goes on", { timeout: 120_000 }, async (t) => {
  const { call, port, limiter } = await serviceOf(t);
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  await once(socket, "connect");
  const closed = once(socket, "close");
  socket.write(`GET ${NS}/events?types=acquired HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`);
  await once(socket, "readable");
  // What the kernel takes on its way, and then what the service keeps for it.
  const requestId = "x".repeat(60_000);
  const cutOff = async () => (await call("GET", "/metrics")).status === 200 && socket.destroyed;
  for (let sent = 0; sent < 2_000 && !socket.destroyed; sent++) {
    await limiter.tryAcquire({ entityId: `e${sent}`, resource: "gpt-4", consume: { rpm: 1 }, requestId });
    if (sent % 100 === 99) await call("GET", "/healthz");
  }
  // Reading what is there shows that the connection was ended from the other side.
  socket.resume();
  await closed;
  assert.equal(await cutOff(), true);
});

test("bye is said to everybody when the service stops, and the stream ends", { timeout: 60_000 }, async (t) => {
  const { url, close } = await serviceOf(t);
  const { next, frame } = await eventsOf(url, `${NS}/events`);
  await next("hello");
  const closing = close();
  assert.deepEqual((await next("bye"))?.data.namespace, "default");
  assert.equal(await frame(), undefined);
  await closing;
});

test("a bucket that others took from is told, too, and a stream that is silent shows every 5 s that it lives", {
  timeout: 60_000,
}, async (t) => {
  const store = openMemory();
  const [own, other] = await Promise.all([RateLimiter.open({ store }), RateLimiter.open({ store })]);
  await own.setResourceDefaults("gpt-4", LIMITS);
  await other.tryAcquire({ entityId: "theirs", resource: "gpt-4", consume: { tpm: 1_000 } });
  const { url, call } = await serviceOf(t, { limiter: own });
  const events = await eventsOf(url, `${NS}/events?types=bucket`);
  await events.next("hello");
  // What was there before is not news; the read of the list is what shows it.
  assert.equal((await call("GET", `${NS}/buckets`)).body.items[0].entityId, "theirs");
  await other.tryAcquire({ entityId: "theirs", resource: "gpt-4", consume: { tpm: 5_000 } });
  const told = await events.next("bucket");
  assert.equal(told?.data.entityId, "theirs");
  events.leave();
  const silent = await eventsOf(url, `${NS}/events?types=refused`);
  for (let frame = await silent.frame(); frame !== ":"; frame = await silent.frame()) assert.notEqual(frame, undefined);
  silent.leave();
});
