import assert from "node:assert/strict";
import { test } from "node:test";
import { rateLimit } from "../../src/entry/fetch.ts";
import { currentLease, Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

const HOLD_MS = 60_000;

test("a request holds its slot for as long as its answer takes, past the hold, and gives it back with the last byte", async () => {
  const clock = new SimulatedClock(1_800_000_000_000);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  const limits = [Limit.perHour("rph", 100), Limit.concurrent("parallel", 2, { holdMs: HOLD_MS })];
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const signals: (AbortSignal | undefined)[] = [];
  const handler = rateLimit(
    async () => {
      signals.push(currentLease()?.signal);
      const body = new ReadableStream({
        async start(controller) {
          controller.enqueue(new TextEncoder().encode("first"));
          await ended;
          controller.close();
        },
      });
      return new Response(body);
    },
    { limiter, limits, resource: "chat", key: (request) => request.headers.get("x-api-key") },
  );
  const ask = () => handler(new Request("http://localhost/", { headers: { "x-api-key": "key-1" } }));
  const [first, second] = [await ask(), await ask()];
  const read = Promise.all([first.text(), second.text()]);
  assert.equal(first.headers.get("ratelimit-policy"), '"rph";q=100;w=3600, "parallel";q=2');
  for (let i = 0; i < 12; i++) {
    const refused = await ask();
    assert.equal(refused.status, 429, `after ${i * 15} s`);
    assert.match(refused.headers.get("ratelimit") ?? "", /"parallel";r=0;t=\d+/);
    await clock.advance(HOLD_MS / 4);
  }
  end();
  assert.deepEqual(await read, ["first", "first"]);
  assert.ok(signals.every((signal) => signal !== undefined && !signal.aborted));
  assert.equal((await ask()).status, 200);
  await limiter.close();
});
