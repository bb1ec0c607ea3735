import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { freshBucket } from "../../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET } from "../../domain/bucket/give-back.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Answer, Claim } from "../../ports/bucket-store.ts";
import { SimulatedClock } from "../../testing/simulated-clock.ts";
import { type ChainAnswer, type ChainOps, missingIn, scarceAfter, stagesOf, takeChain, yieldAt } from "./chain.ts";

const set = limitSet([limitMakers(calendar).perSecond("rps", 10)]);
const origin = { asOfMs: 0, generation: null };
const state = freshBucket(set, origin, 0, calendar);
const LEVELS = ["key", "project", "org"];
const CHAIN: readonly Claim[] = LEVELS.map((id) => ({
  bucket: bucketKey(id, "api"),
  set,
  origin,
  take: [{ limit: "rps", milli: 1_000 }],
  bypass: false,
}));

const taken: Answer = { kind: "taken", state, ticket: PLAIN_TICKET, shadowed: [] };
const short: Answer = { kind: "short", state };
const unavailable: Answer = { kind: "unavailable", cause: new Error("gone") };
const contended: Answer = { kind: "contended", state };
const unasked = undefined;

test("while nothing is scarce all levels go at once; scarce ones go first, one by one, in the order of the chain", () => {
  assert.deepEqual(stagesOf([false, false, false]), [[0, 1, 2]]);
  assert.deepEqual(stagesOf([false, true, false]), [[1], [0, 2]]);
  assert.deepEqual(stagesOf([true, false, true]), [[0], [2], [1]]);
  assert.deepEqual(stagesOf([true, true, true]), [[0], [1], [2]]);
});

test("a request waits for a level that is short only while it holds one before it", () => {
  const cases: readonly (readonly [readonly ChainAnswer[], number | undefined])[] = [
    [[taken, short, taken], 1],
    [[taken, taken, short], 2],
    [[taken, contended, unasked], 1],
    [[taken, unasked, short], 2],
    [[unasked, taken, short], 2],
    [[short, taken, taken], undefined],
    [[unasked, short, unasked], undefined],
    [[taken, short, unavailable], undefined],
    [[taken, { kind: "configSuspect", state }, short], undefined],
    [[taken, { kind: "thrown", error: new Error("ours") }, short], undefined],
  ];
  for (const [answers, at] of cases) assert.equal(yieldAt(answers), at, JSON.stringify(answers.map((a) => a?.kind)));
});

test("after a pause what is missing is asked for one by one, in the order of the chain", () => {
  assert.deepEqual(missingIn([taken, short, unasked]), [[1], [2]]);
  assert.deepEqual(missingIn([unasked, taken, short]), [[0], [2]]);
});

test("the level that refused goes first next time; after a mere delay the first of the chain does", () => {
  assert.equal(scarceAfter([taken, short, unasked], 4), 1);
  assert.equal(scarceAfter([short, taken, short], 0), 0);
  assert.equal(scarceAfter([taken, taken, taken], 1), 0);
  assert.equal(scarceAfter([taken, taken, taken], 0), undefined);
  assert.equal(scarceAfter([taken, unavailable, unasked], 0), undefined);
});

/** A chain whose levels answer by script; what happens is noted. */
function scripted(script: Readonly<Record<string, readonly (Answer | Error)[]>>, given: Partial<ChainOps>) {
  const clock = new SimulatedClock(0);
  const events: string[] = [];
  const asked = new Map<string, number>();
  const idOf = ({ bucket }: Claim): string => bucket.entityId;
  const ops: ChainOps = {
    take: async (claim) => {
      const n = asked.get(idOf(claim)) ?? 0;
      asked.set(idOf(claim), n + 1);
      const answer = script[idOf(claim)]?.[n] ?? taken;
      events.push(`${idOf(claim)} ${answer instanceof Error ? "thrown" : answer.kind}`);
      if (answer instanceof Error) throw answer;
      return answer;
    },
    giveBack: async (claim) => {
      events.push(`${idOf(claim)} given back`);
      return true;
    },
    isScarce: () => false,
    noteScarce: (claim) => events.push(`${idOf(claim)} is scarce`),
    hasOthers: () => true,
    ...given,
  };
  const run = async (timeoutMs: number): Promise<string[]> => {
    const taking = takeChain(CHAIN, ops, {
      clock,
      random: () => 0.5,
      untilMs: clock.now() + timeoutMs,
      signal: undefined,
    });
    const [answers] = await Promise.all([taking, clock.advance(timeoutMs)]);
    return answers.map(({ kind }) => kind);
  };
  return { events, run };
}

test("what is held above a level that is short is given back, what is held below it is kept, and it is asked again", async () => {
  const { events, run } = scripted({ project: [short, taken] }, {});
  assert.deepEqual(await run(1_000), ["taken", "taken", "taken"]);
  assert.deepEqual(events, [
    ...["key taken", "project short", "org taken", "org given back"],
    ...["project taken", "org taken", "key is scarce"],
  ]);
});

test("a level that stays short refuses after four more looks, and goes first from then on", async () => {
  const { events, run } = scripted({ project: [short, short, short, short, short] }, {});
  assert.deepEqual(await run(1_000), ["taken", "short", "unseen"]);
  assert.equal(events.filter((event) => event === "project short").length, 5);
  assert.equal(events.at(-1), "project is scarce");
});

test("where nobody else writes, a level that is short refuses at once", async () => {
  const { events, run } = scripted({ project: [short] }, { hasOthers: () => false });
  assert.deepEqual(await run(1_000), ["taken", "short", "taken"]);
  assert.deepEqual(events, ["key taken", "project short", "org taken", "project is scarce"]);
});

test("nobody waits longer than the request may take", async () => {
  const { events, run } = scripted({ project: [short] }, {});
  assert.deepEqual(await run(1), ["taken", "short", "taken"]);
  assert.equal(events.filter((event) => event === "project short").length, 1);
});

test("what could certainly not be given back is still held, and not asked for again", async () => {
  const { events, run } = scripted({ project: [short, taken] }, { giveBack: async () => false });
  assert.deepEqual(await run(1_000), ["taken", "taken", "taken"]);
  assert.equal(events.filter((event) => event.startsWith("org")).length, 1);
});

test("an error that is no answer is thrown after everything held was given back", async () => {
  const { events, run } = scripted({ org: [new Error("access denied")] }, {});
  await assert.rejects(run(1_000), /access denied/);
  assert.deepEqual(events.slice(-2), ["key given back", "project given back"]);
});
