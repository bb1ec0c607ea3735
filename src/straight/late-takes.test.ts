import assert from "node:assert/strict";
import { test } from "node:test";
import { StraightStore } from "../../test/kit/straight-store.ts";
import { calendar } from "../../test/straight/same-as-memory.ts";
import { systemDigest } from "../adapters/system/random.ts";
import { bucketKey } from "../domain/bucket/bucket-key.ts";
import { Limit } from "../domain/limits/limit.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import type { BatchReply } from "../ports/batch-store.ts";
import type { Answer, Claim } from "../ports/bucket-store.ts";
import { overriding } from "../testing/fault-store.ts";
import { SeededRandom } from "../testing/random.ts";
import { NO_TURNS, SimulatedClock } from "../testing/simulated-clock.ts";
import { StraightTakes } from "./takes.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const SET = limitSet([Limit.perHour("rph", 10), { ...Limit.perHour("soft", 1), soft: true } as Limit]);

function claim(entityId: string, tokens: number): Claim {
  const take = [
    { limit: "rph", milli: tokens * 1_000 },
    { limit: "soft", milli: tokens * 1_000 },
  ];
  return { bucket: bucketKey(entityId, "api"), set: SET, origin: { asOfMs: T0, generation: 1 }, take, bypass: false };
}

/** A store whose first answer takes `answerMs`, on a simulated clock. */
function opened(answerMs: number) {
  const clock = new SimulatedClock(T0);
  const store = new StraightStore(() => clock.now());
  store.generations.set("default", 1);
  let batches = 0;
  const slow = overriding(store, {
    apply: async (batch): Promise<BatchReply> => {
      const reply = await store.apply(batch);
      if (batches++ === 0) await clock.sleep(answerMs, undefined);
      return reply;
    },
  });
  const takes = new StraightTakes({
    ...{ store: slow, turns: NO_TURNS, calendar, digest: systemDigest, random: new SeededRandom(1), laneCount: 1 },
    waiting: {
      steadyMs: () => clock.now(),
      after: (ms, work) => {
        const end = new AbortController();
        clock.sleep(ms, end.signal).then(work, () => {});
        return () => end.abort();
      },
    },
    ...{ countsUsage: true, coalesce: true, clock: undefined, onAnswer: () => {}, requireOpen: () => {} },
  });
  const buckets = takes.bucketsOf("default", {
    generation: () => 1,
    isUnchanged: () => false,
    resolve: () => Promise.reject(new Error("Nothing is stored.")),
  });
  const take = async (claims: readonly Claim[]) => {
    const reply = await buckets.take(claims, { nowMs: clock.now(), timeoutMs: 1_000, generation: 1, atomic: true });
    return (reply as readonly Answer[]).map(({ kind }) => kind);
  };
  const held = async (entityId: string) =>
    (await buckets.read([bucketKey(entityId, "api")]))[0]?.limits[0]?.tokensMilli;
  return { clock, store, take, held };
}

test("a take that lands after its time was up is given back, with what it counted", async () => {
  const { clock, store, take, held } = opened(1_500);
  const [own, parent] = [claim("a", 3), claim("p", 3)];
  const answered = take([own, parent]);
  await clock.advance(1_000);
  assert.deepEqual(await answered, ["unavailable", "unavailable"]);
  assert.deepEqual([await held("a"), await held("p")], [7_000, 7_000]);
  await clock.advance(500);
  assert.deepEqual([await held("a"), await held("p")], [10_000, 10_000]);
  const counted = store.hoursIn("default").map(({ key, counts }) => [key[0], counts] as const);
  const sums = new Map<string, bigint>();
  for (const [entity, counts] of counted) {
    for (const [name, milli] of Object.entries(counts)) {
      const id = `${entity} ${name}`;
      sums.set(id, (sums.get(id) ?? 0n) + milli);
    }
  }
  assert.deepEqual(
    [...sums].filter(([, milli]) => milli !== 0n),
    [],
  );
  assert.deepEqual(await take([own]), ["taken"]);
});

test("a late take that opened the window of a session is given back, and its window stays and ends when it would have", async () => {
  const { clock, take, held } = opened(1_500);
  const set = limitSet([Limit.quota("session", 10, { resetAfterMs: 60_000 })]);
  const using = (tokens: number): Claim => ({
    ...claim("a", 0),
    set,
    take: [{ limit: "session", milli: tokens * 1_000 }],
  });
  const answered = take([using(3)]);
  await clock.advance(1_500);
  assert.deepEqual(await answered, ["unavailable"]);
  assert.equal(await held("a"), 10_000);
  // Opened at T0: 59 s later it goes on, a minute later it is over. In no minute more than two capacities are granted.
  await clock.advance(57_500);
  assert.deepEqual(await take([using(10)]), ["taken"]);
  assert.deepEqual(await take([using(1)]), ["short"]);
  await clock.advance(1_000);
  assert.deepEqual(await take([using(10)]), ["taken"]);
  await clock.advance(59_999);
  assert.deepEqual(await take([using(1)]), ["short"]);
  await clock.advance(1);
  assert.deepEqual(await take([using(1)]), ["taken"]);
});

test("a take that is answered in time stays taken", async () => {
  const { clock, take, held } = opened(900);
  const answered = take([claim("a", 3)]);
  await clock.advance(900);
  assert.deepEqual(await answered, ["taken"]);
  await clock.advance(10_000);
  assert.equal(await held("a"), 7_000);
});
