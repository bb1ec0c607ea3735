import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { ClientLimiter } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/options.ts";
import { LeaseClosed, RateLimitExceeded, RateLimiterUnavailable } from "../../src/entry/errors.ts";
import { Limit } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { serviceOf } from "../server/service-kit.ts";
import { type Fate, lossyProxy } from "./lost-answers.ts";

const on = { entityId: "key-1", resource: "gpt-4" };

/** A service and a client, each with a clock of its own, and a proxy between them that can be told to lose answers. */
async function held(t: TestContext, options: Partial<ClientOptions> = {}) {
  const service = await serviceOf(t);
  let fate: Fate = "passes";
  const { url, seen, inService } = await lossyProxy(t, service.url, () => fate);
  const clock = new SimulatedClock(5_000_000);
  const client = new ClientLimiter({ url, ...options }, clock);
  const left = async () => (await service.limiter.available(on)).find(({ limit }) => limit === "tpm")?.available;
  /** Time passes for both, and what was sent meanwhile is answered. */
  const pass = async (ms: number, sent = 0) => {
    const before = seen.length;
    await service.clock.advance(ms);
    await clock.advance(ms);
    while (seen.length < before + sent) await turn();
    for (let i = 0; i < 20; i++) await turn();
  };
  const set = (next: Fate) => {
    fate = next;
  };
  return { ...service, client, clientClock: clock, seen, left, pass, set, inService };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

const renewals = (seen: readonly { readonly path: string }[]) => seen.filter(({ path }) => path.endsWith("/extend"));

test("withLease settles when its body returns, and gives back when it throws", async (t) => {
  const { client, left } = await held(t);
  const value = await client.withLease({ ...on, consume: { rpm: 1, tpm: 500 } }, async (lease) => {
    assert.equal(await left(), 19_500);
    await lease.adjust({ tpm: 230 });
    assert.deepEqual(lease.consumed, { rpm: 1, tpm: 730 });
    return "done";
  });
  assert.deepEqual([value, await left()], ["done", 19_270]);
  await assert.rejects(
    client.withLease({ ...on, consume: { tpm: 500 } }, () => {
      throw new Error("no");
    }),
    /^Error: no$/,
  );
  assert.equal(await left(), 19_270);
});

test("withLease renews its hold at a third of it, for as long as its body runs", async (t) => {
  const { client, seen, pass, left } = await held(t);
  let done = () => {};
  const running = client.withLease(
    { ...on, consume: { tpm: 500 }, holdMs: 3_000, onExpiry: "refund" },
    async (lease) => {
      assert.equal(lease.signal.aborted, false);
      await new Promise<void>((resolve) => {
        done = resolve;
      });
      return lease;
    },
  );
  while (seen.length < 1) await turn();
  await turn();
  for (let i = 0; i < 7; i++) await pass(1_000, 1);
  assert.equal(renewals(seen).length, 7);
  assert.match(seen.at(-1)?.body ?? "", /"holdMs":3000/);
  done();
  const lease = await running;
  assert.deepEqual([lease.status, lease.signal.aborted], ["settled", false]);
  await pass(10_000);
  assert.equal(renewals(seen).length, 7);
  assert.equal(await left(), 20_000 - 0, "what drips in has filled it");
});

test("a hold ends by the client's own clock, counted from before it asked, and tells lease.signal", async (t) => {
  const { client, clientClock, url } = await held(t);
  const lease = await client.acquire({ ...on, consume: { tpm: 500 }, holdMs: 3_000 });
  const { signal } = lease;
  await clientClock.advance(2_999);
  assert.deepEqual([lease.status, signal.aborted], ["open", false]);
  await clientClock.advance(1);
  assert.equal(lease.status, "expired");
  const { reason } = signal;
  assert.ok(signal.aborted && reason instanceof LeaseClosed && reason.leaseStatus === "expired");
  for (const late of [() => lease.adjust({ tpm: 1 }), () => lease.settle(), () => lease.rollback()]) {
    await assert.rejects(late, (e) => e instanceof LeaseClosed && e.leaseStatus === "expired");
  }
  await lease[Symbol.asyncDispose]();
  // Nobody has asked for the signal: the status tells all the same.
  const other = await new ClientLimiter({ url, holdMs: 1_000 }, clientClock).acquire({ ...on, consume: { tpm: 1 } });
  await clientClock.advance(1_000);
  assert.equal(other.status, "expired");
});

test("a body learns that its hold could not be renewed, and keeps its value", async (t) => {
  const { client, set, pass, seen, limiter } = await held(t, { timeoutMs: 100 });
  let aborted = false;
  const running = client.withLease(
    { ...on, consume: { tpm: 500 }, holdMs: 3_000, onExpiry: "refund" },
    async (lease) => {
      set("cutBefore");
      await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      aborted = true;
      set("passes");
      return lease.status;
    },
  );
  while (seen.length < 1) await turn();
  for (let i = 0; i < 12; i++) await pass(500);
  assert.deepEqual([await running, aborted], ["expired", true]);
  assert.equal((await limiter.available(on))[1]?.available, 20_000);
});

test("a lease that took long to come is held anew before it is handed out", async (t) => {
  let nowMs = 0;
  const { url, paths } = await told(t, (path) => {
    if (path.endsWith("/acquire")) nowMs += 2_900;
    return { status: 200, body: VIEW };
  });
  const lease = await new ClientLimiter({ url, holdMs: 3_000 }, { ...hasty, now: () => nowMs }).acquire(on);
  assert.match(paths[1] ?? "", /\/extend$/);
  nowMs += 2_999;
  assert.equal(lease.status, "open");
  nowMs += 1;
  assert.equal(lease.status, "expired");
});

test("a lease is closed at once: what is asked of it meanwhile comes too late; a failed close may be repeated", async (t) => {
  const { client, set, left } = await held(t);
  const lease = await client.acquire({ ...on, consume: { tpm: 500 } });
  const adjusting = lease.adjust({ tpm: 100 });
  const settling = lease.settle({ tpm: 50 });
  assert.equal(lease.status, "settled");
  await assert.rejects(lease.adjust({ tpm: 1 }), LeaseClosed);
  await adjusting;
  await settling;
  assert.equal(await left(), 19_950);
  await lease.settle({ tpm: 50 });
  await lease.settle();
  await assert.rejects(lease.settle({ tpm: 60 }), LeaseClosed);
  const other = await client.acquire({ ...on, consume: { tpm: 500 } });
  await assert.rejects(other.settle({ tpn: 5 }), { code: "limit_unknown" });
  assert.equal(other.status, "open");
  set("passes");
  await other.settle({ tpm: 10 });
  assert.equal(await left(), 19_940);
});

test("further resources of a lease are adjusted, consumed and given back by themselves", async (t) => {
  const { client, limiter } = await held(t);
  await limiter.setResourceDefaults("gpu", [Limit.perMinute("slots", 10)]);
  const lease = await client.acquire({ ...on, consume: { tpm: 5 }, also: { gpu: { slots: 4 } } });
  assert.deepEqual(lease.resources, ["gpt-4", "gpu"]);
  const gpu = lease.resource("gpu");
  assert.deepEqual([gpu.consumed, gpu.remaining.map(({ available }) => available)], [{ slots: 4 }, [6]]);
  assert.deepEqual(
    lease.remaining.map(({ limit }) => limit),
    ["rpm", "tpm"],
  );
  await gpu.adjust({ slots: -1 });
  await gpu.consume({ slots: 2 });
  await gpu.release({ slots: 3 });
  assert.deepEqual(gpu.consumed, { slots: 2 });
  await assert.rejects(
    gpu.consume({ slots: 100 }),
    (e) => e instanceof RateLimitExceeded || (e as Error).name === "ValidationError",
  );
  assert.throws(() => lease.resource("other"), { code: "resource_unknown" });
  await lease.settle({ tpm: 7 }, { also: { gpu: { slots: 5 } } });
  assert.equal((await limiter.available({ ...on, resource: "gpu" }))[0]?.available, 5);
});

test("an acquire that is aborted rejects at once, and what the service took all the same is given back", async (t) => {
  const { url, left } = await held(t);
  const client = new ClientLimiter({ url }, new SimulatedClock(0));
  const leaving = new AbortController();
  const asking = client.acquire({ ...on, consume: { tpm: 700 }, signal: leaving.signal });
  leaving.abort(new Error("left"));
  await assert.rejects(asking, /left/);
  // The take may be done before or after; in the end nothing is held.
  await client.close();
  while ((await left()) !== 20_000) await turn();
  await assert.rejects(client.acquire({ ...on, consume: { tpm: 700 }, signal: leaving.signal }), /left/);
});

test("a wait for tokens ends at the service when the caller leaves", async (t) => {
  const { client, limiter, seen, clock, inService } = await held(t);
  await limiter.acquire({ ...on, consume: { rpm: 100 } });
  const leaving = new AbortController();
  const waiting = client.acquire({ ...on, consume: { rpm: 1 }, wait: { maxMs: 20_000 }, signal: leaving.signal });
  while (seen.length < 1) await turn();
  leaving.abort(new Error("left"));
  await assert.rejects(waiting, /left/);
  while (inService() > 0) await turn();
  await clock.advance(600);
  assert.equal((await limiter.available(on))[0]?.available, 1, "nobody takes it any more");
});

/** A service that answers as it is told. */
async function told(
  t: TestContext,
  answer: (path: string) => { status: number; headers?: Record<string, string>; body: unknown },
) {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    request.resume();
    paths.push(request.url ?? "");
    const { status, headers = {}, body } = answer(request.url ?? "");
    response.writeHead(status, headers).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, paths };
}

const VIEW = {
  ...{ leaseId: "l_1", namespace: "default", ...on, status: "open", consumed: { tpm: 1 }, also: {}, degraded: false },
  ...{ overdrawn: [], bypassed: false, expiresAtMs: 9, onExpiry: "charge", limits: [] },
};

test("after a 503 no take is sent for as long as it says, and what ends a lease waits and is sent again", async (t) => {
  let isDown = false;
  const { url, paths } = await told(t, (path) => {
    if (isDown)
      return { status: 503, headers: { "retry-after": "7" }, body: { code: "overloaded", detail: "Too many." } };
    return path.endsWith("/acquire")
      ? { status: 201, body: VIEW }
      : { status: 200, body: { ...VIEW, status: "settled" } };
  });
  const clock = new SimulatedClock(0);
  const client = new ClientLimiter({ url }, clock);
  const lease = await client.acquire({ ...on, consume: { tpm: 1 } });
  isDown = true;
  await assert.rejects(client.acquire({ ...on, consume: { tpm: 1 } }), RateLimiterUnavailable);
  assert.equal(paths.length, 2, "a 503 is no lost answer: it is not repeated at once");
  await assert.rejects(client.tryAcquire({ ...on, consume: { tpm: 1 } }), RateLimiterUnavailable);
  assert.equal(paths.length, 2, "nothing was sent");
  const settling = lease.settle();
  for (let i = 0; i < 20; i++) await turn();
  assert.equal(paths.length, 2, "it waits");
  await clock.advance(7_000);
  while (paths.length < 3) await turn();
  isDown = false;
  for (let i = 0; i < 20; i++) await turn();
  await clock.advance(7_000);
  await settling;
  assert.deepEqual([paths.length, lease.status], [4, "settled"]);
  await client.acquire({ ...on, consume: { tpm: 1 } });
  assert.equal(paths.length, 5);
});

test("a settle that meets 503 three times is an outage, and may be called again", async (t) => {
  let isDown = true;
  const { url, paths } = await told(t, (path) => {
    if (isDown && path.endsWith("/settle"))
      return { status: 503, headers: { "retry-after": "3600" }, body: { code: "unavailable" } };
    return { status: 200, body: VIEW };
  });
  const slept: number[] = [];
  let nowMs = 0;
  const clock = {
    now: () => nowMs,
    sleep: async (ms: number) => {
      slept.push(ms);
      nowMs += ms;
    },
    sleepInBackground: () => new Promise<void>(() => {}),
  };
  const client = new ClientLimiter({ url, holdMs: 600_000 }, clock);
  const lease = await client.acquire({ ...on, consume: { tpm: 1 } });
  await assert.rejects(lease.settle(), RateLimiterUnavailable);
  assert.deepEqual([paths.length, slept, lease.status], [4, [60_000, 60_000], "open"]);
  isDown = false;
  await lease.settle();
  assert.equal(lease.status, "settled");
});

test("with onUnavailable allow an outage gives a lease that charges nothing and says why", async (t) => {
  const { url } = await told(t, () => ({
    status: 503,
    body: { code: "unavailable", detail: "The store does not respond." },
  }));
  const client = new ClientLimiter({ url, onUnavailable: "allow" }, new SimulatedClock(0));
  const lease = await client.acquire({ ...on, consume: { tpm: 5 } });
  assert.match(String(lease.degraded), /failed with 503: The store does not respond; try again later/);
  assert.deepEqual([lease.status, lease.consumed, lease.remaining], ["open", { tpm: 0 }, []]);
  await lease.adjust({ tpm: 5 });
  await lease.settle({ tpm: 5 });
  assert.equal(lease.status, "settled");
  const tried = await client.tryAcquire({ ...on, consume: { tpm: 5 } });
  assert.ok(tried.ok && tried.lease.degraded);
  assert.equal(await client.withLease({ ...on, consume: { tpm: 5 } }, () => 7), 7);
  const nobody = new ClientLimiter({ url: "http://127.0.0.1:1", onUnavailable: "allow" }, { ...hasty });
  assert.match(String((await nobody.acquire(on)).degraded), /cannot be reached/);
});

const hasty = { now: () => 0, sleep: async () => {}, sleepInBackground: () => new Promise<void>(() => {}) };

test("a service that lets work through has no lease to settle", async (t) => {
  const view = { ...VIEW, leaseId: null, status: "settled", degraded: "the store was unavailable", expiresAtMs: null };
  const { url, paths } = await told(t, () => ({ status: 200, body: view }));
  const lease = await new ClientLimiter({ url }, new SimulatedClock(0)).acquire(on);
  assert.deepEqual([lease.status, lease.degraded], ["open", "the store was unavailable"]);
  await lease.settle({ tpm: 5 });
  assert.equal(paths.length, 1);
});

test("a lease of a client tracks a stream as the library's does: settled by what the chunks told, given back where none came", async (t) => {
  const { client, left } = await held(t);
  const request = { ...on, consume: { rpm: 1, tpm: 500 } };
  async function* chunks(told: readonly (number | undefined)[], fails?: Error) {
    for (const tpm of told) yield tpm === undefined ? {} : { tpm };
    if (fails !== undefined) throw fails;
  }
  const usageOf = ({ tpm }: { readonly tpm?: number }) => (tpm === undefined ? undefined : { tpm });
  const lease = await client.acquire(request);
  const read = [];
  for await (const chunk of lease.track(chunks([undefined, 700, 730]), { usageOf })) read.push(chunk);
  assert.deepEqual([read.length, lease.status, await left()], [3, "settled", 19_270]);
  const readable = await client.acquire(request);
  const stream = readable.track(ReadableStream.from(chunks([100])) as ReadableStream<{ tpm?: number }>, { usageOf });
  await stream.getReader().cancel();
  assert.deepEqual([readable.status, await left()], ["settled", 18_770], "left before it told anything: as charged");
  const failed = await client.acquire(request);
  const boom = new Error("boom");
  await assert.rejects(async () => {
    for await (const _ of failed.track(chunks([], boom), { usageOf })) assert.fail("nothing came");
  }, boom);
  assert.deepEqual([failed.status, await left()], ["rolledBack", 18_770]);
  const wrong = await client.acquire(request);
  assert.throws(() => wrong.track(chunks([]), { usage: usageOf } as never), { code: "option_unknown" });
  assert.throws(() => wrong.track(Promise.resolve() as never), { code: "stream_invalid" });
  await wrong.rollback();
});
