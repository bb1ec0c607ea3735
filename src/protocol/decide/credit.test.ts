import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { imageOf, itemOf, KEY } from "../../../test/protocol/kit.ts";
import { bucketFor } from "../../domain/bucket/bucket-state.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import type { Seen } from "../process/bucket-cache.ts";
import type { Event } from "../process/machine.ts";
import {
  type CreditAction,
  type CreditPhase,
  type CreditPlan,
  type CreditProgress,
  type CreditResult,
  nextCredit,
  onCredit,
  START_CREDIT,
} from "./credit.ts";

// Every state of a give-back to one shard, every event, and what comes of it. No store, no clock.

function seen(shardCount: number | "gone", options: { order?: number; old?: boolean } = {}): Seen {
  const about = { eventuallyConsistent: options.old ?? false, atMs: 0, order: options.order ?? 1 };
  if (shardCount === "gone") return { image: undefined, ...about };
  const set = limitSet([limitMakers(calendar).perMinute("rpm", 10)]);
  const state = bucketFor(undefined, { set, origin: { asOfMs: 0, generation: null } }, 0, calendar);
  return { image: { ...imageOf(itemOf(state)), shardCount }, ...about };
}

const PLAN: CreditPlan = {
  key: KEY,
  readingMs: 0,
  needsImage: false,
  isPlace: ({ shardCount }) => shardCount === 1,
  sheetFor: () => undefined,
  writeFor: () => new WriteBuilder().update(KEY, "exists", undefined),
};
const OTHER_SHARD = { ...PLAN, key: { ...KEY, shard: 1 } };
const TURN = { nowMs: 0, over: undefined } as const;

const guess: CreditPhase = { at: "guess" };
const verified = (count: number | "gone"): CreditPhase => ({ at: "verified", seen: seen(count, { order: 5 }) });
const pausing: CreditPhase = { at: "pausing", seen: seen(1) };

function told(result: CreditResult): string {
  return result.kind === "unavailable" ? `unavailable, ${result.applied}` : result.kind;
}

function shown(action: ReturnType<typeof nextCredit>): string {
  return action.do === "end" ? `end: ${told(action.result)}` : action.do;
}

test("what to do in each phase of a give-back", async (t) => {
  const table: readonly (readonly [CreditPhase, Seen | undefined, Partial<CreditPlan>, string])[] = [
    // phase         what is cached             plan                       what to do
    [guess, undefined, {}, "write"],
    [guess, seen("gone"), {}, "write"],
    [guess, seen(1), {}, "write"],
    [guess, seen(2, { old: true }), {}, "write"],
    [guess, seen(2), {}, "end: outgrown"],
    [guess, seen(2), { isPlace: () => true }, "write"],
    [guess, seen(1), { isPlace: () => false }, "end: outgrown"],
    [guess, undefined, { needsImage: true }, "read"],
    [guess, seen(1, { old: true }), { needsImage: true }, "read"],
    [guess, seen(1), { needsImage: true }, "write"],
    [verified(1), undefined, {}, "write"],
    [verified(2), undefined, {}, "end: outgrown"],
    [verified("gone"), seen(1), {}, "end: gone"],
    [verified("gone"), seen(1), { key: OTHER_SHARD.key }, "end: outgrown"],
    [verified("gone"), seen(1, { order: 6 }), {}, "write"],
    [pausing, seen(1), {}, "pause"],
    [{ at: "settled", result: { kind: "gone" } }, seen(1), {}, "end: gone"],
  ];
  for (const [phase, cached, plan, expected] of table) {
    const known = cached === undefined ? "nothing cached" : `${cached.image?.shardCount ?? "no"} shards cached`;
    await t.test(`${phase.at}, ${known}, ${Object.keys(plan).join("")}: ${expected}`, () => {
      const action = nextCredit({ ...START_CREDIT, phase }, { ...TURN, cached }, { ...PLAN, ...plan });
      assert.equal(shown(action), expected);
    });
  }
});

test("what an answer means for a give-back", async (t) => {
  const write: CreditAction = { do: "write", write: PLAN.writeFor(undefined), atMs: 0, set: undefined };
  const read: CreditAction = { do: "read", keys: [KEY], consistent: true, atMs: 0, sets: undefined };
  const table: readonly (readonly [CreditPhase, CreditAction, Event, string])[] = [
    // phase         action   answer                                                   the phase then
    [guess, write, { kind: "applied", seen: seen(1) }, "settled: applied"],
    [guess, write, { kind: "failed", seen: seen(1) }, "verified"],
    [guess, write, { kind: "failed", seen: seen("gone") }, "verified"],
    // It may have been applied: it is never sent again.
    [guess, write, { kind: "unknown", cause: "lost" }, "settled: unavailable, unknown"],
    // It certainly was not, and the driver has no time left.
    [guess, write, { kind: "refused", why: "throttled", cause: "busy" }, "settled: unavailable, no"],
    [guess, write, { kind: "refused", why: "unreachable", cause: "down" }, "settled: unavailable, no"],
    [guess, read, { kind: "read", items: [], seen: [seen(1)] }, "verified"],
    [guess, read, { kind: "unread", cause: "down" }, "pausing"],
    [verified(1), write, { kind: "applied", seen: seen(1) }, "settled: applied"],
    [verified(1), write, { kind: "unknown", cause: "lost" }, "settled: unavailable, unknown"],
    [pausing, { do: "pause" }, { kind: "moved on" }, "verified"],
    [{ at: "pausing", seen: undefined }, { do: "pause" }, { kind: "moved on" }, "guess"],
  ];
  for (const [phase, action, event, expected] of table) {
    await t.test(`${phase.at}, ${shown(action)}, ${event.kind}: ${expected}`, () => {
      const { phase: after } = onCredit({ ...START_CREDIT, phase }, action, event);
      assert.equal(after.at === "settled" ? `settled: ${told(after.result)}` : after.at, expected);
    });
  }
});

test("a give-back that others are faster than again and again waits from the fifth time on", () => {
  let progress: CreditProgress = START_CREDIT;
  const phases: string[] = [];
  for (let i = 0; i < 6; i++) {
    const action = nextCredit(progress, { ...TURN, cached: undefined }, PLAN);
    progress = onCredit(progress, action as CreditAction, { kind: "failed", seen: seen(1) });
    phases.push(progress.phase.at);
    if (progress.phase.at === "pausing") progress = onCredit(progress, { do: "pause" }, { kind: "moved on" });
  }
  assert.deepEqual(phases, ["verified", "verified", "verified", "verified", "pausing", "pausing"]);
});

test("out of time it was certainly not given back, whatever phase it was in", () => {
  for (const phase of [guess, verified(1), pausing]) {
    const action = nextCredit({ ...START_CREDIT, phase }, { nowMs: 9, over: "time", cached: seen(1) }, PLAN);
    assert.equal(shown(action), "end: unavailable, no");
  }
});
