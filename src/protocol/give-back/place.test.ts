import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { imageOf, itemOf, KEY, withTokens } from "../../../test/protocol/kit.ts";
import { availableMilli, bucketFor, findLimit } from "../../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, ticketOf } from "../../domain/bucket/give-back.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Image } from "../item/codec.ts";
import { isRightPlace, type Placed, placesFor } from "./place.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const Kinds = limitMakers(calendar);
const set = limitSet([
  Kinds.quota("month", 100, { reset: { cron: "0 0 1 * *" } }),
  Kinds.custom("slow", { capacity: 100, refillAmount: 1, refillPeriodMs: 1_000_000_000_000 }),
]);
const whole = bucketFor(undefined, { set, origin: { asOfMs: 0, generation: null } }, T0, calendar);

/** A shard that holds so much of each limit, of 100 each. */
function shardWith(shard: number, month: number, slow: number): Image {
  const state = withTokens(withTokens(whole, "month", month * 1_000), "slow", slow * 1_000);
  return { ...imageOf(itemOf(state), { ...KEY, shard }), shardCount: 8 };
}

const anyShards = fc
  .array(fc.record({ month: fc.integer({ min: -50, max: 120 }), slow: fc.integer({ min: -50, max: 120 }) }), {
    minLength: 1,
    maxLength: 8,
  })
  .map((all) => all.map(({ month, slow }, shard) => shardWith(shard, month, slow)));
const anyAmounts = fc
  .record({ month: fc.nat(400), slow: fc.nat(400) })
  .map((all) => Object.entries(all).map(([limit, tokens]) => ({ limit, milli: tokens * 1_000 })));
const ticket = ticketOf(whole, [{ limit: "month", milli: 1 }], T0, calendar);

test("everything is placed once; what the shards have room for together must stay within their capacities", () => {
  fc.assert(
    fc.property(anyShards, anyAmounts, (images, amounts) => {
      const places = placesFor(images, amounts, { ticket, readingMs: T0, calendar });
      for (const { limit, milli } of amounts) {
        const roomIn = (image: Image) =>
          Math.max(0, 100_000 - availableMilli(image.state, findLimit(image.state, limit) as never, T0));
        const of = (place: Placed, all: "amounts" | "bounded") =>
          place[all].find((one) => one.limit === limit)?.milli ?? 0;
        const sum = (all: "amounts" | "bounded") => places.reduce((total, place) => total + of(place, all), 0);
        const room = images.reduce((total, image) => total + roomIn(image), 0);
        assert.equal(sum("amounts"), milli);
        assert.equal(sum("bounded"), Math.min(room, milli));
        for (const place of places) {
          const image = images[place.shard] as Image;
          assert.ok(of(place, "bounded") <= roomIn(image));
          assert.ok(isRightPlace(image, place, { ticket, readingMs: T0, calendar }));
        }
      }
    }),
  );
});

test("one shard with room for all of it gets all of it, the roomiest first", () => {
  const images = [shardWith(0, 90, 90), shardWith(1, 20, 50), shardWith(2, 40, 0)];
  const place = (month: number, slow: number) =>
    placesFor(
      images,
      [
        { limit: "month", milli: month * 1_000 },
        { limit: "slow", milli: slow * 1_000 },
      ],
      { ticket, readingMs: T0, calendar },
    ).map(({ shard, amounts }) => [shard, ...amounts.map(({ milli }) => milli / 1_000)]);
  assert.deepEqual(place(30, 40), [[1, 30, 40]], "the second limit goes where the first one goes");
  assert.deepEqual(place(30, 60), [
    [1, 30],
    [2, 60],
  ]);
  assert.deepEqual(place(100, 0), [
    [1, 80],
    [2, 20],
  ]);
});

test("what does not belong to the present period goes to one shard, to be counted", () => {
  const [place, ...others] = placesFor([shardWith(0, 90, 0), shardWith(1, 0, 0)], [{ limit: "month", milli: 5_000 }], {
    ticket: PLAIN_TICKET,
    readingMs: T0,
    calendar,
  });
  assert.deepEqual(others, []);
  assert.deepEqual(place, { shard: 0, shardCount: 8, amounts: [{ limit: "month", milli: 5_000 }], bounded: [] });
});

test("a shard that others have filled, or that is one of another number by now, is not the place any more", () => {
  const [place] = placesFor([shardWith(0, 50, 0)], [{ limit: "month", milli: 50_000 }], {
    ticket,
    readingMs: T0,
    calendar,
  });
  assert.ok(place !== undefined);
  assert.ok(isRightPlace(shardWith(0, 50, 0), place, { ticket, readingMs: T0, calendar }));
  assert.ok(isRightPlace(shardWith(0, 10, 0), place, { ticket, readingMs: T0, calendar }));
  assert.ok(!isRightPlace(shardWith(0, 51, 0), place, { ticket, readingMs: T0, calendar }));
  assert.ok(!isRightPlace({ ...shardWith(0, 50, 0), shardCount: 4 }, place, { ticket, readingMs: T0, calendar }));
});

test("a shard that no request came to since the last period is no place for what was taken in this one", () => {
  const daily = limitSet([Kinds.quota("month", 100, { reset: { cron: "0 0 * * *" } })]);
  const bucket = bucketFor(undefined, { set: daily, origin: { asOfMs: 0, generation: null } }, T0, calendar);
  const earlier = withTokens(bucket, "month", 10_000);
  const shard = { ...imageOf(itemOf(earlier)), shardCount: 2 };
  const day = 86_400_000;
  const taken = ticketOf({ ...bucket, epochMs: T0 + day }, [{ limit: "month", milli: 1 }], T0 + day, calendar);
  // By a clock that is behind, at which the shard is still in the period before.
  const [place] = placesFor([shard], [{ limit: "month", milli: 5_000 }], {
    ticket: taken,
    readingMs: T0 + 1,
    calendar,
  });
  assert.deepEqual(place?.bounded, [], "there is no room for it");
  const own = ticketOf(bucket, [{ limit: "month", milli: 1 }], T0, calendar);
  assert.equal(
    placesFor([shard], [{ limit: "month", milli: 5_000 }], { ticket: own, readingMs: T0 + 1, calendar })[0]?.bounded
      .length,
    1,
  );
});
