import assert from "node:assert/strict";
import { test } from "node:test";
import { createTable, deleteTable } from "../../src/entry/dynamodb.ts";
import { CHANNELS, Limit, LimiterError, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { deferred } from "../engines/http-kit.ts";
import { heard } from "../limiter/listening.ts";
import { describeDynamo } from "./dynamodb-local.ts";

const key = { entityId: "key", resource: "gpt-4" } as const;

await describeDynamo("closing a limiter on DynamoDB", ({ endpoint }) => {
  test("bodies are drained, waiters woken, and a body that ends later keeps its value", async (t) => {
    const stack = `test-closing-${process.pid}`;
    const credentials = { accessKeyId: "test", secretAccessKey: "test" };
    const way = { region: "eu-west-1", endpoint, credentials };
    await createTable({ ...way, stack });
    t.after(() => deleteTable({ ...way, stack }));
    const clock = new SimulatedClock(Date.now());
    const open = () => RateLimiter.open({ store: `dynamodb:${stack}`, ...way, clock, timeoutMs: 10_000 });
    const limiter = await open();
    await limiter.setResourceDefaults("gpt-4", [Limit.perDay("rpd", 2), Limit.perDay("tpd", 10_000)]);
    const degraded = heard(t, CHANNELS.degraded);
    const begun = [deferred<void>(), deferred<void>()] as const;
    const mayEnd = [deferred<void>(), deferred<void>()] as const;
    const bodies = [0, 1].map((i) =>
      limiter.withLease({ ...key, consume: { rpd: 1, tpd: 500 } }, async (lease) => {
        begun[i]?.resolve();
        await mayEnd[i]?.promise;
        await lease.adjust({ tpd: 100 });
        return lease.remaining.length;
      }),
    );
    await Promise.all(begun.map(({ promise }) => promise));
    const waiting = limiter
      .acquire({ ...key, consume: { rpd: 1 }, wait: { maxMs: 3_600_000 } })
      .catch((error: unknown) => error);
    const closing = limiter.close({ drainMs: 5_000 });
    const rejected = await waiting;
    assert.ok(rejected instanceof LimiterError && rejected.code === "closed", String(rejected));
    mayEnd[0].resolve();
    assert.equal(await bodies[0], 2);
    await clock.advance(5_000);
    await closing;
    assert.deepEqual(degraded, [], "the first was stored");
    mayEnd[1].resolve();
    assert.equal(await bodies[1], 2);
    assert.deepEqual(
      degraded.map(({ reason }) => reason),
      ["an adjustment is not stored yet", "an adjustment could not be stored"],
    );
    const again = await open();
    t.after(() => again.close());
    const left = await again.available(key);
    assert.equal(left.find(({ limit }) => limit === "tpd")?.available, 10_000 - 500 - 500 - 100);
  });
});
