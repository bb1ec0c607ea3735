import assert from "node:assert/strict";
import { test } from "node:test";
import { Records } from "../../src/adapters/dynamodb/records.ts";
import { type DynamoStore, dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import { Aggregator } from "../../src/aggregator/aggregator.ts";
import { Checkpoints } from "../../src/aggregator/checkpoints.ts";
import { handle } from "../../src/aggregator/handler.ts";
import { createLog } from "../../src/aggregator/log.ts";
import { Metrics } from "../../src/aggregator/metrics.ts";
import type { SweepReport } from "../../src/aggregator/sweep.ts";
import { Receipts } from "../../src/aggregator/write-archive.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { template } from "../../src/infra/template.ts";
import { atDepth } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { newGround, optionsFor } from "../dynamodb/store-kit.ts";
import { Meter } from "../dynamodb/units.ts";
import { claim, T0 } from "../kit/contract-kit.ts";

/** Assumed of a round trip to DynamoDB from a function of the same region; not measured. */
const ROUND_TRIP_MS = 15;
const both = [Limit.perMinute("rpm", 1_000), Limit.perMinute("tpm", 1_000)];
const HOUR_MS = 3_600_000;

await describeDynamo("what the aggregator costs", (dynamodb) => {
  test("sweeps, receipts and checkpoints cost what the guide says", async (t) => {
    let nowMs = T0;
    const clock = { now: () => nowMs, sleep: systemClock.sleep };
    const ground = await newGround(dynamodb, t, { clock });
    for (let i = 0; i < 20; i++) await ground.place.take([claim(`e${i}`, both, { rpm: 1 })], nowMs);
    await (ground.store as DynamoStore).scope(ground.namespaceId).settled();
    const meter = new Meter(dynamodb.client);
    const records = new Records({
      ...{ client: meter, tableName: ground.table, clock, random: Math.random, ids: systemRandom, timeoutMs: 10_000 },
    });
    const aggregator = new Aggregator({
      ...{ stack: ground.table, client: meter, records, objects: undefined, runner: "r", sweepAfterHours: 2 },
      store: dynamoOver(optionsFor(meter, ground.table, { clock })),
      place: { region: undefined, endpoint: undefined, credentials: undefined },
      ...{ snapshots: [], logLevel: "error", write: () => {}, clock, random: Math.random, ids: systemRandom },
    });
    const sweep = () =>
      aggregator.sweep({ untilMs: Number.POSITIVE_INFINITY, all: false, stopping: new AbortController().signal });
    nowMs += 5 * HOUR_MS;
    const closing = await meter.of(sweep);
    const idle = await meter.of(sweep);
    // Beside the buckets: taking the sweep, a note for each hundred, the namespace's mark, giving it back; two units each.
    // One read for each hundred: how long usage is kept. One: which resources are noted.
    assert.deepEqual(idle, { calls: 13, writes: 8, indexWrites: 0, reads: 27 });
    // Each bucket: its roll, its sheet and its letting go; a sheet that is made stands in two indexes.
    // The first sweep notes the resource, and that all of them are noted.
    assert.equal(closing.writes - idle.writes, 20 * 3 + 4);
    assert.equal(closing.indexWrites, 20 * 2 + 4);
    // A million buckets are gone round in one run of the stack's function, as it is deployed by default.
    const hundreds = atDepth(1, 3);
    const many = Array.from({ length: hundreds * 100 }, (_, i) => claim(`e${20 + i}`, both, { rpm: 1 }));
    await Promise.all(many.map((one) => ground.place.take([one], nowMs)));
    await (ground.store as DynamoStore).scope(ground.namespaceId).settled();
    nowMs += 5 * HOUR_MS;
    await sweep();
    const more = await meter.of(sweep);
    const callsForHundred = (more.calls - idle.calls) / hundreds;
    const { LambdaTimeout } = template({}).Parameters as { LambdaTimeout: { Default: number } };
    let untilMs = 0;
    const parts = { stack: "s", archive: undefined, metrics: new Metrics(), write: () => {}, clock };
    const log = createLog({ level: "error", write: () => {}, now: () => 0 });
    const noted = async (until: number) => {
      untilMs = until;
      return { complete: true } as SweepReport;
    };
    await handle(
      {},
      { getRemainingTimeInMillis: () => LambdaTimeout.Default * 1_000 },
      { ...parts, log, sweep: noted },
    );
    const neededMs = 10_000 * callsForHundred * ROUND_TRIP_MS;
    assert.ok(neededMs <= untilMs - nowMs, `${neededMs} of ${untilMs - nowMs} ms, ${callsForHundred} calls a hundred`);
    const receipts = new Receipts(records);
    const receipt = await meter.of(() => receipts.put("s3://a", { day: "2026-03-15", key: "audit/x", events: 3 }));
    assert.deepEqual(receipt, { calls: 1, writes: 2, indexWrites: 0, reads: 0 });
    const checkpoints = new Checkpoints({ records, label: "l", runner: "r", clock });
    await checkpoints.take("s");
    const checkpoint = await meter.of(() => checkpoints.save("s", "123456789012345678901"));
    assert.deepEqual(checkpoint, { calls: 1, writes: 2, indexWrites: 0, reads: 0 });
  });
});
