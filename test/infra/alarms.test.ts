import assert from "node:assert/strict";
import { test } from "node:test";
import { template } from "../../src/infra/template.ts";
import { type Datum, statesOf } from "./alarm-evaluator.ts";

// Series as the aggregator and AWS publish them, played through the definitions of the template. A sweep comes every hour, on the same minute;
// Lambda asks twice more for one that failed, after one and after two minutes.

const HOUR_S = 3_600;
const SWEEP_MINUTE_S = 7 * 60;
const { Resources, Parameters } = template({ name: "limits" });
const THRESHOLD_MS = (Parameters.LambdaDurationThreshold as { Default: number }).Default;

/** At which second the alarm begins, and when it ends; looked at with several ideas of how far CloudWatch looks back. */
function played(id: string, data: readonly Datum[], hours: number): { readonly from?: number; readonly to?: number } {
  const { Properties } = Resources[id]!;
  const found = [0, 2, 4].map((lookBack) => {
    const states = statesOf(Properties, data, { untilS: hours * HOUR_S, threshold: THRESHOLD_MS, lookBack });
    const periodS = (hours * HOUR_S) / states.length;
    const first = states.indexOf("ALARM");
    const end = states.indexOf("OK", first);
    return {
      ...(first < 0 ? {} : { from: (first + 1) * periodS }),
      ...(first < 0 || end < 0 ? {} : { to: (end + 1) * periodS }),
    };
  });
  // Whichever it is, it must not matter whether somebody is told.
  assert.ok(
    found.every(({ from }) => (from === undefined) === (found[0]!.from === undefined)),
    JSON.stringify(found),
  );
  return found.reduce((late, each) => ((each.from ?? 0) > (late.from ?? 0) ? each : late));
}

const everyHour = (hours: number, make: (hour: number, atS: number) => readonly Datum[]): readonly Datum[] =>
  Array.from({ length: hours }, (_, hour) => make(hour, hour * HOUR_S + SWEEP_MINUTE_S)).flat();
const datum = (metric: string, atS: number, value: number): Datum => ({ metric, atS, value });

test("-usage-closed: no sweep comes to its end for six hours, and it is told within the hour; then it ends", () => {
  const stuckFrom = 5;
  const data = everyHour(24, (hour, atS) => {
    const age = hour < stuckFrom || hour > 14 ? 2.1 : 2.1 + (hour - stuckFrom);
    return [datum("ClosedUntilAgeHours", atS, age)];
  });
  const { from = 0, to = 0 } = played("UsageClosedAlarm", data, 24);
  // 2.1 + 4 hours after the last good sweep the age is above 6.
  assert.equal(from, (stuckFrom + 4 + 1) * HOUR_S);
  assert.ok(to > from && to <= 18 * HOUR_S, `${to}`);
  const healthy = everyHour(24, (_, atS) => [datum("ClosedUntilAgeHours", atS, 2.9)]);
  assert.deepEqual(played("UsageClosedAlarm", healthy, 24), {});
});

test("-aggregator-error-rate: sweeps that fail every hour are told, where nothing else runs and beside a busy stream", () => {
  for (const batchesAnHour of [0, 60]) {
    const runs = (failed: (hour: number) => boolean) =>
      everyHour(24, (hour, atS) => [
        ...Array.from({ length: batchesAnHour }, (_, i) => datum("Invocations", hour * HOUR_S + i * 60, 1)),
        ...(failed(hour) ? [0, 60, 180] : [0]).flatMap((afterS) => [
          datum("Invocations", atS + afterS, 1),
          datum("Errors", atS + afterS, failed(hour) ? 1 : 0),
        ]),
      ]);
    const told = played(
      "LambdaErrorRateAlarm",
      runs((hour) => hour >= 5 && hour < 12),
      24,
    );
    assert.equal(told.from, 7 * HOUR_S, `${batchesAnHour} batches: after the second sweep that failed`);
    assert.ok((told.to ?? 0) > 12 * HOUR_S);
    assert.deepEqual(
      played(
        "LambdaErrorRateAlarm",
        runs((hour) => hour === 5),
        24,
      ),
      {},
      "one is an accident",
    );
  }
});

test("-aggregator-duration: a sweep that nears its timeout every hour is told", () => {
  const slow = everyHour(12, (_, atS) => [datum("Duration", atS, THRESHOLD_MS + 1)]);
  assert.equal(played("LambdaDurationAlarm", slow, 12).from, 2 * HOUR_S);
  const fine = everyHour(12, (_, atS) => [datum("Duration", atS, THRESHOLD_MS - 1)]);
  assert.deepEqual(played("LambdaDurationAlarm", fine, 12), {});
});

test("-archive-failures: S3 refuses, Lambda comes again every few minutes, and it is told within the hour; then it ends", () => {
  const failing = Array.from({ length: 60 }, (_, i) => datum("ArchiveFailures", 3 * HOUR_S + i * 240, 1));
  const { from = 0, to = 0 } = played("ArchiveFailuresAlarm", failing, 24);
  assert.ok(from > 3 * HOUR_S && from <= 4 * HOUR_S, `${from}`);
  assert.ok(to > 7 * HOUR_S && to <= 9 * HOUR_S, `${to}`);
  assert.deepEqual(played("ArchiveFailuresAlarm", [datum("ArchiveFailures", 5_000, 1)], 24), {}, "one is an accident");
});

test("-stream-iterator-age, the queue and throttles: each can begin, and each ends", () => {
  const every = (metric: string, value: number) =>
    Array.from({ length: 24 }, (_, i) => datum(metric, 2 * HOUR_S + i * 300, value));
  for (const [id, data] of [
    ["StreamIteratorAgeAlarm", every("IteratorAge", 3_600_001)],
    ["AggregatorDLQAlarm", every("ApproximateNumberOfMessagesVisible", 1)],
    ["DynamoDBReadThrottleAlarm", every("ReadThrottleEvents", 5)],
    ["DynamoDBWriteThrottleAlarm", every("WriteThrottleEvents", 5)],
    ["GSI2ThrottleAlarm", every("WriteThrottleEvents", 5)],
    ["GSI4ThrottleAlarm", every("ReadThrottleEvents", 5)],
  ] as const) {
    const { from = 0, to = 0 } = played(id, data, 24);
    assert.ok(from > 2 * HOUR_S && from <= 3 * HOUR_S, `${id} begins: ${from}`);
    assert.ok(to >= 4 * HOUR_S && to <= 7 * HOUR_S, `${id} ends: ${to}`);
  }
});

test("no alarm of the template was left out here", () => {
  const alarms = Object.entries(Resources).filter(([, { Type }]) => Type === "AWS::CloudWatch::Alarm");
  assert.deepEqual(
    alarms.map(([id]) => id).sort(),
    [
      ...["AggregatorDLQAlarm", "ArchiveFailuresAlarm", "DynamoDBReadThrottleAlarm", "DynamoDBWriteThrottleAlarm"],
      ...["GSI2ThrottleAlarm", "GSI4ThrottleAlarm", "LambdaDurationAlarm", "LambdaErrorRateAlarm"],
      ...["StreamIteratorAgeAlarm", "UsageClosedAlarm"],
    ].sort(),
  );
});
