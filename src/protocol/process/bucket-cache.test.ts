import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { SimulatedClock } from "../../testing/simulated-clock.ts";
import { OWN } from "../item/dialect.ts";
import type { Job, JobOutcome } from "../take/job.ts";
import { BucketCaches } from "./bucket-caches.ts";
import { Lane } from "./lane.ts";

const NO_CALENDAR = {} as ConstructorParameters<typeof BucketCaches>[0];

test("however many buckets a process has to do with, it remembers 20,000 at most, and those that it uses", () => {
  const caches = new BucketCaches(NO_CALENDAR, OWN, 20_000);
  const busy = bucketKey("busy", "gpt-4");
  const first = caches.of(busy);
  let most = 0;
  for (let i = 0; i < 100_000; i++) {
    caches.of(bucketKey(`id-${i}`, "gpt-4"));
    if (i % 1_000 === 0) assert.equal(caches.of(busy), first);
    most = Math.max(most, caches.size);
  }
  assert.ok(most > 10_000 && most <= 20_000, `${most} buckets`);
});

test("a bucket that is written to is not forgotten for others: a second write beside the first would share its nonce", async () => {
  const caches = new BucketCaches(NO_CALENDAR, OWN, 20_000);
  const one = bucketKey("one", "gpt-4");
  const cache = caches.of(one);
  let answer = (_: readonly never[]) => {};
  const lane = new Lane<Job, JobOutcome>({
    run: () => new Promise((resolve) => (answer = resolve)),
    mayJoin: () => false,
    waitingMax: 1,
    crowded: () => ({ kind: "elsewhere" }),
    clock: new SimulatedClock(0),
    untilMs: () => 1_000,
    late: () => ({ kind: "contended" }),
  });
  cache.lanes[3] = lane;
  const written = lane.add({} as Job, undefined);
  const lookAtOthers = () => {
    for (let i = 0; i < 60_000; i++) caches.of(bucketKey(`id-${i}`, "gpt-4"));
  };
  lookAtOthers();
  assert.equal(caches.of(one), cache);
  answer([]);
  await written;
  lookAtOthers();
  assert.notEqual(caches.of(one), cache);
});

test("a bucket that somebody holds is not forgotten for others: what the work learns is noted where it looks", async () => {
  const caches = new BucketCaches(NO_CALENDAR, OWN, 20);
  const [one, two] = [bucketKey("one", "gpt-4"), bucketKey("two", "gpt-4")];
  const lookAtOthers = () => {
    for (let i = 0; i < 60; i++) caches.of(bucketKey(`id-${i}`, "gpt-4"));
  };
  const known = [caches.of(one), caches.of(two)];
  const failed = new Error("the store is gone");
  const work = caches.holding([one, two], async () => {
    // One piece of work may go by it beside another, and within it.
    await caches.holding([one], async () => lookAtOthers());
    lookAtOthers();
    assert.equal(caches.of(one), known[0]);
    assert.equal(caches.of(two), known[1]);
    throw failed;
  });
  await assert.rejects(work, failed);
  lookAtOthers();
  assert.ok(caches.size <= 20, `${caches.size} buckets`);
  assert.notEqual(caches.of(one), known[0]);
});
