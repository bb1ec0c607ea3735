import assert from "node:assert/strict";
import { test } from "node:test";
import { claim } from "../../../test/kit/contract-kit.ts";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { ENV, imageOf, itemOf, KEY } from "../../../test/protocol/kit.ts";
import { type BucketState, bucketFor } from "../../domain/bucket/bucket-state.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Item } from "../../ports/item-store.ts";
import { nonceSlot } from "../item/attributes.ts";
import type { Seen } from "../process/bucket-cache.ts";
import type { Event } from "../process/machine.ts";
import type { Job, JobOutcome, Sent } from "../take/job.ts";
import { nextTake, onTake } from "./take.ts";
import {
  imageFor,
  type Phase,
  startTake,
  type TakeAction,
  type TakeFacts,
  type TakeProgress,
  type TakeWrite,
  takeEnded,
  takeUntilMs,
} from "./take-phase.ts";

// Every state of a take at one shard, every event, and what comes of it. No store, no clock.

const rpm = limitMakers(calendar).perMinute("rpm", 10);
const NOW = 1_000;
const NONCE = 77;
const BIRTH = 99;

function job(tokens: number, untilMs = 5_000): Job {
  const of = claim("ada", [rpm], { rpm: tokens }, { origin: { asOfMs: 0, generation: null } });
  return { of, kind: "take", amounts: of.take, readingMs: NOW, untilMs, askedAtSequence: 10 };
}

/** The item with so many tokens; "gone": there is none. */
function seen(tokens: number | "gone", options: { order?: number; nonce?: number; old?: boolean } = {}): Seen {
  const { order = 20, nonce, old = false } = options;
  const about = { eventuallyConsistent: old, atMs: NOW, order };
  if (tokens === "gone") return { image: undefined, ...about };
  const origin = { asOfMs: 0, generation: null };
  const state = bucketFor(undefined, { set: limitSet([rpm]), origin }, NOW, calendar);
  const limits = state.limits.map((held) => ({ ...held, tokensMilli: tokens * 1000 }));
  const item: Item = { ...itemOf({ ...state, limits }), ...(nonce === undefined ? {} : { [nonceSlot(3)]: nonce }) };
  return { image: imageOf(item), ...about };
}

const one = job(1);
const three = job(3);
const nine = job(9);
const hasty = job(9, 2_000);

function facts(given: Partial<TakeFacts> = {}): TakeFacts {
  const usual = {
    nowMs: NOW,
    over: undefined,
    key: KEY,
    seen: undefined,
    doubt: "none",
    lastFault: undefined,
  } as const;
  return {
    ...usual,
    sheet: undefined,
    nonceSlot: 3,
    freshNonce: NONCE,
    freshBirth: BIRTH,
    guesses: () => undefined,
    ...given,
  };
}

function progress(phase: Phase, pending: readonly Job[], given: Partial<TakeProgress> = {}): TakeProgress {
  return {
    phase,
    jobs: pending,
    pending,
    settled: [],
    readingMs: NOW,
    nonce: undefined,
    exact: true,
    failures: 0,
    ...given,
  };
}

/** A write that was sent for some jobs; for nobody, where it only installs limits or repairs the epoch. */
function sentFor(jobs: readonly Job[], why: Sent["why"] = "take"): TakeWrite {
  const from = progress({ at: "verified", seen: seen(10) }, [one]);
  const action = nextTake(from, facts({ seen: seen(10) }), ENV);
  assert.equal(action.do, "write");
  const write = action as TakeWrite;
  return { ...write, sent: { ...write.sent, jobs, why } };
}

const guess: Phase = { at: "guess" };
const unread: Phase = { at: "unread" };
const verified = (tokens: number | "gone"): Phase => ({ at: "verified", seen: seen(tokens) });
function ambiguous(jobs: readonly Job[], lost = 1): Phase {
  const { sent } = sentFor(jobs);
  return {
    at: "ambiguous",
    sent,
    lost: Array.from({ length: lost }, () => sent),
    cause: "lost",
    laters: [],
    seen: undefined,
  };
}

const NAMES = new Map([
  [one, "one"],
  [three, "three"],
  [nine, "nine"],
  [hasty, "hasty"],
]);
const named = (jobs: Iterable<Job>) => Array.from(jobs, (each) => NAMES.get(each) ?? "?").join("+");

function told(outcome: JobOutcome): string {
  return outcome.kind === "unavailable" ? `unavailable, ${outcome.applied}` : outcome.kind;
}

function shownAction(action: TakeAction): string {
  switch (action.do) {
    case "read":
      return action.consistent ? "read, consistent" : "read, eventual";
    case "write":
      return `write ${action.sent.why} ${named(action.sent.jobs)}`.trimEnd();
    case "sheet":
      return `sheet of ${action.write.key.sheet}`;
    case "settle":
      return `settle ${named(action.jobs)}: ${told(action.outcome)}`;
  }
}

function shownProgress({ phase, settled, pending }: TakeProgress): string {
  const outcomes = settled.map(({ jobs, outcome }) => `; ${named(jobs)}: ${told(outcome)}`).join("");
  const lost = phase.at === "ambiguous" ? ` (${phase.lost.length} lost)` : "";
  return `${phase.at}${lost}${outcomes}${pending.length > 0 ? `; pending ${named(pending)}` : ""}`;
}

const shard1 = { ...KEY, shard: 1 };

test("what to do in each phase", async (t) => {
  const table: readonly (readonly [Phase, readonly Job[], Partial<TakeFacts>, string])[] = [
    // phase             jobs          what is known                                     what to do
    [guess, [one], {}, "read, eventual"],
    [guess, [one], { seen: seen(10) }, "write take one"],
    [guess, [one], { seen: seen(0) }, "write take one"],
    [guess, [three, nine], { seen: seen(10) }, "write take three"],
    [guess, [one], { seen: seen("gone") }, "write take one"],
    [guess, [one], { seen: seen("gone"), key: shard1 }, "settle one: elsewhere"],
    [guess, [one], { seen: seen(10), doubt: "configSuspect" }, "read, consistent"],
    [guess, [one], { seen: seen(10), over: "attempts" }, "settle one: contended"],
    [guess, [one], { seen: seen(10), over: "time", nowMs: 5_001 }, "settle one: contended"],
    [guess, [one], { over: "time", nowMs: 5_001, lastFault: "dead" }, "settle one: unavailable, no"],
    [unread, [one], { seen: seen(10) }, "read, consistent"],
    [unread, [one], { over: "attempts" }, "settle one: contended"],
    [verified(10), [one], { seen: seen(10) }, "write take one"],
    [verified(0), [one], { seen: seen(0) }, "settle one: short"],
    [verified(4), [three, nine], { seen: seen(4) }, "settle nine: short"],
    // Only what others have really taken refuses anybody.
    [verified(10), [nine, three], { seen: seen(10) }, "write take nine"],
    [verified("gone"), [one], { seen: seen("gone") }, "write take one"],
    [verified("gone"), [one], { seen: seen("gone"), key: shard1 }, "settle one: elsewhere"],
    [verified(10), [one], { seen: seen(10), doubt: "configSuspect" }, "settle one: configSuspect"],
    [verified(10), [one], { seen: seen(10), over: "attempts" }, "settle one: contended"],
    // After a lost answer: the same jobs once more, or unknown. Never short, never a doubt, never other jobs.
    [ambiguous([one]), [one], { seen: seen(10) }, "write take one"],
    [ambiguous([three]), [three, nine], { seen: seen(10) }, "write take three"],
    [ambiguous([one]), [one], { seen: seen(10), doubt: "configSuspect" }, "write take one"],
    [ambiguous([one]), [one], { seen: seen(0) }, "settle one: unavailable, unknown"],
    [ambiguous([one]), [one], { seen: seen("gone"), key: shard1 }, "settle one: unavailable, unknown"],
    [ambiguous([one], 2), [one], { seen: seen(10) }, "settle one: unavailable, unknown"],
    [ambiguous([three]), [three, nine], { over: "time", nowMs: 5_001 }, "settle three: unavailable, unknown"],
    // A write that is sent again has more time; a request that only waits for it has not.
    [ambiguous([three]), [three, hasty], { over: "time", nowMs: 2_001 }, "settle hasty: unavailable, no"],
    [ambiguous([one]), [one], { seen: seen(10), over: "attempts" }, "settle one: unavailable, unknown"],
  ];
  for (const [phase, jobs, known, expected] of table) {
    const about = [known.seen?.image === undefined ? "no image" : "an image", known.over ?? "", known.doubt ?? ""];
    await t.test(`${phase.at}, ${named(jobs)}, ${about.filter(Boolean).join(", ")}: ${expected}`, () => {
      const from = progress(phase, jobs, phase.at === "ambiguous" ? { nonce: NONCE } : {});
      assert.equal(shownAction(nextTake(from, facts(known), ENV)), expected);
    });
  }
});

test("jobs that fit only by the limits of one that does not fit beside them go by their own", () => {
  const slots = (count: number) => limitMakers(calendar).concurrent("rpm", count, { holdMs: 60_000 });
  const by = (limit: typeof rpm, asOfMs: number, tokens: number): Job => {
    const of = claim("ada", [limit], { rpm: tokens }, { origin: { asOfMs, generation: null, given: true } });
    return { ...job(tokens), of, amounts: of.take };
  };
  const ten = limitSet([slots(10)]);
  const state = bucketFor(undefined, { set: ten, origin: { asOfMs: 50, generation: null } }, NOW, calendar);
  const image = imageOf(itemOf({ ...state, untouched: false }));
  const there: Seen = { image, eventuallyConsistent: false, atMs: NOW, order: 20 };
  // By thirty, which the last one brings, both of the first fit; without it the bucket goes by ten.
  const [first, second, last] = [by(slots(30), 0, 8), by(slots(30), 0, 8), by(slots(30), 100, 25)];
  assert.equal(limitOf(bucketFor(image.state, last.of, NOW, calendar)), 30);
  const from = progress({ at: "verified", seen: there }, [first, second, last], { readingMs: NOW });
  const action = nextTake(from, facts({ seen: there }), ENV);
  assert.ok(action.do === "write");
  assert.deepEqual(
    action.sent.jobs.map((each) => [first, second, last].indexOf(each)),
    [0],
  );
});

test("what an answer means in each phase", async (t) => {
  const write = (jobs: readonly Job[]) => sentFor(jobs);
  const nobody = { ...sentFor([], "install-limits") };
  const look = (consistent: boolean): TakeAction => {
    return { do: "read", keys: [KEY], consistent, atMs: NOW, sets: undefined };
  };
  const applied: Event = { kind: "applied", seen: seen(9, { nonce: NONCE }) };
  const failed: Event = { kind: "failed", seen: seen(2) };
  const landed: Event = { kind: "failed", seen: seen(2, { nonce: NONCE }) };
  const gone: Event = { kind: "failed", seen: seen("gone") };
  const lost: Event = { kind: "unknown", cause: "lost" };
  const conflict: Event = { kind: "refused", why: "conflict", cause: "busy" };
  const throttled: Event = { kind: "refused", why: "throttled", cause: "busy" };
  const found: Event = { kind: "read", items: [], seen: [seen(5)] };
  const notRead: Event = { kind: "unread", cause: "down" };
  const table: readonly (readonly [Phase, readonly Job[], TakeAction, Event, string])[] = [
    // phase        jobs           action          answer     the phase then, and what is settled
    [guess, [one], look(false), found, "guess; pending one"],
    [guess, [one], look(true), found, "verified; pending one"],
    [guess, [one], look(true), notRead, "guess; one: unavailable, no"],
    [unread, [one], look(true), found, "verified; pending one"],
    [guess, [one], write([one]), applied, "verified; one: taken"],
    [guess, [one, nine], write([one]), applied, "verified; one: taken; pending nine"],
    [guess, [one], write([one]), failed, "verified; pending one"],
    [guess, [one], write([one]), gone, "verified; pending one"],
    [guess, [one], write([one]), landed, "verified; pending one"],
    [guess, [one], write([one]), conflict, "guess; pending one"],
    [guess, [one], write([one]), throttled, "guess; one: unavailable, no"],
    [guess, [one], write([one]), lost, "ambiguous (1 lost); pending one"],
    [verified(9), [one], write([one]), failed, "verified; pending one"],
    [verified(9), [one], write([one]), lost, "ambiguous (1 lost); pending one"],
    [verified(0), [nine], nobody, applied, "verified; pending nine"],
    [verified(0), [nine], nobody, failed, "verified; pending nine"],
    [verified(0), [nine], nobody, lost, "unread; pending nine"],
    // After a lost answer.
    [ambiguous([one]), [one], write([one]), applied, "verified; one: taken"],
    [ambiguous([one]), [one], write([one]), landed, "verified; one: taken"],
    [ambiguous([one]), [one, nine], write([one]), landed, "verified; one: taken; pending nine"],
    [ambiguous([one]), [one], write([one]), failed, "ambiguous (1 lost); pending one"],
    [ambiguous([one]), [one], write([one]), gone, "ambiguous (1 lost); pending one"],
    [ambiguous([one]), [one], write([one]), conflict, "ambiguous (1 lost); pending one"],
    [ambiguous([one]), [one], write([one]), lost, "ambiguous (2 lost); pending one"],
    [ambiguous([one]), [one], write([one]), throttled, "guess; one: unavailable, unknown"],
    [ambiguous([one]), [one, nine], write([one]), throttled, "guess; nine: unavailable, no; one: unavailable, unknown"],
    [ambiguous([one]), [one], look(false), found, "ambiguous (1 lost); pending one"],
    [ambiguous([one]), [one], look(false), notRead, "guess; one: unavailable, unknown"],
  ];
  for (const [phase, jobs, action, event, expected] of table) {
    await t.test(`${phase.at}, ${named(jobs)}, ${shownAction(action)}, ${event.kind}: ${expected}`, () => {
      assert.equal(shownProgress(onTake(progress(phase, jobs), action, event)), expected);
    });
  }
});

test("a take has ended when nobody is pending, with an outcome for each job in their order", () => {
  const short: JobOutcome = { kind: "elsewhere" };
  const unknown: JobOutcome = { kind: "unavailable", applied: "unknown", cause: "lost" };
  const from = progress(guess, [one, three, nine]);
  assert.equal(takeEnded(from), undefined);
  const after = onTake(from, { do: "settle", jobs: [nine, one], outcome: short }, { kind: "moved on" });
  assert.equal(takeEnded(after), undefined);
  const last = onTake(after, { do: "settle", jobs: [three], outcome: unknown }, { kind: "moved on" });
  assert.deepEqual(takeEnded(last), { result: [short, unknown, short] });
});

test("the jobs of a lost write that is given up leave the rest to another write, with another nonce", () => {
  const from = progress(ambiguous([one]), [one, nine], { nonce: NONCE });
  const unknown: JobOutcome = { kind: "unavailable", applied: "unknown", cause: "lost" };
  const after = onTake(from, { do: "settle", jobs: [one], outcome: unknown }, { kind: "moved on" });
  assert.equal(shownProgress(after), "guess; one: unavailable, unknown; pending nine");
  assert.equal(after.nonce, undefined);
});

test("a lost write is sent again with the nonce and the reading that it had", () => {
  const first = nextTake(progress(guess, [one]), facts({ seen: seen(10) }), ENV) as TakeWrite;
  const lost = onTake(progress(guess, [one]), first, { kind: "unknown", cause: "lost" });
  const again = nextTake(lost, facts({ seen: seen(8), freshNonce: NONCE + 1 }), ENV) as TakeWrite;
  assert.deepEqual(again.sent.intent.nonce, first.sent.intent.nonce);
  assert.equal(again.sent.intent.readingMs, first.sent.intent.readingMs);
});

test("what a lost write left is told when its nonce shows that it was applied, not what the second would have left", () => {
  const phase = ambiguous([one]) as Extract<Phase, { at: "ambiguous" }>;
  const first = { ...phase.sent.leaves, epochMs: 1 };
  const from = progress({ ...phase, sent: { ...phase.sent, leaves: first } }, [one]);
  const after = onTake(from, sentFor([one]), { kind: "failed", seen: seen(2, { nonce: NONCE }) });
  const outcome = after.settled.find(({ jobs }) => jobs.includes(one))?.outcome;
  assert.equal(outcome?.kind === "taken" && outcome.written, first);
});

test("only what was observed since the jobs were asked for, and consistently, is verified for them", () => {
  assert.equal(startTake([one], seen(0, { order: 10 }), true).phase.at, "guess");
  assert.equal(startTake([one], seen(0, { order: 11 }), true).phase.at, "verified");
  assert.equal(startTake([one], seen(0, { order: 11, old: true }), true).phase.at, "guess");
  assert.equal(startTake([one], undefined, true).phase.at, "guess");
});

test("an own answer that the item is gone counts, whatever is cached of before", () => {
  const from = progress(verified("gone"), [one]);
  assert.equal(imageFor(from, seen(0, { order: 19 }))?.image, undefined);
  assert.notEqual(imageFor(from, seen(0, { order: 21 }))?.image, undefined);
});

test("jobs are decided by the earliest deadline of those that are pending, and only the late ones end then", () => {
  const [late, early] = [job(1, 9_000), job(1, 2_000)];
  const from = progress(verified(10), [late, early]);
  assert.equal(takeUntilMs(from), 2_000);
  const action = nextTake(from, facts({ seen: seen(10), over: "time", nowMs: 2_001 }), ENV);
  assert.ok(action.do === "settle" && action.outcome.kind === "contended");
  assert.deepEqual(action.jobs, [early]);
});

function limitOf({ limits }: BucketState): number | undefined {
  return limits[0]?.limit.capacity;
}
