import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "../../testing/simulated-clock.ts";
import { Lane } from "./lane.ts";

interface Sent {
  readonly jobs: readonly string[];
  tell(job: string, outcome: string): void;
  answer(outcomes?: readonly string[]): Promise<void>;
  fail(error: Error): Promise<void>;
}

/** A lane whose writes are answered by hand; jobs that begin alike may leave together. `a1@30` has 30 ms, others have an hour. */
function laneOf(waitingMax: number) {
  const sent: Sent[] = [];
  const clock = new SimulatedClock(0);
  const shown = clock.skewed(0);
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  const lane = new Lane<string, string>({
    run: (jobs, tell) =>
      new Promise((resolve, reject) => {
        sent.push({
          jobs,
          tell,
          answer: (outcomes = jobs.map((job) => `${job} done`)) => {
            resolve(outcomes);
            return turn();
          },
          fail: (error) => {
            reject(error);
            return turn();
          },
        });
      }),
    mayJoin: (first, next) => first[0] === next[0],
    waitingMax,
    crowded: (job) => `${job} has no room`,
    clock: shown,
    untilMs: (job) => Number(job.split("@")[1] ?? 3_600_000),
    late: (job) => `${job} is late`,
  });
  return { lane, sent, clock, shown };
}

test("the first leaves at once, those that come meanwhile leave together, in their order", async () => {
  const { lane, sent } = laneOf(10);
  const outcomes = ["a1", "a2", "a3", "a4"].map((job) => lane.add(job, undefined));
  assert.deepEqual(
    sent.map(({ jobs }) => jobs),
    [["a1"]],
  );
  await sent[0]?.answer();
  assert.deepEqual(
    sent.map(({ jobs }) => jobs),
    [["a1"], ["a2", "a3", "a4"]],
  );
  await sent[1]?.answer();
  assert.deepEqual(await Promise.all(outcomes), ["a1 done", "a2 done", "a3 done", "a4 done"]);
});

test("one that may not join does not keep those behind it from joining, and is next", async () => {
  const { lane, sent } = laneOf(10);
  for (const job of ["a1", "a2", "b1", "a3", "b2"]) void lane.add(job, undefined);
  await sent[0]?.answer();
  await sent[1]?.answer();
  await sent[2]?.answer();
  assert.deepEqual(
    sent.map(({ jobs }) => jobs),
    [["a1"], ["a2", "a3"], ["b1", "b2"]],
  );
});

test("jobs that may not join leave one by one: there is never a second write under way", async () => {
  const { lane, sent } = laneOf(10);
  for (const job of ["a1", "b1", "c1"]) void lane.add(job, undefined);
  for (let i = 0; i < 3; i++) {
    assert.equal(sent.length, i + 1);
    assert.equal(lane.isBusy, true);
    await sent[i]?.answer();
  }
  assert.deepEqual(
    sent.map(({ jobs }) => jobs),
    [["a1"], ["b1"], ["c1"]],
  );
  assert.equal(lane.isBusy, false);
});

test("whoever finds the queue full is told at once, and the others are served", async () => {
  const { lane, sent } = laneOf(2);
  const outcomes = ["a1", "a2", "a3", "a4"].map((job) => lane.add(job, undefined));
  assert.equal(await outcomes[3], "a4 has no room");
  await sent[0]?.answer();
  await sent[1]?.answer();
  assert.deepEqual(await Promise.all(outcomes), ["a1 done", "a2 done", "a3 done", "a4 has no room"]);
});

test("who is aborted while waiting leaves the queue; who has left already is answered", async () => {
  const { lane, sent } = laneOf(10);
  const [first, waiting] = [new AbortController(), new AbortController()];
  const gone = lane.add("a1", first.signal);
  const aborted = lane.add("a2", waiting.signal);
  const other = lane.add("a3", undefined);
  const reason = new Error("enough");
  waiting.abort(reason);
  first.abort(reason);
  await assert.rejects(aborted, reason);
  await sent[0]?.answer();
  assert.deepEqual(sent[1]?.jobs, ["a3"]);
  await sent[1]?.answer();
  assert.equal(await gone, "a1 done");
  assert.equal(await other, "a3 done");
});

test("who comes aborted already does not wait", async () => {
  const { lane, sent } = laneOf(10);
  void lane.add("a1", undefined);
  const late = lane.add("a2", AbortSignal.abort(new Error("before")));
  late.catch(() => {});
  await sent[0]?.answer();
  assert.equal(sent.length, 1, "it was sent although nobody waits for it");
});

test("a place that is given up can be taken", async () => {
  const { lane } = laneOf(1);
  const waiting = new AbortController();
  void lane.add("a1", undefined);
  const aborted = lane.add("a2", waiting.signal);
  waiting.abort(new Error("enough"));
  await assert.rejects(aborted);
  const next = lane.add("a3", undefined);
  assert.notEqual(await Promise.race([next, Promise.resolve("waits")]), "a3 has no room");
});

test("an error reaches all who left together, and the next go on", async () => {
  const { lane, sent } = laneOf(10);
  const error = new Error("access denied");
  const first = lane.add("a1", undefined);
  const second = lane.add("a2", undefined);
  const third = lane.add("a3", undefined);
  for (const job of [first, second, third]) job.catch(() => {});
  await sent[0]?.fail(error);
  await assert.rejects(first, error);
  await sent[1]?.fail(error);
  await assert.rejects(second, error);
  await assert.rejects(third, error);
  const again = lane.add("a4", undefined);
  await sent[2]?.answer();
  assert.equal(await again, "a4 done");
});

test("who waits is answered in its own time, however long the write before it takes", async () => {
  const { lane, sent, clock } = laneOf(10);
  const answeredMs = new Map<string, number>();
  const outcomes = ["a1", "a2@900", "b1@43", "a3", "a4@43"].map((job) =>
    lane.add(job, undefined).finally(() => answeredMs.set(job, clock.now())),
  );
  for (let i = 0; i < 500; i++) await clock.advance(10);
  assert.deepEqual(Object.fromEntries(answeredMs), { "b1@43": 43, "a4@43": 43, "a2@900": 900 });
  await sent[0]?.answer();
  assert.deepEqual(sent[1]?.jobs, ["a3"], "who was told that it is late is sent no more");
  await sent[1]?.answer();
  const expected = ["a1 done", "a2@900 is late", "b1@43 is late", "a3 done", "a4@43 is late"];
  assert.deepEqual(await Promise.all(outcomes), expected);
});

test("who comes after the clock was put forward is answered in its own time", async () => {
  const { lane, clock, shown } = laneOf(10);
  void lane.add("a1", undefined);
  const answeredMs = new Map<string, number>();
  const heard = (job: string) => void lane.add(job, undefined).finally(() => answeredMs.set(job, clock.now()));
  heard("a2@332");
  await clock.advance(40);
  shown.step(250);
  heard("b1@340");
  heard("b2@390");
  for (let i = 0; i < 20; i++) await clock.advance(10);
  assert.deepEqual(Object.fromEntries(answeredMs), { "a2@332": 82, "b1@340": 90, "b2@390": 140 });
});

test("who is told before the others that left with it does not wait for them", async () => {
  const { lane, sent } = laneOf(10);
  const [first, early, late] = ["a1", "a2", "a3"].map((job) => lane.add(job, undefined));
  await sent[0]?.answer();
  sent[1]?.tell("a2", "a2 gave up");
  assert.equal(await early, "a2 gave up");
  await sent[1]?.answer(["a2 gave up", "a3 done"]);
  assert.deepEqual(await Promise.all([first, late]), ["a1 done", "a3 done"]);
});

test("a lane that is idle again keeps no timer", async () => {
  const { lane, sent, clock } = laneOf(10);
  void lane.add("a1", undefined);
  void lane.add("a2@500", undefined);
  assert.equal(clock.nextWakeMs, 500);
  await sent[0]?.answer();
  await sent[1]?.answer();
  assert.equal(clock.nextWakeMs, undefined);
});
