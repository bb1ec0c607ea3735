import assert from "node:assert/strict";
import { test } from "node:test";
import { claim } from "../../../test/kit/contract-kit.ts";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { ENV, imageOf, itemOf } from "../../../test/protocol/kit.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { bucketFor } from "../../domain/bucket/bucket-state.ts";
import { type Limit, limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Item } from "../../ports/item-store.ts";
import { BucketCache } from "../process/bucket-cache.ts";
import type { Job } from "../take/job.ts";
import { ConfigReadings } from "./config-readings.ts";

const Kinds = limitMakers(calendar);
const old = Kinds.perMinute("rpm", 100);
const changed = Kinds.perMinute("rpm", 50);

/** An item whose limits were read at 1000. */
function seen(limit: Limit, more: Item = {}) {
  const origin = { asOfMs: 1_000, generation: null };
  const state = bucketFor(undefined, { set: limitSet([limit]), origin }, 1_000, calendar);
  return { image: imageOf({ ...itemOf(state), ...more }), eventuallyConsistent: false, atMs: 1_000 };
}

function jobOf(limit: Limit, reading: number | undefined, asOfMs: number): Job {
  const origin = { asOfMs, generation: null, ...(reading === undefined ? {} : { reading }) };
  const of = claim("ada", [limit], { rpm: 1 }, { origin });
  return { of, kind: "take", amounts: of.take, readingMs: 5_000, untilMs: 9_000, askedAtSequence: 0 };
}

const cacheOf = (entityId = "ada") => new BucketCache(bucketKey(entityId, "api"));

test("where bucket and cache agree there is nothing to doubt", () => {
  const readings = new ConfigReadings();
  assert.equal(readings.doubtOf(cacheOf(), seen(old), [jobOf(old, readings.begin(), 2_000)], ENV), "none");
});

test("a difference is doubted until configuration was read that began after the doubt", () => {
  const readings = new ConfigReadings();
  const cache = cacheOf();
  const cached = readings.begin();
  // Another reading was under way when the doubt arose: it may have seen what was before.
  const underWay = readings.begin();
  assert.equal(readings.doubtOf(cache, seen(old), [jobOf(changed, cached, 2_000)], ENV), "configSuspect");
  assert.ok(readings.mustBeConsistent(cache.key.id));
  assert.equal(readings.doubtOf(cache, seen(old), [jobOf(changed, underWay, 2_000)], ENV), "configSuspect");
  assert.equal(readings.doubtOf(cache, seen(old), [jobOf(changed, readings.begin(), 2_000)], ENV), "confirmed");
});

test("once they agree the doubt is over, and the next difference is a new one", () => {
  const readings = new ConfigReadings();
  const cache = cacheOf();
  assert.equal(readings.doubtOf(cache, seen(old), [jobOf(changed, readings.begin(), 2_000)], ENV), "configSuspect");
  const again = readings.begin();
  assert.equal(readings.doubtOf(cache, seen(changed), [jobOf(changed, again, 2_000)], ENV), "none");
  assert.ok(!readings.mustBeConsistent(cache.key.id));
  assert.equal(readings.doubtOf(cache, seen(old), [jobOf(changed, again, 2_000)], ENV), "configSuspect");
});

test("a doubt that was forgotten for many others is not answered by a reading that need not have been consistent", () => {
  const readings = new ConfigReadings(4);
  const memories = ["ada", "bob", "cyd", "dan", "eve"].map(cacheOf);
  const cached = readings.begin();
  for (const cache of memories) {
    assert.equal(readings.doubtOf(cache, seen(old), [jobOf(changed, cached, 2_000)], ENV), "configSuspect");
  }
  const [forgotten, , , , last] = memories as [BucketCache, unknown, unknown, unknown, BucketCache];
  assert.ok(!readings.mustBeConsistent(forgotten.key.id));
  assert.ok(readings.mustBeConsistent(last.key.id));
  const again = jobOf(changed, readings.begin(), 2_000);
  assert.equal(readings.doubtOf(last, seen(old), [again], ENV), "confirmed");
  assert.equal(readings.doubtOf(forgotten, seen(old), [again], ENV), "configSuspect");
  assert.ok(readings.mustBeConsistent(forgotten.key.id));
  assert.equal(readings.doubtOf(forgotten, seen(old), [jobOf(changed, readings.begin(), 2_000)], ENV), "confirmed");
});

test("who has read before the bucket did goes by the bucket, without doubt", () => {
  const readings = new ConfigReadings();
  assert.equal(readings.doubtOf(cacheOf(), seen(old), [jobOf(changed, readings.begin(), 999)], ENV), "none");
});

test("marks that say that configuration changed are doubted, whatever the limits", () => {
  for (const mark of [{ vu: 0 }, { disabled: true }, { bypass: 9_999_999 }]) {
    const readings = new ConfigReadings();
    const cache = cacheOf();
    assert.equal(readings.doubtOf(cache, seen(old, mark), [jobOf(old, readings.begin(), 2_000)], ENV), "configSuspect");
    assert.equal(readings.doubtOf(cache, seen(old, mark), [jobOf(old, readings.begin(), 2_000)], ENV), "confirmed");
  }
});

test("limits given with a request, a bucket that is not there, and a debit cast no doubt", () => {
  const readings = new ConfigReadings();
  assert.equal(readings.doubtOf(cacheOf(), seen(old), [jobOf(changed, undefined, 2_000)], ENV), "none");
  const missing = { image: undefined, eventuallyConsistent: false, atMs: 0 };
  assert.equal(readings.doubtOf(cacheOf(), missing, [jobOf(changed, readings.begin(), 2_000)], ENV), "none");
  const debit: Job = { ...jobOf(changed, readings.begin(), 2_000), kind: "debit" };
  assert.equal(readings.doubtOf(cacheOf(), seen(old), [debit], ENV), "none");
});

test("X18: buckets that were doubted and never asked for again are not all remembered", () => {
  const readings = new ConfigReadings();
  const reading = readings.begin();
  const image = seen(old);
  const idOf = (i: number) => bucketKey(`e${i}`, "api");
  for (let i = 0; i < 30_000; i++) {
    readings.doubtOf(new BucketCache(idOf(i)), image, [jobOf(changed, reading, 2_000)], ENV);
  }
  assert.ok(readings.mustBeConsistent(idOf(29_999).id));
  assert.ok(readings.mustBeConsistent(idOf(20_000).id));
  assert.ok(!readings.mustBeConsistent(idOf(0).id));
});

test("a stamp that went and came again is doubted again: what was read because of the first does not answer it", () => {
  const readings = new ConfigReadings();
  const cache = cacheOf();
  const stamped = seen(old, { disabled: true });
  assert.equal(readings.doubtOf(cache, stamped, [jobOf(old, readings.begin(), 2_000)], ENV), "configSuspect");
  const after = readings.begin();
  assert.equal(readings.doubtOf(cache, stamped, [jobOf(old, after, 2_000)], ENV), "confirmed");
  cache.noteShard(0, { ...seen(old), eventuallyConsistent: false, atMs: 2_000, order: 1 }, 1);
  assert.equal(readings.doubtOf(cache, stamped, [jobOf(old, after, 2_000)], ENV), "configSuspect");
});

test("an image that may be old does not replace a doubt that arose since: reading configuration comes to an end", () => {
  const readings = new ConfigReadings();
  const cache = cacheOf();
  const now = seen(old, { bn: 2 });
  const before = { ...seen(old, { bn: 1 }), eventuallyConsistent: true };
  assert.equal(readings.doubtOf(cache, now, [jobOf(changed, readings.begin(), 2_000)], ENV), "configSuspect");
  const again = [jobOf(changed, readings.begin(), 2_000)];
  assert.equal(readings.doubtOf(cache, before, again, ENV), "configSuspect", "look at what is there now");
  assert.equal(readings.doubtOf(cache, now, again, ENV), "confirmed");
});

test("an image from before a stamp does not take the stamp for gone: reading configuration comes to an end", () => {
  const readings = new ConfigReadings();
  const cache = cacheOf();
  const stamped = seen(old, { vu: 0, bn: 2 });
  const before = { ...seen(old, { bn: 1 }), eventuallyConsistent: true, order: 1 };
  assert.equal(readings.doubtOf(cache, stamped, [jobOf(old, readings.begin(), 2_000)], ENV), "configSuspect");
  // A transaction shows no items, so its bucket is met anew, by a read that may be old.
  cache.forget();
  cache.noteShard(0, before, 1);
  assert.equal(readings.doubtOf(cache, stamped, [jobOf(old, readings.begin(), 2_000)], ENV), "confirmed");
});
