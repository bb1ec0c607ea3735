import assert from "node:assert/strict";
import { test } from "node:test";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { claim, HOUR_MS, TestedNamespace } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround, optionsFor } from "./store-kit.ts";
import { Meter } from "./units.ts";

const MIDNIGHT = Date.UTC(2026, 2, 15);
const limits = [Limit.perMinute("rpm", 1_000), Limit.perMinute("tpm", 100_000)];
const one = claim("customer-0123456789abcdef", limits, { rpm: 1, tpm: 500 });

await describeDynamo("what usage costs", (dynamodb) => {
  test("a take is one unit, a roll one, an hour's entry one, and three where it makes the sheet of a day", async (t) => {
    const ground = await newGround(dynamodb, t);
    const meter = new Meter(dynamodb.client);
    const clock = new SimulatedClock(MIDNIGHT);
    const store = dynamoOver(optionsFor(meter, ground.table, { clock }));
    const place = await TestedNamespace.in(store);
    const scope = store.scope(place.namespaceId);
    const hours = scope.hours as NonNullable<typeof scope.hours>;
    const took = (nowMs: number) =>
      meter.of(async () => assert.equal((await place.take([one], nowMs))[0]?.kind, "taken"));
    const spent = { calls: 1, writes: 1, indexWrites: 0, reads: 0 };
    await took(MIDNIGHT);
    for (let hour = 0; hour < 26; hour++) {
      const nowMs = MIDNIGHT + hour * HOUR_MS + 1_000;
      clock.set(nowMs);
      assert.deepEqual(await took(nowMs), spent, `the first take of hour ${hour}`);
      assert.deepEqual(await took(nowMs + 1), spent, "another take");
      const [closed] = await hours.close([{ bucket: one.bucket, shard: 0 }], { nowMs, afterHours: 0 });
      assert.deepEqual(closed, {
        kind: "open",
        hours: hour > 0 ? 1 : 0,
        shardCount: 1,
        openHour: nowMs / HOUR_MS - 1 / 3_600,
      });
      const { table, ...indexes } = meter.last;
      if (hour > 0) assert.equal(table, 1, "the entry on the sheet");
      if (hour > 0) assert.deepEqual(indexes, hour % 24 === 1 ? { GSI2: 1, GSI4: 1 } : {}, `the entry of hour ${hour}`);
    }
    const query = {
      entityId: one.bucket.entityId,
      resource: "api",
      window: "daily",
      fromMs: 0,
      toMs: 2 ** 53,
    } as const;
    const { items } = await place.scope.usage.query(query, { limit: 10 });
    assert.deepEqual(
      items.map(({ requests, counters }) => [requests, counters]),
      [
        [49, { rpm: 49, tpm: 24_500 }],
        [4, { rpm: 4, tpm: 2_000 }],
      ],
    );
  });
});
