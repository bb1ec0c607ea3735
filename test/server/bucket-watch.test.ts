import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { BucketWatch, REMEMBERED_MAX, WATCHED_MAX } from "../../src/server/bucket-watch.ts";
import type { EventFilter } from "../../src/server/event-stream.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { atDepth } from "../depth.ts";

const ALL: EventFilter = { types: undefined, entityId: undefined, resource: undefined };

test("watching a namespace with more buckets than can be watched keeps no more than the bound, and looks at no more", async (t) => {
  const clock = new SimulatedClock(1_800_000_000_000);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  t.after(() => limiter.close());
  await limiter.setSystemDefaults([Limit.perDay("rpd", 10)]);
  const idOf = (i: number) => `key-${String(i).padStart(6, "0")}`;
  const take = async (i: number) => {
    const lease = await limiter.acquire({ entityId: idOf(i), resource: "api", consume: { rpd: 1 } });
    await lease.settle();
  };
  const count = WATCHED_MAX + 3_000;
  // Without promises: there are very many.
  const consume = { rpd: 1 };
  for (let i = 0; i < count; i++) limiter.tryAcquireSync({ entityId: idOf(i), resource: "api", consume });

  let filters: readonly EventFilter[] = [ALL];
  const told: string[] = [];
  const watch = new BucketWatch({
    limiterOf: () => limiter,
    filters: () => filters,
    tell: ({ entityId }) => told.push(entityId),
  });
  const lookRound = async () => {
    for (let looks = 0; looks < WATCHED_MAX / 1_000; looks++) await watch.look();
  };
  for (let rounds = 0; rounds < atDepth(1, 2); rounds++) {
    await lookRound();
    assert.equal(watch.remembered, WATCHED_MAX);
  }
  assert.deepEqual(told, [], "nothing has changed");

  // As if another process had taken: the watch was not told.
  await take(WATCHED_MAX - 1);
  await take(count - 1);
  await lookRound();
  assert.deepEqual(told, [idOf(WATCHED_MAX - 1)], "one that is looked at");
  // What this process takes from is told wherever it stands.
  watch.touched(idOf(count - 1), "api");
  await watch.lookAtTouched();
  assert.deepEqual(told, [idOf(WATCHED_MAX - 1), idOf(count - 1)]);

  // New ones push others out of what is looked at; of those that stay, none is missed.
  const lease = await limiter.acquire({ entityId: "a-first", resource: "api", consume: { rpd: 1 } });
  await lease.settle();
  await take(5_000);
  await lookRound();
  assert.deepEqual(told.slice(2), [idOf(5_000)]);
  // Many who ask for one entity each, one after the other.
  for (let i = 0; i < atDepth(30, 300); i++) {
    filters = [{ ...ALL, entityId: idOf(count - 1 - i) }];
    await watch.look();
  }
  assert.ok(watch.remembered <= REMEMBERED_MAX, `${watch.remembered} are remembered`);
  filters = [{ ...ALL, resource: "api" }, ALL];
  await lookRound();
  assert.ok(watch.remembered <= REMEMBERED_MAX, `${watch.remembered} are remembered`);
  filters = [];
  await watch.look();
  assert.equal(watch.remembered, 0, "nobody watches any more");
});
