import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, LimiterError, RateLimiter, RateLimiterUnavailable } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { createService, type ServiceOptions } from "../../src/entry/server.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore, overriding } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { clientOf, eventsOf, problem, tokenOf } from "./service-kit.ts";

const T0 = 1_800_000_000_000;
const ns = (name: string) => `/v1/namespaces/${name}`;
const take = { entityId: "k", resource: "api", consume: { rpm: 1 }, holdMs: 0 };

/** Holds calls of one namespace back until it is opened. */
class Gate {
  #waiting: (() => void)[] = [];
  isShut = false;

  pass(): Promise<void> {
    return this.isShut ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve();
  }

  get held(): number {
    return this.#waiting.length;
  }

  open(): void {
    this.isShut = false;
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

/** A service with tenants a and b on a store behind a network, in which reads of one namespace can be held back, or fail. */
async function serviceWith(t: TestContext, options: ServiceOptions) {
  const clock = new SimulatedClock(T0);
  const line = new FaultStore(openMemory(), { pause: async () => {} });
  const gate = new Gate();
  const down = new Map<string, LimiterError>();
  let lookups = 0;
  let heldId = "";
  const store = overriding<Store>(line, {
    namespaces: overriding(line.namespaces, {
      get: async (name) => {
        lookups++;
        const error = down.get(name);
        if (error !== undefined) throw error;
        return line.namespaces.get(name);
      },
    }),
    scope: (id) => {
      const scoped = line.scope(id);
      const list: typeof scoped.entities.list = async (...args) => {
        if (id === heldId) await gate.pass();
        return scoped.entities.list(...args);
      };
      return { ...scoped, entities: overriding(scoped.entities, { list }) };
    },
  });
  const limiter = await RateLimiter.open({ store, clock });
  for (const name of ["a", "b"]) {
    const { id } = await limiter.registerNamespace(name);
    if (name === "a") heldId = id;
    await limiter.namespace(name).setSystemDefaults([Limit.perMinute("rpm", 5)]);
  }
  const service = await createService({ limiter, log: () => {}, ...options });
  const { url, close } = await service.listen({ port: 0 });
  t.after(async () => {
    gate.open();
    await close();
    await limiter.close();
  });
  return { clock, gate, down, url, service, limiter, call: clientOf(url), lookups: () => lookups };
}

test("a namespace whose lookup failed in an outage is asked for again by the next request", async (t) => {
  const { call, down, limiter } = await serviceWith(t, {});
  await limiter.registerNamespace("late");
  await limiter.namespace("late").setSystemDefaults([Limit.perMinute("rpm", 5)]);
  down.set("late", new RateLimiterUnavailable("The table did not answer in time."));
  for (let i = 0; i < 3; i++) problem(await call("POST", `${ns("late")}/acquire`, { body: take }), 503, "unavailable");
  assert.match((await call("GET", "/metrics")).body, /^zae_limiter_namespaces\{state="failed"\} 1$/m);
  assert.equal((await call("POST", `${ns("b")}/acquire`, { body: take })).status, 200, "the others are served");
  down.clear();
  assert.equal((await call("POST", `${ns("late")}/acquire`, { body: take })).status, 200);
  assert.match((await call("GET", "/metrics")).body, /^zae_limiter_namespaces\{state="failed"\} 0$/m);
});

test("a namespace that the store refuses to look up is asked for once a second, whatever comes", async (t) => {
  const { call, down, clock, lookups, limiter } = await serviceWith(t, {});
  await limiter.registerNamespace("late");
  await limiter.namespace("late").setSystemDefaults([Limit.perMinute("rpm", 5)]);
  down.set("late", new LimiterError("access_denied", "The credentials may not read this."));
  const statuses = new Set<number>();
  const before = lookups();
  for (let i = 0; i < 5; i++) statuses.add((await call("GET", `${ns("late")}/entities`)).status);
  assert.equal(lookups() - before, 1, "one question for all of them");
  assert.equal(statuses.has(200), false);
  down.clear();
  await clock.advance(1_000);
  assert.equal((await call("GET", `${ns("late")}/entities`)).status, 200);
});

test("a namespace that is deleted ends its streams, and its name registered anew is another tenant", async (t) => {
  const { call, url, limiter } = await serviceWith(t, {});
  const events = await eventsOf(url, `${ns("a")}/events`);
  await events.next("hello");
  for (let i = 0; i < 5; i++) await call("POST", `${ns("a")}/acquire`, { body: take });
  assert.equal((await call("DELETE", ns("a"))).status, 200);
  assert.equal((await events.next("bye"))?.data.namespace, "a");
  assert.equal(await events.frame(), undefined);
  problem(await call("POST", `${ns("a")}/acquire`, { body: take }), 404, "namespace_not_found");
  await limiter.registerNamespace("a");
  await limiter.namespace("a").setSystemDefaults([Limit.perMinute("rpm", 1)]);
  assert.equal((await call("POST", `${ns("a")}/acquire`, { body: take })).status, 200);
});

test("one token that holds all the requests it can keeps no other tenant from being served", {
  timeout: 120_000,
}, async (t) => {
  const [a, b] = [tokenOf("a", { namespaces: ["a"] }), tokenOf("b", { namespaces: ["b"] })];
  const { call, gate, clock } = await serviceWith(t, { tokens: [a.entry, b.entry], inflightMax: 20, waitingMax: 20 });
  const held = { ...take, holdMs: 60_000 };
  const asB = (method: string, path: string, body?: unknown) =>
    call(method, `${ns("b")}${path}`, { token: b.token, ...(body === undefined ? {} : { body }) });
  const leases = [await asB("POST", "/acquire", held), await asB("POST", "/acquire", held)];
  const ownLease = await call("POST", `${ns("a")}/acquire`, { token: a.token, body: held });

  // Tenant a: as many reads as it may have, held back by the store; then as many requests as may wait.
  gate.isShut = true;
  const reads: Promise<unknown>[] = [];
  for (let refused = 0; refused === 0; ) {
    const before = gate.held;
    const read = call("GET", `${ns("a")}/entities`, { token: a.token });
    const answered = read.then((answer) => answer.status);
    while (gate.held === before && refused === 0) {
      refused = (await Promise.race([answered, new Promise<number>((resolve) => setTimeout(resolve, 1, 0))])) as number;
    }
    if (refused === 0) reads.push(read);
    else problem(await read, 503, "overloaded");
  }
  assert.ok(reads.length >= 10 && reads.length < 20, `${reads.length}`);

  // Every one of these is served at once: none is refused, and none waits for what tenant a holds.
  assert.equal((await asB("POST", "/acquire", take)).status, 200);
  assert.equal((await asB("GET", "/entities")).status, 200);
  assert.equal((await asB("GET", "/limits")).status, 200);
  assert.equal((await asB("POST", `/leases/${leases[0]?.body.leaseId}/settle`, {})).status, 200);
  assert.equal((await asB("POST", `/leases/${leases[1]?.body.leaseId}/rollback`)).status, 200);
  // What frees capacity has places of its own, also for the tenant that has used up all others.
  const own = `${ns("a")}/leases/${ownLease.body.leaseId}`;
  assert.equal((await call("POST", `${own}/extend`, { token: a.token, body: { holdMs: 90_000 } })).status, 200);
  assert.equal((await call("POST", `${own}/settle`, { token: a.token, body: {} })).status, 200);
  assert.equal(gate.held, reads.length, "all of them are still under way");
  gate.open();
  for (const answer of await Promise.all(reads)) assert.equal((answer as { status: number }).status, 200);

  // Likewise requests that wait for tokens.
  await call("POST", `${ns("a")}/acquire`, { token: a.token, body: { ...take, consume: { rpm: 4 } } });
  const waiting: ReturnType<typeof call>[] = [];
  for (;;) {
    const wait = { ...take, consume: { rpm: 5 }, wait: { maxMs: 30_000 } };
    const asked = call("POST", `${ns("a")}/acquire`, { token: a.token, body: wait });
    const count = waiting.length + 1;
    const isQueued = async () => {
      const { body } = await call("GET", "/metrics", { token: a.token });
      return new RegExp(`queued_requests\\{[^}]*\\} ${count}$`, "m").test(body);
    };
    let status = 0;
    void asked.then((answer) => {
      status = answer.status;
    });
    while (status === 0 && !(await isQueued()));
    if (status === 503) break;
    waiting.push(asked);
  }
  assert.ok(waiting.length >= 10 && waiting.length < 20, `${waiting.length}`);
  assert.equal((await call("GET", `${ns("a")}/limits`, { token: a.token })).status, 200, "who waits is not under way");
  const waitB = { ...take, wait: { maxMs: 30_000 } };
  assert.equal((await asB("POST", "/acquire", waitB)).status, 200);
  await clock.advance(60_000);
  for (const { status } of await Promise.all(waiting)) assert.ok(status === 429 || status === 200, `${status}`);
});

test("one token that has all the event streams it may have leaves some to the others", {
  timeout: 60_000,
}, async (t) => {
  const [a, b] = [tokenOf("a", { namespaces: ["a"] }), tokenOf("b", { namespaces: ["b"] })];
  const { call, url } = await serviceWith(t, { tokens: [a.entry, b.entry], streamsMax: 5 });
  const streams = [];
  for (;;) {
    const leaving = new AbortController();
    const headers = { authorization: `Bearer ${a.token}` };
    const response = await fetch(new URL(`${ns("a")}/events`, url), { headers, signal: leaving.signal });
    if (response.status !== 200) break;
    streams.push(leaving);
  }
  assert.ok(streams.length >= 2 && streams.length < 5, `${streams.length}`);
  problem(await call("GET", `${ns("a")}/events`, { token: a.token }), 503, "overloaded");
  const other = await eventsOf(url, `${ns("b")}/events`, { authorization: `Bearer ${b.token}` });
  assert.equal((await other.next("hello"))?.data.namespace, "b");
  other.leave();
  for (const stream of streams) stream.abort();
});

test("a tenant's token reads the numbers of its own namespaces, and a token for all namespaces reads all", async (t) => {
  const [a, ops] = [tokenOf("a", { namespaces: ["a"] }), tokenOf("ops")];
  const { call } = await serviceWith(t, { tokens: [a.entry, ops.entry] });
  // More resources of one tenant than are told apart, before the other asks for anything.
  for (let i = 0; i < 210; i++) {
    await call("POST", `${ns("b")}/acquire`, { token: ops.token, body: { ...take, resource: `r${i}` } });
  }
  await call("POST", `${ns("a")}/acquire`, { token: a.token, body: take });
  const own = ((await call("GET", "/metrics", { token: a.token })).body as string)
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  for (const line of own) assert.match(line, /namespace="a"|^zae_limiter_info\{/, line);
  assert.ok(
    own.some((line) => line.startsWith('zae_limiter_requests_total{result="acquired",resource="api",namespace="a"} 1')),
  );
  assert.ok(own.some((line) => /^zae_limiter_acquire_duration_seconds_count\{.*namespace="a"\} 1$/.test(line)));
  const all = (await call("GET", "/metrics", { token: ops.token })).body as string;
  assert.match(all, /^zae_limiter_requests_total\{result="acquired",resource="other",namespace="b"\} 10$/m);
  assert.match(all, /^zae_limiter_acquire_duration_seconds_count\{.*namespace="b"\} 210$/m);
});
