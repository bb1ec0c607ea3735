import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedCheckpoints, SimulatedStream } from "../../test/aggregator/simulated-stream.ts";
import { auditImage, removal } from "../../test/aggregator/stream-records.ts";
import { LimiterError } from "../domain/names/errors.ts";
import { SimulatedClock } from "../testing/simulated-clock.ts";
import { type FollowerParts, startFollower } from "./follow.ts";
import { createLog } from "./log.ts";
import { type MetricName, Metrics } from "./metrics.ts";
import type { SweepReport } from "./sweep.ts";
import type { Archive } from "./write-archive.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const SWEPT: SweepReport = {
  ...{ complete: true, bucketsSwept: 0, hoursClosed: 0, shardsJoined: 0, deletionsFinished: 0, purgesFinished: 0 },
  failures: 0,
  shardsUnreadable: 0,
};

function world(given: Partial<FollowerParts> = {}) {
  const clock = new SimulatedClock(Date.UTC(2026, 2, 15));
  const stream = new SimulatedStream(1);
  const checkpoints = new SimulatedCheckpoints();
  const metrics = new Metrics();
  const put: string[] = [];
  const told: Readonly<Partial<Record<MetricName, number>>>[] = [];
  const sweeps: number[] = [];
  const log = createLog({ level: "error", write: () => {}, now: () => 0 });
  const archive = {
    objects: { location: "s3://x", put: async ({ key }: { key: string }) => void put.push(key) },
    receipts: { put: async () => {} },
    ...{ metrics, log },
  } as unknown as Archive;
  const follower = startFollower({
    ...{ runner: "r1", once: false, from: "oldest", metrics, log, clock, random: () => 0 },
    stream: {
      ...{
        archive,
        open: async () => stream,
        checkpoints: (_: string, runner: string) => checkpoints.for(runner, clock),
      },
    },
    sweep: async () => {
      sweeps.push(clock.now());
      return SWEPT;
    },
    onMetrics: (values) => told.push(values),
    ...given,
  });
  follower.done.catch(() => {});
  const expire = (eventId: string) =>
    stream.append("shard-1", (sequence) =>
      removal(
        auditImage({ namespaceId: "ns", entityId: "a", eventId, timestamp: "2026-01-01T00:00:00Z" }),
        "sdk",
        sequence,
      ),
    );
  return { clock, stream, put, told, sweeps, follower, expire };
}

test("it archives as events expire, sweeps every hour, tells what it counted every minute, and ends when told to", async () => {
  const { clock, put, told, sweeps, follower, expire } = world();
  expire("e1");
  await clock.advance(2 * MINUTE_MS);
  assert.equal(put.length, 1);
  assert.deepEqual(
    told.map(({ Archived }) => Archived),
    [1, undefined],
  );
  assert.equal(sweeps.length, 1);
  expire("e2");
  await clock.advance(2 * HOUR_MS);
  assert.equal(sweeps.length, 3);
  assert.equal(put.length, 2);
  const stopped = follower.stop();
  await clock.advance(1);
  await stopped;
  const report = await follower.done;
  assert.deepEqual([report.archived, report.records, report.gaps, report.sweep?.complete], [2, 2, 0, true]);
});

test("a sweep that fails does not end the runner, and the next one is made", async () => {
  let sweeps = 0;
  const { clock, follower, put, expire } = world({
    sweep: async () => {
      if (++sweeps === 1) throw new LimiterError("unavailable", "the table did not answer");
      return SWEPT;
    },
  });
  await clock.advance(HOUR_MS + 1);
  assert.equal(sweeps, 2);
  expire("e1");
  await clock.advance(MINUTE_MS);
  assert.equal(put.length, 1);
  const stopped = follower.stop();
  await clock.advance(1);
  await stopped;
  assert.equal((await follower.done).errors, 1);
});

test("a stream that may not be read ends it with the reason", async () => {
  const { clock, follower, sweeps } = world({
    stream: {
      archive: {} as Archive,
      open: () => Promise.reject(new LimiterError("stream_missing", "the table has no stream")),
      checkpoints: () => assert.fail("there is no stream"),
    },
  });
  await clock.advance(10);
  await assert.rejects(follower.done, { code: "stream_missing" });
  assert.ok(sweeps.length <= 1);
});

test("a table that got a new stream is followed on it, once the old one is read to its end", async () => {
  const first = new SimulatedStream(1);
  const second = new SimulatedStream(1);
  const opened: SimulatedStream[] = [];
  const clock = new SimulatedClock(Date.UTC(2026, 2, 15));
  const put: string[] = [];
  const log = createLog({ level: "error", write: () => {}, now: () => 0 });
  const metrics = new Metrics();
  const archive = {
    objects: { location: "s3://x", put: async ({ key }: { key: string }) => void put.push(key) },
    receipts: { put: async () => {} },
    ...{ metrics, log },
  } as unknown as Archive;
  const follower = startFollower({
    ...{ runner: "r1", once: false, from: "oldest", metrics, log, clock, random: () => 0, sweep: undefined },
    stream: {
      archive,
      open: async () => {
        const next = opened.length === 0 ? first : second;
        opened.push(next);
        return next;
      },
      checkpoints: (_, runner) => new SimulatedCheckpoints().for(runner, clock),
    },
    onMetrics: () => {},
  });
  await clock.advance(1_000);
  for (const [stream, eventId] of [
    [first, "e1"],
    [second, "e2"],
  ] as const) {
    const image = auditImage({ namespaceId: "ns", entityId: "a", eventId, timestamp: "2026-01-01T00:00:00Z" });
    stream.append("shard-1", (sequence) => removal(image, "sdk", sequence));
  }
  first.split("shard-1", 0);
  first.isOver = true;
  await clock.advance(MINUTE_MS);
  assert.equal(put.length, 2);
  assert.deepEqual(opened, [first, second]);
  const stopped = follower.stop();
  await clock.advance(1);
  await stopped;
});
