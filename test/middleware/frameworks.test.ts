import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import { get, request as httpRequest } from "node:http";
import { describe, type TestContext, test } from "node:test";
import { CHANNELS, currentLease, Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { FaultStore, SimulatedClock } from "../../src/entry/testing.ts";
import type { RequestOutcome } from "../../src/middleware/options.ts";
import { FRONTS, type Front, type Handle, type Options } from "./fronts.ts";

const NOON_MS = Date.UTC(2026, 2, 15, 12);
const limits = [Limit.perMinute("rpm", 2), Limit.perMinute("tpm", 100)];
const ok: Handle = async () => ({ body: "ok" });

/** A limiter whose clock stands still, a server in front of it, and what it told. */
async function started(t: TestContext, front: Front, given: Partial<Options>, handle: Handle = ok) {
  const clock = new SimulatedClock(NOON_MS);
  const faults = new FaultStore(openMemory(), {});
  const limiter = await RateLimiter.open({ store: faults, clock });
  const closed: RequestOutcome[] = [];
  const waiting: (() => void)[] = [];
  const server = await front.start(
    {
      ...{ limiter, limits, key: () => "key-1", consume: { rpm: 1, tpm: 10 } },
      ...given,
      onClosed: (event) => {
        closed.push(event.outcome);
        waiting.shift()?.();
        return given.onClosed?.(event);
      },
    },
    handle,
  );
  t.after(async () => {
    await server.close();
    await limiter.close();
  });
  const left = async (entityId = "key-1", resource = "http") => {
    const all = await limiter.available({
      entityId,
      resource,
      limits: Array.isArray(given.limits) ? given.limits : limits,
    });
    return Object.fromEntries(all.map(({ limit, available }) => [limit, available]));
  };
  /** Once `count` leases are closed. */
  const ends = async (count: number): Promise<readonly RequestOutcome[]> => {
    while (closed.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
    return closed;
  };
  const ask = (path = "/found/a", init: RequestInit = {}) => fetch(`${server.url}${path}`, init);
  return { clock, faults, limiter, url: server.url, ask, left, closed, ends };
}

for (const front of FRONTS) {
  describe(front.name, () => {
    test("the header field x-request-id is the request's name in the log of refusals", async (t) => {
      const { ask, limiter } = await started(t, front, { consume: { rpm: 2 } });
      assert.equal((await ask()).status, 200);
      assert.equal((await ask("/found/a", { headers: { "x-request-id": "req-7" } })).status, 429);
      assert.equal((await ask("/found/a", { headers: { "x-request-id": "no name" } })).status, 429);
      const log = await limiter.refusalLog();
      assert.deepEqual(log.map(({ requestId }) => requestId).sort(), ["req-7", undefined]);
    });

    test("what fits goes on with a lease and header fields, and is settled; what does not is a 429", async (t) => {
      const seen: unknown[] = [];
      const { ask, left, ends } = await started(t, front, {}, async ({ lease }) => {
        seen.push(lease?.consumed, currentLease() === lease);
        return { body: "ok" };
      });
      const first = await ask();
      assert.deepEqual([first.status, await first.text()], [200, "ok"]);
      assert.equal(first.headers.get("ratelimit-policy"), '"rpm";q=2;w=60, "tpm";q=100;w=60');
      assert.equal(first.headers.get("ratelimit"), '"rpm";r=1;t=30, "tpm";r=90;t=6');
      await (await ask()).text();
      assert.deepEqual(await ends(2), [
        { kind: "finished", status: 200 },
        { kind: "finished", status: 200 },
      ]);
      const refused = await ask();
      assert.equal(refused.status, 429);
      assert.match(refused.headers.get("content-type") ?? "", /^application\/problem\+json/);
      assert.equal(refused.headers.get("retry-after"), "30");
      assert.equal(refused.headers.get("ratelimit"), '"rpm";r=0;t=30, "tpm";r=80');
      const problem = (await refused.json()) as Record<string, unknown>;
      assert.equal(problem.code, "rate_limit_exceeded");
      assert.deepEqual(problem["violated-policies"], ["rpm"]);
      assert.deepEqual(await left(), { rpm: 0, tpm: 80 });
      assert.deepEqual(seen, [{ rpm: 1, tpm: 10 }, true, { rpm: 1, tpm: 10 }, true]);
    });

    test("by stored limits a request costs one, and is told its customer's limits where it has none", async (t) => {
      const { limiter, ask } = await started(t, front, { limits: undefined, consume: undefined } as never);
      await limiter.createEntity({ id: "acme" });
      await limiter.createEntity({ id: "key-1", parentId: "acme" });
      await limiter.setLimits("acme", [Limit.perMinute("rpm", 1, { counts: "requests" })]);
      const granted = await ask();
      assert.deepEqual([granted.status, granted.headers.get("ratelimit")], [200, '"rpm";r=0;t=60']);
      await granted.text();
      const refused = await ask();
      assert.deepEqual([refused.status, refused.headers.get("ratelimit")], [429, '"rpm";r=0;t=60']);
      const { detail } = (await refused.json()) as { readonly detail: string };
      assert.equal(detail, "Rate limit exceeded for key-1 on http: rpm; retry in 1 minute.");
    });

    test("an adjustment from below the handler is charged", async (t) => {
      const { ask, left, ends } = await started(t, front, {}, async () => {
        await new Promise((resolve) => setImmediate(resolve));
        await currentLease()?.adjust({ tpm: 25 });
        return {};
      });
      await (await ask()).text();
      await ends(1);
      assert.deepEqual(await left(), { rpm: 1, tpm: 65 });
    });

    test("status 500 and above, and a handler that throws, give back; less than 500 is settled", async (t) => {
      const handle: Handle = async ({ path }) => {
        if (path.endsWith("/throws")) throw new Error("boom");
        return { status: Number(path.split("/").at(-1)) };
      };
      const { ask, left, ends } = await started(
        t,
        front,
        { limits: [Limit.perMinute("rpm", 9)], consume: { rpm: 1 } },
        handle,
      );
      for (const path of ["/found/500", "/found/503", "/found/throws"]) await (await ask(path)).text();
      await ends(3);
      const [five, three, thrown] = await ends(3);
      assert.deepEqual(
        [five, three],
        [
          { kind: "finished", status: 500 },
          { kind: "finished", status: 503 },
        ],
      );
      assert.ok(thrown?.kind === "error" || (thrown?.kind === "finished" && thrown.status === 500));
      for (const path of ["/found/404", "/found/204", "/found/302"])
        await (await ask(path, { redirect: "manual" })).text();
      await ends(6);
      assert.deepEqual((await left()).rpm, 6);
    });

    test("a request that no handler answers costs too", async (t) => {
      const { ask, left, ends } = await started(t, front, {});
      const answer = await ask("/nowhere");
      assert.equal(answer.status, 404);
      await answer.text();
      assert.deepEqual(await ends(1), [{ kind: "finished", status: 404 }]);
      assert.equal((await left()).rpm, 1);
      assert.ok(answer.headers.has("ratelimit"));
    });

    test("HEAD and OPTIONS on a connection that is kept are each charged and closed once", async (t) => {
      const { url, left, ends } = await started(t, front, { limits: [Limit.perMinute("rpm", 9)], consume: { rpm: 1 } });
      for (const method of ["HEAD", "OPTIONS", "GET"]) {
        const status = await new Promise((resolve, reject) => {
          const sent = httpRequest(`${url}/found/a`, { method, headers: { connection: "keep-alive" } }, (answer) => {
            answer.resume().on("end", () => resolve(answer.statusCode));
          });
          sent.on("error", reject).end();
        });
        assert.ok(Number(status) < 300, method);
      }
      assert.equal((await ends(3)).length, 3);
      assert.equal((await left()).rpm, 6);
    });

    test("a stream is charged while it runs and settled at its end", async (t) => {
      let more: () => void = () => {};
      const gate = new Promise<void>((resolve) => {
        more = resolve;
      });
      async function* body() {
        yield "one,";
        await gate;
        await currentLease()?.adjust({ tpm: 5 });
        yield "two";
      }
      const { ask, left, ends, closed } = await started(t, front, {}, async () => ({ body: body() }));
      const answer = await ask();
      const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
      assert.equal(new TextDecoder().decode((await reader.read()).value), "one,");
      assert.deepEqual([closed, (await left()).rpm], [[], 1]);
      more();
      while (!(await reader.read()).done);
      assert.deepEqual(await ends(1), [{ kind: "finished", status: 200 }]);
    });

    for (const [giveBackOn, expected] of [
      [undefined, 1],
      [["disconnect"], 2],
      [(outcome: RequestOutcome) => outcome.kind === "disconnected", 2],
    ] as const) {
      const words = giveBackOn === undefined ? "stays charged" : "gets back";
      test(`a client that leaves a stream ${words} (giveBackOn: ${giveBackOn})`, async (t) => {
        async function* body() {
          yield "one";
          await new Promise(() => {});
        }
        const given = giveBackOn === undefined ? {} : { giveBackOn };
        const { url, left, ends } = await started(t, front, given, async () => ({ body: body() }));
        await new Promise<void>((resolve, reject) => {
          const sent = get(`${url}/found/a`, (answer) => {
            answer.once("data", () => {
              sent.destroy();
              resolve();
            });
            answer.on("error", () => {});
          });
          sent.once("error", reject);
        });
        assert.deepEqual(await ends(1), [{ kind: "disconnected" }]);
        assert.equal((await left()).rpm, expected);
      });
    }

    test("a lease that the handler closed is left alone", async (t) => {
      const { ask, left, ends } = await started(t, front, {}, async () => {
        await currentLease()?.rollback();
        return {};
      });
      await (await ask()).text();
      await ends(1);
      assert.deepEqual(await left(), { rpm: 2, tpm: 100 });
    });

    test("fields that the handler has set stay", async (t) => {
      const { ask } = await started(t, front, {}, async () => ({ headers: { ratelimit: "mine" } }));
      const answer = await ask();
      assert.equal(answer.headers.get("ratelimit"), "mine");
      assert.ok(answer.headers.has("ratelimit-policy"));
    });

    test("options by functions, sync and async, with stored limits and plans", async (t) => {
      const { ask, limiter, left, ends } = await started(t, front, {
        key: async (header) => header("x-user"),
        resource: (header) => header("x-resource") ?? "GET /",
        limits: async () => [Limit.perMinute("rpm", 5)],
        consume: (header) => ({ rpm: Number(header("x-cost")) }),
        skip: (header) => header("x-skip") !== undefined,
      });
      const headers = { "x-user": "auth0|42", "x-cost": "3" };
      const answer = await ask("/found/a", { headers });
      assert.equal(answer.headers.get("ratelimit"), '"rpm";r=2;t=36');
      assert.equal((await ask("/found/a", { headers })).status, 429);
      const skipped = await ask("/found/a", { headers: { ...headers, "x-skip": "1" } });
      assert.deepEqual([skipped.status, skipped.headers.has("ratelimit")], [200, false]);
      await ends(1);
      const [own] = await limiter.available({
        entityId: "text:auth0_7C42",
        resource: "text:GET_20/",
        limits: [Limit.perMinute("rpm", 5)],
      });
      assert.equal(own?.available, 2);
      assert.equal((await left()).rpm, 2);
      const nobody = await ask("/found/a");
      assert.equal(nobody.status, 400);
      assert.equal(((await nobody.json()) as { code: string }).code, "key_missing");
    });

    test("without a key the client's address is one; the default cost is one of each", async (t) => {
      const clock = new SimulatedClock(NOON_MS);
      const limiter = await RateLimiter.open({ store: "memory", clock });
      const server = await front.start({ limiter, limits }, ok);
      t.after(() => server.close());
      await (await fetch(`${server.url}/found/a`)).text();
      const all = await limiter.available({ entityId: "ip-127.0.0.1", resource: "http", limits });
      assert.deepEqual(
        all.map(({ available }) => available),
        [1, 99],
      );
    });

    test("what key throws goes to the framework, and nothing is taken", async (t) => {
      const { ask, left } = await started(t, front, {
        key: () => {
          throw new Error("no such user");
        },
      });
      const answer = await ask();
      assert.equal(answer.status, 500);
      assert.match(await answer.text(), /no such user/);
      assert.equal((await left()).rpm, 2);
    });

    test("a disabled resource is a 403, and an amount that never fits a 413", async (t) => {
      const { ask, limiter, ends } = await started(t, front, {
        consume: (header) => ({ rpm: Number(header("x-cost") ?? 1), tpm: 1 }),
      });
      const large = await ask("/found/a", { headers: { "x-cost": "3" } });
      assert.equal(large.status, 413);
      assert.equal(((await large.json()) as { code: string }).code, "amount_above_capacity");
      await (await ask()).text();
      await ends(1);
      await limiter.setAccess({ entityId: "key-1", resource: "http" }, "disabled");
      const off = await ask();
      assert.equal(off.status, 403);
      const problem = (await off.json()) as { code: string; type: string };
      assert.deepEqual(
        [problem.code, problem.type],
        ["resource_disabled", "urn:zae-limiter:problem:resource_disabled"],
      );
    });

    test("legacy fields, both, none; levels and units; a handler of one's own", async (t) => {
      for (const [headers, names] of [
        ["legacy", ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]],
        ["both", ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]],
        [false, []],
      ] as const) {
        const { ask } = await started(t, front, { headers });
        const answer = await ask();
        const found = [...answer.headers.keys()].filter((name) => name.includes("ratelimit"));
        assert.deepEqual(found.sort(), names);
        if (headers !== false) assert.ok((answer.headers.get("ratelimit") ?? "x").length > 0);
        await (await ask()).text();
        assert.equal((await ask()).headers.get("retry-after"), "30");
      }
      const { ask, limiter } = await started(t, front, {
        ...{ levels: "all", units: { tpm: "tokens" } },
        handler: (refusal) => ({ status: 418, headers: { "x-mine": refusal.primary.limit }, body: "tea" }),
      });
      await limiter.createEntity({ id: "acme" });
      await limiter.createEntity({ id: "key-1", parentId: "acme", cascade: true });
      await limiter.setLimits("acme", [Limit.perMinute("rpm", 50)]);
      const answer = await ask();
      assert.equal(answer.headers.get("ratelimit"), '"rpm";r=1;t=30, "tpm";r=90;t=6, "rpm^1";r=49;t=2');
      assert.match(answer.headers.get("ratelimit-policy") ?? "", /"tpm";q=100;qu="tokens";w=60/);
      await (await ask()).text();
      const refused = await ask();
      assert.deepEqual([refused.status, await refused.text()], [418, "tea"]);
      assert.deepEqual([refused.headers.get("x-mine"), refused.headers.get("retry-after")], ["rpm", "30"]);
      assert.match(refused.headers.get("ratelimit") ?? "", /"rpm\^1"/);
    });

    test("shadow mode tells and never refuses", async (t) => {
      const refusals: unknown[] = [];
      const events: unknown[] = [];
      const listener = (event: unknown) => events.push((event as { shadow?: boolean }).shadow);
      diagnostics.subscribe(CHANNELS.refused, listener);
      t.after(() => diagnostics.unsubscribe(CHANNELS.refused, listener));
      const leases: unknown[] = [];
      const { ask, left, limiter, faults } = await started(
        t,
        front,
        {
          shadow: (header) => header("x-shadow") !== "off",
          onRefused: ({ refusal, shadow, entityId, resource }) => {
            refusals.push([refusal.primary.limit, shadow, entityId, resource]);
          },
        },
        async ({ lease }) => {
          leases.push(lease?.status);
          return {};
        },
      );
      for (const _ of [1, 2]) await (await ask()).text();
      const third = await ask();
      assert.deepEqual([third.status, third.headers.has("retry-after")], [200, false]);
      assert.equal(third.headers.get("ratelimit"), '"rpm";r=0;t=30, "tpm";r=80');
      assert.deepEqual(leases, ["open", "open", undefined]);
      assert.equal((await ask("/found/a", { headers: { "x-shadow": "off" } })).status, 429);
      assert.deepEqual(refusals, [
        ["rpm", true, "key-1", "http"],
        ["rpm", false, "key-1", "http"],
      ]);
      assert.deepEqual(events, [true, undefined]);
      assert.equal((await left()).tpm, 80);
      limiter.invalidateCache();
      faults.failNext("take", "refused");
      assert.equal((await ask()).status, 200);
    });

    test("an outage blocks with 503, or lets requests pass", async (t) => {
      const leases: unknown[] = [];
      const handle: Handle = async ({ lease }) => {
        leases.push(lease?.degraded);
        return {};
      };
      const blocking = await started(t, front, {}, handle);
      blocking.faults.failNext("take", "refused");
      const answer = await blocking.ask();
      assert.deepEqual([answer.status, answer.headers.get("retry-after")], [503, "1"]);
      assert.equal(((await answer.json()) as { code: string }).code, "unavailable");
      const allowing = await started(t, front, { onUnavailable: "allow" }, handle);
      allowing.faults.failNext("take", "refused");
      assert.equal((await allowing.ask()).status, 200);
      const store = new FaultStore(openMemory(), {});
      const open = await RateLimiter.open({ store, clock: blocking.clock, onUnavailable: "allow" });
      const stricter = await started(t, front, { limiter: open, onUnavailable: "block" }, handle);
      store.failNext("take", "refused");
      assert.equal((await stricter.ask()).status, 503);
      const asItSays = await started(t, front, { limiter: Promise.resolve(open) }, handle);
      store.failNext("take", "refused");
      assert.equal((await asItSays.ask()).status, 200);
      assert.equal(leases.length, 2);
      assert.equal(leases[0], undefined);
      assert.match(String(leases[1]), /the store was unavailable/);
    });

    test("a request waits for tokens, and its wait ends when the client leaves", async (t) => {
      const { ask, clock, url, left, ends, closed } = await started(t, front, { wait: { maxMs: 60_000 } });
      for (const _ of [1, 2]) await (await ask()).text();
      const waiting = ask();
      await sleeping(clock, NOON_MS + 30_000);
      await clock.advance(30_000);
      assert.equal((await waiting).status, 200);
      await ends(3);
      const sent = get(`${url}/found/a`);
      sent.on("error", () => {});
      await sleeping(clock, NOON_MS + 60_000);
      sent.destroy();
      while (clock.nextWakeMs !== undefined) await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(60_000);
      assert.deepEqual([closed.length, (await left()).rpm], [3, 2]);
    });

    test("of two limiters on one request each has its lease, and the inner one is current", async (t) => {
      const order: string[] = [];
      const limiter = await RateLimiter.open({ store: "memory", clock: new SimulatedClock(NOON_MS) });
      const server = await front.start(
        {
          ...{
            limiter,
            limits,
            key: () => "outer",
            onClosed: ({ lease }) => void order.push(lease.remaining[0]?.entityId ?? ""),
          },
          inner: {
            limiter,
            limits,
            key: () => "inner",
            onClosed: ({ lease }) => void order.push(lease.remaining[0]?.entityId ?? ""),
          },
        },
        async ({ lease }) => ({ body: `${lease?.remaining[0]?.entityId} ${currentLease()?.remaining[0]?.entityId}` }),
      );
      t.after(() => server.close());
      assert.equal(await (await fetch(`${server.url}/found/a`)).text(), "inner inner");
      for (const entityId of ["outer", "inner"]) {
        const [rpm] = await limiter.available({ entityId, resource: "http", limits });
        assert.equal(rpm?.available, 1);
      }
      while (order.length < 2) await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(order.sort(), ["inner", "outer"]);
    });

    test("a store that fails while a lease closes, and what onClosed and onRefused throw, is told and not thrown", async (t) => {
      const told: string[] = [];
      const listener = (event: unknown) => told.push((event as { reason: string }).reason);
      diagnostics.subscribe(CHANNELS.degraded, listener);
      t.after(() => diagnostics.unsubscribe(CHANNELS.degraded, listener));
      const { ask, faults, ends } = await started(
        t,
        front,
        {
          onClosed: () => Promise.reject(new Error("no log")),
          onRefused: () => {
            throw new Error("no pager");
          },
        },
        async ({ path }) => ({ status: path.endsWith("/fails") ? 500 : 200 }),
      );
      faults.failNext("credit", "lostBefore");
      const answer = await ask("/found/fails");
      assert.equal(answer.status, 500);
      await answer.text();
      await ends(1);
      await (await ask()).text();
      await ends(2);
      assert.equal((await ask()).status, 429);
      assert.ok(
        told.some((reason) => /onClosed threw: no log/.test(reason)),
        told.join(),
      );
      assert.ok(
        told.some((reason) => /onRefused threw: no pager/.test(reason)),
        told.join(),
      );
      assert.ok(told.length >= 3, told.join());
    });
  });
}

/** Once something sleeps until that instant. */
async function sleeping(clock: SimulatedClock, untilMs: number): Promise<void> {
  while (clock.nextWakeMs !== untilMs) await new Promise((resolve) => setImmediate(resolve));
}
