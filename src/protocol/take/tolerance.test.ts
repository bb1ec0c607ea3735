import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { imageOf, itemOf } from "../../../test/protocol/kit.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { bucketFor } from "../../domain/bucket/bucket-state.ts";
import { type Limit, limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Image } from "../item/codec.ts";
import { BucketCache } from "../process/bucket-cache.ts";
import type { Move } from "./intent.ts";
import { guessesFor, noteSides } from "./shard-take.ts";

const Kinds = limitMakers(calendar);

function imageWith(limit: Limit, tokensMilli: number): Image {
  const origin = { asOfMs: 0, generation: null };
  const state = bucketFor(undefined, { set: limitSet([limit]), origin }, 0, calendar);
  return imageOf(itemOf({ ...state, limits: state.limits.map((held) => ({ ...held, tokensMilli })) }));
}

/** The cache of a bucket that others write to as well; `load`: how much of what drips in is taken. */
function inCompany(load: number): BucketCache {
  const cache = new BucketCache(bucketKey("ada", "api"));
  cache.otherWriterAtMs = 0;
  cache.utilization.set("rps", load);
  return cache;
}

const moving = (milli: number): Move[] => [{ limit: "rps", milli, whenShort: "refuse" }];
const rps = Kinds.perSecond("rps", 100, { burst: 1_600 });

test("alone on a bucket nobody guesses", () => {
  const alone = new BucketCache(bucketKey("ada", "api"));
  alone.utilization.set("rps", 1);
  assert.equal(guessesFor(alone, imageWith(rps, 1_600_000), moving(1_000), 0), undefined);
  assert.equal(guessesFor(inCompany(1), imageWith(rps, 1_600_000), moving(1_000), 60_000), undefined, "a minute later");
});

test("a limit that is little used is full when somebody comes: there is nothing to guess", () => {
  assert.equal(guessesFor(inCompany(0.1), imageWith(rps, 1_600_000), moving(1_000), 0), undefined);
});

test("below the brim there is nothing to guess: others only take it lower", () => {
  assert.equal(guessesFor(inCompany(1), imageWith(rps, 1_599_999), moving(1_000), 0), undefined);
  assert.notEqual(guessesFor(inCompany(1), imageWith(rps, 1_599_999), moving(1_000), 1), undefined);
});

test("over the brim at most a second's refill and a sixteenth is given up, and only where it is two requests or more", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5_000 }),
      fc.integer({ min: 1, max: 5_000 }),
      fc.constantFrom(1_000, 60_000, 3_600_000),
      fc.integer({ min: 1, max: 5_000_000 }),
      (capacity, refillAmount, refillPeriodMs, milli) => {
        const limit = Kinds.custom("rps", { capacity, refillAmount, refillPeriodMs });
        const guess = guessesFor(inCompany(1), imageWith(limit, capacity * 1000), moving(milli), 0)?.get("rps");
        assert.equal(guess?.side, "over");
        const spare = guess?.spareMilli ?? -1;
        assert.ok(spare >= 0 && spare * 16 <= capacity * 1000);
        assert.ok(spare * refillPeriodMs <= refillAmount * 1_000_000);
        if (spare > 0) assert.ok(spare >= 2 * milli && milli <= capacity * 1000 - spare);
      },
    ),
  );
});

test("what was right lately is expected again", () => {
  const cache = inCompany(1);
  const full = imageWith(rps, 1_600_000);
  // Found below when it was thought to be over.
  noteSides(cache, imageWith(rps, 1_500_000), { moves: moving(1_000), guesses: undefined }, 0, false);
  assert.equal(guessesFor(cache, full, moving(1_000), 0)?.get("rps")?.side, "below");
  // A take was applied, and before it the bucket stood at the brim.
  noteSides(cache, imageWith(rps, 1_599_000), { moves: moving(1_000), guesses: undefined }, 0, true);
  assert.equal(guessesFor(cache, full, moving(1_000), 0)?.get("rps")?.side, "over");
});
