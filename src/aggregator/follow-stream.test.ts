import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { SimulatedCheckpoints, SimulatedStream } from "../../test/aggregator/simulated-stream.ts";
import { change } from "../../test/aggregator/stream-records.ts";
import { seeds } from "../../test/depth.ts";
import { LimiterError } from "../domain/names/errors.ts";
import { SeededRandom } from "../testing/random.ts";
import { SimulatedClock } from "../testing/simulated-clock.ts";
import { followStream, type StreamFollowerParts } from "./follow-stream.ts";
import { createLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { type StreamRecord, sequenceOf } from "./stream-source.ts";

const T0 = Date.UTC(2026, 2, 15);

class World {
  readonly clock = new SimulatedClock(T0);
  readonly stream: SimulatedStream;
  readonly checkpoints = new SimulatedCheckpoints();
  /** The archived records, shard and sequence, in order; repetitions too. */
  readonly archived: string[] = [];
  readonly appended: string[] = [];
  readonly metrics = new Metrics();
  fails: () => boolean = () => false;

  constructor(shards: number) {
    this.stream = new SimulatedStream(shards);
  }

  append(shardId: string, count: number): void {
    for (let i = 0; i < count; i++) {
      const sequence = this.stream.append(shardId, (own) => change("ns/AUDIT#a", "#AUDIT#x", own));
      this.appended.push(`${shardId}/${sequence}`);
    }
  }

  start(runner: string, options: Partial<StreamFollowerParts> = {}) {
    const stop = new AbortController();
    let isDead = false;
    const never = new Promise<never>(() => {});
    // A process that was killed writes no more: a lease that it went on to renew would be that of a live one.
    const checkpoints = new Proxy(this.checkpoints.for(runner, this.clock), {
      get:
        (own, name) =>
        (...args: unknown[]) =>
          isDead ? never : (own[name as keyof typeof own] as (...given: unknown[]) => unknown)(...args),
    });
    const done = followStream({
      ...{ source: this.stream, checkpoints, runner, from: "oldest" },
      ...{ once: false, startedAtMs: this.clock.now(), metrics: this.metrics, clock: this.clock },
      log: createLog({ level: "error", write: () => {}, now: () => 0 }),
      stopping: stop.signal,
      archive: async (records: readonly StreamRecord[], shardId: string) => {
        // A process that was killed does nothing any more.
        if (isDead) return never;
        if (this.fails()) return { events: 0, failedAt: 0, cause: new LimiterError("archive_unavailable", "no") };
        for (const record of records) this.archived.push(`${shardId}/${sequenceOf(record)}`);
        return isDead ? never : { events: records.length, failedAt: undefined };
      },
      ...options,
    } as StreamFollowerParts);
    done.catch(() => {});
    return {
      done,
      stop: () => stop.abort(),
      kill: () => {
        isDead = true;
      },
    };
  }

  /** Nothing is missing. */
  check(message: string): void {
    assert.deepEqual([...new Set(this.archived)].sort(), [...new Set(this.appended)].sort(), message);
  }
}

/** Lets time pass until it has ended. */
async function ended<Answer>(world: World, run: { done: Promise<Answer> }, mostMs: number): Promise<Answer> {
  let isDone = false;
  run.done.then(
    () => (isDone = true),
    () => (isDone = true),
  );
  for (let ms = 0; !isDone && ms < mostMs; ms += 100) await world.clock.advance(100);
  assert.ok(isDone, `it has not ended within ${mostMs} ms`);
  return run.done;
}

describe("a runner that follows a stream", () => {
  test("once: reads parents before children, to the end, and ends", async () => {
    const world = new World(1);
    const [root] = world.stream.open_ as [string];
    world.append(root, 7);
    const [left, right] = world.stream.split(root, 2) as [string, string];
    world.append(left, 2);
    world.append(right, 4);
    assert.equal(await ended(world, world.start("r1", { once: true }), 60_000), "caughtUp");
    world.check("all of it");
    assert.equal(world.archived.length, 13);
    assert.ok(world.archived.slice(0, 7).every((each) => each.startsWith(`${root}/`)));
    assert.equal(world.checkpoints.items.get(root)?.isFinished, true);
    // Again: nothing is left, and nothing is repeated.
    await ended(world, world.start("r2", { once: true }), 60_000);
    assert.equal(world.archived.length, 13);
  });

  test("once: its own checkpoints come back in the stream, and it ends all the same", async () => {
    const world = new World(1);
    const [shard] = world.stream.open_ as [string];
    world.append(shard, 2);
    world.checkpoints.onWrite = (id = shard) => {
      world.stream.append(id, (sequence) => change("_/SYSTEM#", "#STREAM#label#shard-1", sequence));
    };
    await ended(world, world.start("r1", { once: true }), 60_000);
    assert.deepEqual(
      [...new Set(world.archived)].filter((each) => world.appended.includes(each)),
      world.appended,
    );
    assert.ok(world.stream.reads < 30, `${world.stream.reads} reads`);
  });

  test("once: a batch that cannot be archived ends it, and the checkpoint stays where it was", async () => {
    const world = new World(1);
    const [shard] = world.stream.open_ as [string];
    world.append(shard, 8);
    let batches = 0;
    world.fails = () => ++batches === 2;
    await assert.rejects(ended(world, world.start("r1", { once: true }), 60_000), { code: "archive_unavailable" });
    assert.equal(world.checkpoints.items.get(shard)?.sequence, world.appended[2]?.split("/")[1]);
    assert.equal(world.checkpoints.items.get(shard)?.owner, undefined);
    await ended(world, world.start("r1", { once: true }), 60_000);
    world.check("the second time");
  });

  test("a batch that cannot be archived is tried until it is there", async () => {
    const world = new World(1);
    const [shard] = world.stream.open_ as [string];
    world.append(shard, 5);
    world.fails = () => world.clock.now() < T0 + 120_000;
    const run = world.start("r1");
    await world.clock.advance(110_000);
    assert.equal(world.checkpoints.items.get(shard)?.sequence, undefined);
    assert.equal(world.checkpoints.items.get(shard)?.owner, "r1");
    await world.clock.advance(30_000);
    world.check("afterwards");
    run.stop();
    assert.equal(await ended(world, run, 1_000), "stopped");
    assert.equal(world.checkpoints.items.get(shard)?.owner, undefined);
  });

  test("two runners have their fair number each, and a third gets its own", async () => {
    const world = new World(6);
    const owners = () => {
      const counts = new Map<string | undefined, number>();
      for (const { owner } of world.checkpoints.items.values()) counts.set(owner, (counts.get(owner) ?? 0) + 1);
      return Object.fromEntries(counts);
    };
    const runs = [world.start("r1")];
    await world.clock.advance(20_000);
    assert.deepEqual(owners(), { r1: 6 });
    runs.push(world.start("r2"));
    await world.clock.advance(40_000);
    assert.deepEqual(owners(), { r1: 3, r2: 3 });
    runs.push(world.start("r3"));
    await world.clock.advance(40_000);
    assert.deepEqual(owners(), { r1: 2, r2: 2, r3: 2 });
    runs[0]?.stop();
    await world.clock.advance(40_000);
    assert.deepEqual(owners(), { r2: 3, r3: 3 });
    for (const run of runs) run.stop();
    await Promise.all(runs.map((run) => ended(world, run, 1_000)));
  });

  test("once, beside one that was killed: waits for its lease and reads the rest", async () => {
    const world = new World(1);
    const [shard] = world.stream.open_ as [string];
    world.append(shard, 2);
    const killed = world.start("r1");
    await world.clock.advance(5_000);
    killed.kill();
    world.append(shard, 4);
    await ended(world, world.start("r2", { once: true }), 120_000);
    world.check("taken over");
  });

  test("once, beside one that lives: leaves its shards to it", async () => {
    const world = new World(1);
    const living = world.start("r1");
    await world.clock.advance(5_000);
    assert.equal(await ended(world, world.start("r2", { once: true }), 120_000), "caughtUp");
    living.stop();
    await ended(world, living, 1_000);
  });

  test("records that were trimmed before they were read are told as a gap, and it goes on", async () => {
    const world = new World(1);
    const [shard] = world.stream.open_ as [string];
    world.append(shard, 3);
    await ended(world, world.start("r1", { once: true }), 60_000);
    assert.equal(world.metrics.take().Gap, undefined);
    world.append(shard, 2);
    world.appended.length = 3;
    world.stream.trim(shard);
    world.append(shard, 1);
    await ended(world, world.start("r1", { once: true }), 60_000);
    assert.equal(world.metrics.take().Gap, 1);
    world.check("what was left");
  });

  test("a shard that is gone before it was read to its end is a gap, told once", async () => {
    const world = new World(1);
    const [root] = world.stream.open_ as [string];
    world.append(root, 3);
    await ended(world, world.start("r1", { once: true }), 60_000);
    const [child] = world.stream.split(root, 1) as [string];
    world.append(child, 1);
    world.stream.trim(root);
    await ended(world, world.start("r1", { once: true }), 60_000);
    assert.equal(world.metrics.take().Gap, 1);
    world.check("the child");
    await ended(world, world.start("r1", { once: true }), 60_000);
    assert.equal(world.metrics.take().Gap, undefined);
  });

  test("from latest: what was there before is passed over, what comes later is not, in children neither", async () => {
    const world = new World(2);
    const [open, closed] = world.stream.open_ as [string, string];
    world.append(open, 3);
    world.append(closed, 2);
    world.stream.split(closed, 1);
    world.appended.length = 0;
    const run = world.start("r1", { from: "latest" });
    await world.clock.advance(3_000);
    world.append(open, 2);
    const [child] = world.stream.split(open, 1) as [string];
    world.append(child, 2);
    await world.clock.advance(30_000);
    world.check("from the start on");
    run.stop();
    await ended(world, run, 1_000);
  });

  test("a stream that was switched off is read to its end, and that is told", async () => {
    const world = new World(1);
    const [shard] = world.stream.open_ as [string];
    world.append(shard, 4);
    const run = world.start("r1");
    await world.clock.advance(2_000);
    world.stream.split(shard, 0);
    world.stream.isOver = true;
    assert.equal(await ended(world, run, 60_000), "over");
    world.check("to its end");
  });

  test("iterators that expire and a stream that is throttled cost nothing but time", async () => {
    const world = new World(1);
    const [shard] = world.stream.open_ as [string];
    let reads = 0;
    world.stream.fault = () => (["busy", "expired", undefined, undefined] as const)[reads++ % 4];
    world.append(shard, 20);
    const run = world.start("r1");
    await world.clock.advance(120_000);
    world.check("all of it");
    run.stop();
    await ended(world, run, 1_000);
  });

  test("random histories of runners that come, end and are killed, and of shards that split", async () => {
    for (const seed of seeds(12, 100)) {
      const random = new SeededRandom(seed);
      const world = new World(random.integer(1, 3));
      const lineage = new Map<string, string>();
      let runs: ReturnType<World["start"]>[] = [];
      for (let step = 0; step < 40; step++) {
        const shard = random.pick(world.stream.open_);
        switch (random.integer(0, 6)) {
          case 0:
            if (runs.length < 4) runs.push(world.start(`r${seed}-${step}`));
            break;
          case 1:
            runs.shift()?.stop();
            break;
          case 2:
            runs.shift()?.kill();
            break;
          case 3:
            for (const child of world.stream.split(shard, random.integer(1, 2))) lineage.set(child, shard);
            break;
          default:
            world.append(shard, random.integer(1, 5));
        }
        await world.clock.advance(random.pick([100, 1_000, 15_000]));
      }
      for (const run of runs) run.stop();
      runs = [];
      await ended(world, world.start(`last-${seed}`, { once: true }), 300_000);
      world.check(`seed ${seed}`);
      for (const [child, parent] of lineage) {
        const first = world.archived.findIndex((each) => each.startsWith(`${child}/`));
        const last = [...new Set(world.archived)].filter((each) => each.startsWith(`${parent}/`));
        const firstOfAll = last.map((each) => world.archived.indexOf(each));
        if (first >= 0)
          assert.ok(
            firstOfAll.every((at) => at < first),
            `seed ${seed}: ${child} before ${parent}`,
          );
      }
    }
  });
});
