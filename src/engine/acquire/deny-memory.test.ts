import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { type BucketState, freshBucket, takeFrom } from "../../domain/bucket/bucket-state.ts";
import { Limit } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { ObservedBucket } from "../refusal/refusal.ts";
import { DenyMemory } from "./deny-memory.ts";

const T0 = 1_800_000_000_000;
const set = limitSet([Limit.perMinute("rpm", 60)]);
const origin = { asOfMs: T0, generation: null };
const calendar = createCalendar();

function claimOn(entityId: string, rpm: number): Claim {
  const take = [{ limit: "rpm", milli: rpm * 1000 }];
  return { bucket: bucketKey(entityId, "api"), set, origin, take, bypass: false };
}

function leftWith(rpm: number): BucketState {
  const full = freshBucket(set, origin, T0, calendar);
  return takeFrom(full, [{ limit: "rpm", milli: (60 - rpm) * 1000 }], T0) as BucketState;
}

function seen(entityId: string, rpmLeft: number): ObservedBucket {
  const asked = { ...claimOn(entityId, 10), leavePercent: 0 };
  return { ...asked, state: leftWith(rpmLeft), limits: set.limits, taken: false, seen: "now" };
}

test("a refusal is told from memory while the amount does not fit, and the store is asked from then on", () => {
  const deny = new DenyMemory(60_000, 10_000);
  deny.remember([seen("a", 4)], T0, undefined);
  assert.equal(deny.recall([claimOn("a", 10)], T0 + 5_999)?.length, 1);
  assert.equal(deny.recall([claimOn("a", 10)], T0 + 6_000), undefined, "six have dripped in");
  assert.equal(deny.recall([claimOn("a", 4)], T0), undefined, "less than was asked for fits");
});

test("nothing is told from memory after its time, before it, by other limits, or with one bucket unknown", () => {
  const deny = new DenyMemory(1_000, 10_000);
  deny.remember([seen("a", 0)], T0, undefined);
  const ask = (atMs: number, ...claims: Claim[]) => deny.recall(claims, atMs) !== undefined;
  assert.equal(ask(T0 + 999, claimOn("a", 2)), true);
  assert.equal(ask(T0 + 1_000, claimOn("a", 2)), false);
  assert.equal(ask(T0 - 1, claimOn("a", 2)), false, "a clock that went back");
  assert.equal(ask(T0, { ...claimOn("a", 2), set: limitSet([Limit.perMinute("rpm", 61)]) }), false);
  assert.equal(ask(T0, claimOn("a", 2), claimOn("parent", 2)), false);
  deny.remember([seen("parent", 30)], T0, undefined);
  assert.equal(ask(T0, claimOn("a", 2), claimOn("parent", 2)), true);
});

test("a write of this process to a bucket ends what is remembered of it, and of no other", () => {
  const deny = new DenyMemory(60_000, 10_000);
  deny.remember([seen("a", 0), seen("b", 0)], T0, undefined);
  deny.forget(bucketKey("a", "api").id);
  assert.equal(deny.knows({ bucket: bucketKey("a", "api") }), false);
  assert.equal(deny.knows({ bucket: bucketKey("b", "api") }), true);
});

test("an answer that may be from before a write of this process is not remembered", () => {
  const deny = new DenyMemory(60_000, 10_000);
  const bucket = bucketKey("a", "api");
  const early = deny.begin();
  deny.forget(bucket.id);
  const late = deny.begin();
  deny.remember([seen("a", 0), seen("b", 0)], T0, early);
  assert.equal(deny.knows({ bucket }), false, "asked before the write ended, answered after it");
  assert.equal(deny.knows({ bucket: bucketKey("b", "api") }), true);
  deny.end();
  deny.remember([seen("a", 0)], T0, late);
  assert.equal(deny.knows({ bucket }), true, "asked after the write ended");
  deny.end();
});

test("with a time of 0 nothing is remembered", () => {
  const deny = new DenyMemory(0, 10_000);
  deny.remember([seen("a", 0)], T0, undefined);
  assert.equal(deny.recall([claimOn("a", 10)], T0), undefined);
});
