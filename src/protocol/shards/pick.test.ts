import assert from "node:assert/strict";
import { test } from "node:test";
import { claim } from "../../../test/kit/contract-kit.ts";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { bucketFor } from "../../domain/bucket/bucket-state.ts";
import { type Limit, limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { BucketCache } from "../process/bucket-cache.ts";
import type { Job } from "../take/job.ts";
import { pickOther, pickShard } from "./pick.ts";

const Kinds = limitMakers(calendar);
const rpd = Kinds.perDay("rpd", 80);

/** Shards with so many tokens each, as far as they are known; of 80 over 8 shards each holds 10. */
function cacheOf(tokens: readonly (number | undefined)[], limit: Limit = rpd): BucketCache {
  const cache = new BucketCache(bucketKey("ada", "api"));
  for (const [shard, held] of tokens.entries()) {
    const unknown = { image: undefined, eventuallyConsistent: false, atMs: 0, order: 0 };
    cache.noteShard(shard, unknown, tokens.length);
    if (held === undefined) continue;
    const set = limitSet([limit]);
    const whole = bucketFor(undefined, { set, origin: { asOfMs: 0, generation: null } }, 0, calendar);
    const terms = { capacityMilli: 10_000, refillAmountMilli: 10_000, refillPeriodMs: 86_400_000 };
    const limits = whole.limits.map((one) => ({ ...one, terms, tokensMilli: held * 1000 }));
    const key = { bucket: cache.key, shard };
    const image = {
      key,
      item: {},
      state: { ...whole, limits },
      shardCount: tokens.length,
      canonical: "",
      hourEndMs: Infinity,
    };
    cache.noteShard(shard, { image, eventuallyConsistent: false, atMs: 0, order: 0 }, tokens.length);
  }
  return cache;
}

function jobOf(tokens: number): Job {
  const of = claim("ada", [rpd], { rpd: tokens });
  return { of, kind: "take", amounts: of.take, readingMs: 0, untilMs: 1_000, askedAtSequence: 0 };
}

/** Chance that gives these numbers, one after the other. */
const drawing = (...shards: number[]) => {
  const left = shards.map((shard) => (shard + 0.5) / 8);
  return () => left.shift() ?? 0;
};

test("a bucket that is not split is asked at its only shard", () => {
  assert.equal(pickShard(cacheOf([0]), jobOf(5), drawing()), 0);
});

test("of two drawn by chance the one with more left is asked", () => {
  const cache = cacheOf([1, 2, 3, 4, 5, 6, 7, 8]);
  assert.equal(pickShard(cache, jobOf(1), drawing(2, 6)), 6);
  assert.equal(pickShard(cache, jobOf(1), drawing(6, 2)), 6);
});

test("a shard that nothing is known of is taken for plenty, to learn of it", () => {
  assert.equal(pickShard(cacheOf([9, undefined, 9, 9, 9, 9, 9, 9]), jobOf(1), drawing(0, 1)), 1);
});

test("what is more than a share no single shard is asked for", () => {
  assert.equal(pickShard(cacheOf([9, 9, 9, 9, 9, 9, 9, 9]), jobOf(11), drawing(0, 1)), undefined);
  assert.notEqual(pickShard(cacheOf([9, 9, 9, 9, 9, 9, 9, 9]), jobOf(10), drawing(0, 1)), undefined);
});

test("the other shard is the best that is known, and only one that has enough", () => {
  fc.assert(
    fc.property(
      fc.array(fc.option(fc.integer({ min: -3, max: 10 }), { nil: undefined }), { minLength: 2, maxLength: 8 }),
      fc.integer({ min: 1, max: 10 }),
      fc.nat(7),
      (tokens, wanted, short) => {
        const other = pickOther(cacheOf(tokens), jobOf(wanted), short);
        const known = tokens.flatMap((held, shard) => (held === undefined || shard === short ? [] : [held]));
        const best = Math.max(...known);
        if (best < wanted) assert.equal(other, undefined);
        else assert.ok(other !== undefined && other !== short && tokens[other] === best);
      },
    ),
  );
});

test("the shard that doubted an earlier reading of configuration is asked by who has a later one", () => {
  const cache = cacheOf([5, 5, 1, 5, 5, 5, 5, 5]);
  cache.doubts[2] = { upTo: 7, says: "", isStamped: false };
  const read = (reading: number): Job => {
    const job = jobOf(1);
    return { ...job, of: { ...job.of, origin: { ...job.of.origin, reading } } };
  };
  assert.equal(pickShard(cache, read(7), drawing(2, 3)), 3);
  assert.equal(pickShard(cache, read(8), drawing(2, 3)), 2);
  assert.equal(pickShard(cache, jobOf(1), drawing(2, 3)), 3);
});
