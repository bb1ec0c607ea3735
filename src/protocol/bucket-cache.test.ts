import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../domain/bucket-key.ts";
import { BucketCaches } from "./bucket-cache.ts";
import { OWN } from "./dialect.ts";

const NO_CALENDAR = {} as ConstructorParameters<typeof BucketCaches>[0];

test("however many buckets a process has to do with, it remembers 20,000 at most, and those that it uses", () => {
  const caches = new BucketCaches(NO_CALENDAR, OWN);
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
