import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ClientLimiter } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/options.ts";
import { RateLimiterUnavailable } from "../../src/entry/errors.ts";
import { Limit } from "../../src/entry/index.ts";
import { serviceOf } from "../server/service-kit.ts";
import { type Fate, lossyProxy, type Seen } from "./lost-answers.ts";

const on = { entityId: "key-1", resource: "gpt-4" };
const LOST: readonly Fate[] = ["cutBefore", "cutInHeaders", "cutInBody", "cutAfter", "is502", "is504"];

/** A clock on which every wait is over at once, but for time bounds, which are never. */
const hasty = { now: () => 0, sleep: async () => {}, sleepInBackground: () => new Promise<void>(() => {}) };

/** A service behind a proxy that has a fate for each of the next requests. */
async function lossy(t: TestContext, options: Partial<ClientOptions> = {}) {
  const { url, limiter } = await serviceOf(t);
  const fates: Fate[] = [];
  const { url: through, seen } = await lossyProxy(t, url, () => fates.shift() ?? "passes");
  const client = new ClientLimiter({ url: through, ...options }, hasty);
  const left = async () => (await limiter.available(on)).find(({ limit }) => limit === "tpm")?.available;
  /** What was sent by some work whose first answers are lost. */
  const during = async (lost: readonly Fate[], work: () => Promise<unknown>): Promise<readonly Seen[]> => {
    seen.length = 0;
    fates.push(...lost);
    await work();
    return [...seen];
  };
  return { client, limiter, left, during, seen, fates };
}

for (const fate of LOST) {
  test(`what charges or gives back is done once, though its answer is lost: ${fate}`, async (t) => {
    const { client, left, during } = await lossy(t);
    const keys = async (lost: readonly Fate[], work: () => Promise<unknown>) => {
      const sent = await during(lost, work);
      assert.deepEqual(
        [sent.length, new Set(sent.map(({ key, body }) => `${key} ${body}`)).size],
        [lost.length + 1, 1],
      );
    };
    let lease = await client.acquire({ ...on, consume: { tpm: 1 } });
    await lease.rollback();
    await keys([fate, fate], async () => {
      lease = await client.acquire({ ...on, consume: { tpm: 400 } });
    });
    assert.equal(await left(), 19_600);
    await keys([fate], () => lease.adjust({ tpm: 100 }));
    assert.deepEqual([await left(), lease.consumed], [19_500, { tpm: 500 }]);
    await keys([fate, fate], () => lease.consume({ tpm: 50 }));
    assert.deepEqual([await left(), lease.consumed], [19_450, { tpm: 550 }]);
    await keys([fate], () => lease.release({ tpm: 150 }));
    assert.deepEqual([await left(), lease.consumed], [19_600, { tpm: 400 }]);
    await keys([fate, fate], () => lease.settle({ tpm: 100 }));
    assert.deepEqual([await left(), lease.status], [19_900, "settled"]);
    await keys([fate], async () => {
      const tried = await client.tryAcquire({ ...on, consume: { tpm: 900 } });
      assert.ok(tried.ok);
      lease = tried.lease;
    });
    assert.equal(await left(), 19_000);
    await keys([fate], () => lease.rollback());
    assert.deepEqual([await left(), lease.status], [19_900, "rolledBack"]);
    await keys([fate], async () => {
      assert.deepEqual(await client.topUp({ ...on, amounts: { tpm: 60 } }), {
        ...{ ...on, amounts: { tpm: 60 }, repeated: false },
      });
    });
    assert.equal(await left(), 19_960);
    await keys([fate], () => client.acquire({ ...on, consume: { tpm: 60 }, holdMs: 0 }));
    await keys([fate], async () => {
      assert.equal((await client.resetBucket({ ...on, limits: ["tpm"] })).repeated, false);
    });
    assert.equal(await left(), 20_000);
    await keys([fate, fate], () => client.setLimits("key-9", [Limit.perMinute("rpm", 3)]));
    await keys([fate, fate], () => client.getEntity("key-9").catch(() => {}));
  });

  test(`creating, changing and deleting is not repeated: ${fate}`, async (t) => {
    const { client, limiter, during } = await lossy(t);
    await limiter.createEntity({ id: "there" });
    await limiter.setLimits("there", [Limit.perMinute("rpm", 1)]);
    for (const work of [
      () => client.createEntity({ id: "made" }),
      () => client.createPlan({ id: "made" }),
      () => client.updateEntity("there", { name: "x" }),
      () => client.deleteLimits("there"),
      () => client.deleteEntity("there"),
    ]) {
      const sent = await during([fate], () => assert.rejects(work, RateLimiterUnavailable));
      assert.equal(sent.length, 1);
    }
    if (fate !== "cutBefore") assert.equal((await limiter.getEntity("made")).id, "made");
  });

  test(`after two repeats a lost answer is an outage: ${fate}`, async (t) => {
    const { client, seen, fates } = await lossy(t);
    fates.push(fate, fate, fate);
    await assert.rejects(client.acquire({ ...on, consume: { tpm: 1 } }), RateLimiterUnavailable);
    assert.equal(seen.length, 3);
  });
}

test("a set that was sent again says that it may have changed something", async (t) => {
  const { client, during } = await lossy(t);
  await during(["cutAfter"], async () => {
    assert.equal(await client.setLimits("key-1", [Limit.perMinute("rpm", 7)]), true);
  });
});

test("a repeat while the first is still under way waits as long as it is told", async (t) => {
  const { url } = await serviceOf(t);
  const { createServer } = await import("node:http");
  const slept: number[] = [];
  let asked = 0;
  const busy = createServer((request, response) => {
    request.resume();
    const code = "idempotency_in_progress";
    if (asked++ === 0)
      return response.writeHead(409, { "retry-after": "1" }).end(JSON.stringify({ code, detail: "x" }));
    fetch(new URL(request.url ?? "", url), {
      ...{ method: "POST", headers: { "content-type": "application/json" } },
      body: JSON.stringify({ ...on, consume: { tpm: 1 }, holdMs: 0 }),
    }).then(async (answer) => response.writeHead(answer.status).end(await answer.text()));
  });
  await new Promise<void>((resolve) => busy.listen(0, "127.0.0.1", resolve));
  t.after(() => busy.close().closeAllConnections());
  const client = new ClientLimiter(
    { url: `http://127.0.0.1:${(busy.address() as { port: number }).port}` },
    { ...hasty, sleep: async (ms: number) => void slept.push(ms) },
  );
  assert.equal((await client.acquire({ ...on, consume: { tpm: 1 }, holdMs: 0 })).status, "settled");
  assert.deepEqual(slept, [1_000]);
  asked = -2;
  const { RateLimiterUnavailable: Outage } = await import("../../src/entry/errors.ts");
  asked = 0;
  const always = createServer((request, response) => {
    request.resume();
    response.writeHead(409).end(JSON.stringify({ code: "idempotency_in_progress", detail: "x" }));
  });
  await new Promise<void>((resolve) => always.listen(0, "127.0.0.1", resolve));
  t.after(() => always.close().closeAllConnections());
  const stuck = new ClientLimiter({ url: `http://127.0.0.1:${(always.address() as { port: number }).port}` }, hasty);
  await assert.rejects(stuck.acquire({ ...on, consume: { tpm: 1 } }), Outage);
});

test("no answer within the time is a lost answer; a wait for tokens comes on top", async (t) => {
  const { url, limiter } = await serviceOf(t);
  const fates: Fate[] = ["hangs"];
  const { url: through, seen } = await lossyProxy(t, url, () => fates.shift() ?? "passes");
  const bounds: number[] = [];
  const clock = {
    ...hasty,
    // The bound of the first request is over once the proxy has it.
    sleepInBackground: (ms: number) => {
      bounds.push(ms);
      return bounds.length > 1 ? new Promise<void>(() => {}) : until(() => seen.length === 1);
    },
  };
  const client = new ClientLimiter({ url: through, timeoutMs: 250 }, clock);
  await client.acquire({ ...on, consume: { tpm: 10 }, holdMs: 0, wait: { maxMs: 4_000 } });
  assert.deepEqual(bounds, [4_250, 4_250]);
  assert.deepEqual([seen.length, (await limiter.available(on))[1]?.available], [2, 19_990]);
});

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}
