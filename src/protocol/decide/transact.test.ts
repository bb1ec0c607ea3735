import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY } from "../../../test/protocol/kit.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { BucketCache } from "../process/bucket-cache.ts";
import type { Event } from "../process/machine.ts";
import { RETRY } from "../process/retry-policy.ts";
import {
  type Drawn,
  type DrawnTransaction,
  nextTransact,
  onTransact,
  type Plan,
  startTransact,
  type TransactDo,
  type TransactPhase,
  type TransactProgress,
  type Whole,
} from "./transact.ts";

// Every state of what is done to all shards at once, every event, and what comes of it. No store, no clock.

const { bucket } = KEY;
const WRITE = new WriteBuilder().update(KEY, "exists", undefined);
const WHOLES: readonly Whole[] = [{ cache: seenMissing(1), images: [] }];

/** The cache of a bucket whose first shard was not there, with the number of shards that it had then. */
function seenMissing(shardCount: number): BucketCache {
  const cache = new BucketCache(bucket);
  cache.noteShard(0, { image: undefined, eventuallyConsistent: false, atMs: 0, order: 1 }, shardCount);
  return cache;
}

type Given = Partial<Plan<string>> & { readonly drawn?: Drawn<string> };

const TRANSACTION: Drawn<string> = { kind: "transact", writes: [WRITE], event: undefined, result: "done it" };

function planOf({ drawn = TRANSACTION, ...given }: Given): Plan<string> {
  return {
    buckets: [bucket],
    readingMs: 0,
    untilMs: 1_000,
    policy: RETRY.takeTogether,
    record: undefined,
    draw: () => drawn,
    gaveUp: (_, cause) => (cause === undefined ? "others were faster" : `refused: ${cause}`),
    unknown: () => "unknown",
    ...given,
  };
}

const RECORDED: Given = {
  record: {
    key: { ...KEY, operation: "k" },
    done: (item) => (item === undefined ? undefined : "done before"),
  },
  policy: RETRY.operation,
};

const SENT: DrawnTransaction<string> = {
  do: "transact",
  writes: [WRITE],
  token: "t1",
  event: undefined,
  result: "done it",
  wholes: WHOLES,
};

const guess: TransactPhase<string> = { at: "guess" };
const reading: TransactPhase<string> = { at: "reading", looks: 0, buckets: [bucket] };
const verified: TransactPhase<string> = { at: "verified" };
const pausing: TransactPhase<string> = { at: "pausing" };
const record: TransactPhase<string> = { at: "record" };
const ambiguous: TransactPhase<string> = { at: "ambiguous", sent: SENT, cause: "lost" };

function progressIn(phase: TransactPhase<string>, given: Partial<TransactProgress<string>> = {}) {
  return { ...startTransact(planOf({}), "guess"), phase, ...given };
}

function shownPhase(phase: TransactPhase<string>): string {
  switch (phase.at) {
    case "settled":
      return `settled: ${phase.result}`;
    case "installing":
      return `installing ${phase.writes.length}, then ${shownPhase(phase.next)}`;
    default:
      return phase.at;
  }
}

function shown(action: TransactDo<string>): string {
  switch (action.do) {
    case "settle":
      return `to ${shownPhase(action.to)}`;
    case "transact":
      return `transact ${action.token}`;
    case "read":
      return `read ${action.keys.map(({ operation, shard }) => operation ?? shard).join()}`;
    default:
      return action.do;
  }
}

test("what to do in each phase of a transaction", async (t) => {
  const nothing: Drawn<string> = { kind: "result", result: "short", installs: [] };
  const table: readonly (readonly [TransactPhase<string>, Given, "time" | "attempts" | undefined, string])[] = [
    // phase    plan                                        over        what to do
    [guess, {}, undefined, "transact t9"],
    [guess, { drawn: nothing }, undefined, "to reading"],
    [reading, {}, undefined, "read 0"],
    [reading, {}, "attempts", "read 0"],
    [reading, {}, "time", "to settled: others were faster"],
    [record, RECORDED, undefined, "read k"],
    [verified, {}, undefined, "transact t9"],
    [verified, {}, "attempts", "to settled: others were faster"],
    [verified, { drawn: nothing }, undefined, "to installing 0, then settled: short"],
    [verified, { drawn: { ...nothing, installs: [WRITE] } }, undefined, "to installing 1, then settled: short"],
    [verified, { drawn: { kind: "install", installs: [WRITE] } }, undefined, "to installing 1, then reading"],
    [verified, { drawn: { kind: "wait" } }, undefined, "to pausing"],
    [{ at: "installing", writes: [WRITE], next: reading }, {}, undefined, "write"],
    [{ at: "installing", writes: [], next: reading }, {}, undefined, "to reading"],
    [pausing, {}, undefined, "pause"],
    [ambiguous, {}, undefined, "transact t1"],
    [ambiguous, {}, "attempts", "transact t1"],
    [ambiguous, {}, "time", "to settled: unknown"],
    [{ at: "settled", result: "done it" }, {}, "time", "to settled: done it"],
  ];
  for (const [phase, given, over, expected] of table) {
    await t.test(`${shownPhase(phase)}, ${given.drawn?.kind ?? "transact"}, ${over ?? "in time"}: ${expected}`, () => {
      const facts = { nowMs: 0, over, wholes: WHOLES, token: "t9" };
      assert.equal(shown(nextTransact(progressIn(phase), facts, planOf(given))), expected);
    });
  }
});

test("what an answer means for a transaction", async (t) => {
  const read: TransactDo<string> = { do: "read", keys: [KEY], consistent: true, atMs: 0, sets: undefined };
  const write: TransactDo<string> = { do: "write", write: WRITE, atMs: 0, set: undefined };
  const lost: Event = { kind: "unknown", cause: "lost" };
  const throttled: Event = { kind: "refused", why: "throttled", cause: "busy" };
  const conflict: Event = { kind: "refused", why: "conflict", cause: "busy" };
  const found: Event = { kind: "read", items: [{}], seen: [] };
  const none: Event = { kind: "read", items: [undefined], seen: [] };
  const down: Event = { kind: "unread", cause: "down" };
  const tired = { refusals: RETRY.takeTogether.resends };
  type Row = readonly [
    TransactPhase<string>,
    TransactDo<string>,
    Event,
    Given,
    Partial<TransactProgress<string>>,
    string,
  ];
  const table: readonly Row[] = [
    // phase     action  answer                 plan      so far  the phase then
    [verified, SENT, { kind: "committed" }, {}, {}, "settled: done it"],
    [verified, SENT, { kind: "outrun" }, {}, {}, "reading"],
    [verified, SENT, { kind: "outrun" }, { policy: RETRY.resize }, {}, "pausing"],
    [verified, SENT, throttled, {}, {}, "pausing"],
    [verified, SENT, throttled, {}, tired, "settled: refused: busy"],
    [verified, SENT, conflict, {}, tired, "pausing"],
    // After a lost answer: the same once more, by its token; where there is a record, the record is read.
    [verified, SENT, lost, {}, {}, "ambiguous"],
    [verified, SENT, lost, RECORDED, {}, "pausing"],
    [ambiguous, SENT, { kind: "committed" }, {}, {}, "settled: done it"],
    [ambiguous, SENT, { kind: "outrun" }, {}, {}, "settled: unknown"],
    [ambiguous, SENT, throttled, {}, {}, "settled: unknown"],
    [ambiguous, SENT, conflict, {}, {}, "settled: unknown"],
    [ambiguous, SENT, lost, {}, {}, "settled: unknown"],
    [guess, SENT, { kind: "outrun" }, {}, {}, "reading"],
    [reading, read, none, {}, {}, "verified"],
    [reading, read, down, {}, {}, "thrown: down"],
    [reading, read, down, { policy: RETRY.giveBack }, {}, "pausing"],
    [record, read, found, RECORDED, {}, "settled: done before"],
    [record, read, none, RECORDED, {}, "reading"],
    [pausing, { do: "pause" }, { kind: "moved on" }, {}, {}, "reading"],
    [pausing, { do: "pause" }, { kind: "moved on" }, RECORDED, {}, "record"],
    [{ at: "installing", writes: [WRITE], next: reading }, write, lost, {}, {}, "installing 0, then reading"],
  ];
  for (const [phase, action, event, given, so, expected] of table) {
    await t.test(`${shownPhase(phase)}, ${shown(action)}, ${event.kind}: ${expected}`, () => {
      const after = () => onTransact(progressIn(phase, so), action, event, { wholes: WHOLES }, planOf(given));
      if (expected.startsWith("thrown")) assert.throws(after, (cause) => expected === `thrown: ${cause}`);
      else assert.equal(shownPhase(after().phase), expected);
    });
  }
});

test("shards that do not agree on how many they are are read again, four times at most", () => {
  const wholes = [{ cache: seenMissing(2), images: [] }];
  let progress: TransactProgress<string> = progressIn(reading);
  const phases: string[] = [];
  const plan = planOf({});
  for (let i = 0; i < 4; i++) {
    const action = nextTransact(progress, { nowMs: 0, over: undefined, wholes, token: "t" }, plan);
    assert.equal(shown(action), "read 0,1");
    progress = onTransact(progress, action, { kind: "read", items: [], seen: [] }, { wholes }, plan);
    phases.push(progress.phase.at);
  }
  assert.deepEqual(phases, ["reading", "reading", "reading", "verified"]);
});

test("a bucket of which everything was forgotten while it was read is read again, and not taken for one that is gone", () => {
  const wholes = [{ cache: new BucketCache(bucket), images: [] }];
  const plan = planOf({});
  const action = nextTransact(progressIn(reading), { nowMs: 0, over: undefined, wholes, token: "t" }, plan);
  const event: Event = { kind: "read", items: [], seen: [] };
  assert.equal(onTransact(progressIn(reading), action, event, { wholes }, plan).phase.at, "reading");
  assert.equal(onTransact(progressIn(reading), action, event, { wholes: WHOLES }, plan).phase.at, "verified");
});
