import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../adapters/system/calendar.ts";
import { bucketKey } from "../domain/bucket/bucket-key.ts";
import { PLAIN_TICKET } from "../domain/bucket/give-back.ts";
import { HOUR_MS } from "../domain/charge/usage.ts";
import { Limit } from "../domain/limits/limit.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import type { Claim } from "../ports/bucket-store.ts";
import {
  type BucketRecord,
  brought,
  creditedTo,
  creditedToNone,
  debitedFrom,
  resetRecord,
  takenFrom,
  toppedUpRecord,
} from "./bucket-record.ts";
import { type Shape, shapeFrom, shapeOf } from "./shape.ts";

const NOON = Date.UTC(2026, 2, 15, 12);
const calendar = createCalendar();
const bucket = bucketKey("a", "api");
const at = (nowMs: number) => ({ nowMs, calendar, generation: 1, countsUsage: true, current: undefined });

function claimOn(limits: readonly Limit[], tokens: Record<string, number>, more?: Partial<Claim>): Claim {
  const take = Object.entries(tokens).map(([limit, count]) => ({ limit, milli: count * 1000 }));
  return { bucket, set: limitSet(limits), origin: { asOfMs: NOON, generation: 1 }, take, bypass: false, ...more };
}

const held = (claim: Claim) => ({ ...claim, ticket: PLAIN_TICKET });
const tokensOf = ({ state }: BucketRecord) => state.limits.map(({ name, tokensMilli }) => [name, tokensMilli]);
const [rpm, tpm] = [Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 1_000)];

test("a bucket that is not there is full, and a claim that does not fit leaves it so", () => {
  const { before, after } = takenFrom(undefined, claimOn([rpm], { rpm: 11 }), "plan", at(NOON));
  assert.equal(after, undefined);
  assert.deepEqual(tokensOf(before), [["rpm", 10_000]]);
  assert.equal(before.state.untouched, true);
});

test("a take is counted in the open hour, with its request", () => {
  const { after } = takenFrom(undefined, claimOn([rpm, tpm], { rpm: 1, tpm: 100 }), "plan", at(NOON));
  assert.deepEqual(after && tokensOf(after), [
    ["rpm", 9_000],
    ["tpm", 900_000],
  ]);
  assert.deepEqual(after?.open, { hourMs: NOON, requests: 1, counted: [1_000, 100_000] });
  assert.deepEqual(after?.left, []);
});

test("where nothing was due, the record that is brought is the record", () => {
  const claim = claimOn([rpm], { rpm: 1 });
  const record = takenFrom(undefined, claim, "plan", at(NOON)).after as BucketRecord;
  assert.equal(brought(record, claim, at(NOON + 5)), record);
});

test("where limits change their places, the counts of the open hour leave by name", () => {
  const record = takenFrom(undefined, claimOn([rpm, tpm], { rpm: 1 }), "plan", at(NOON)).after as BucketRecord;
  const changed = brought(record, claimOn([tpm, rpm], {}), at(NOON + 5));
  assert.deepEqual(changed.left, [{ hourMs: NOON, requests: 1, amounts: [{ limit: "rpm", milli: 1_000 }] }]);
  assert.deepEqual(changed.open, { hourMs: NOON, requests: 0, counted: [Number.NaN, Number.NaN] });
  assert.deepEqual(
    changed.shape.limits.map(({ name }) => name),
    ["tpm", "rpm"],
  );
});

test("what passes by a bypass takes nothing, and is counted twice over: as used, and as let through", () => {
  const claim = claimOn([rpm], { rpm: 30 }, { bypass: true });
  const { after } = takenFrom(undefined, claim, "plan", at(NOON));
  assert.deepEqual(after && tokensOf(after), [["rpm", 10_000]]);
  assert.deepEqual(after?.open.counted, [30_000]);
  assert.deepEqual(after?.left, [{ hourMs: NOON, requests: 0, amounts: [{ limit: "rpm#by", milli: 30_000 }] }]);
});

test("a soft limit below zero counts an overdraft", () => {
  const soft = { ...rpm, soft: true } as const;
  const { after } = takenFrom(undefined, claimOn([soft], { rpm: 12 }), "plan", at(NOON));
  assert.deepEqual(after && tokensOf(after), [["rpm", -2_000]]);
  assert.deepEqual(after?.left, [{ hourMs: NOON, requests: 0, amounts: [{ limit: "rpm#od", milli: 1_000 }] }]);
});

test("a debit goes below zero, and a give-back takes it out of usage again", () => {
  const claim = claimOn([rpm], {});
  const amounts = [{ limit: "rpm", milli: 12_000 }];
  const debited = debitedFrom(undefined, held(claim), amounts, at(NOON)).after as BucketRecord;
  assert.deepEqual(tokensOf(debited), [["rpm", -2_000]]);
  const back = creditedTo(debited, held(claim), amounts, {}, at(NOON));
  assert.deepEqual(tokensOf(back), [["rpm", 10_000]]);
  assert.deepEqual(back.open, { hourMs: NOON, requests: 0, counted: [0] });
});

test("what is given back to a bucket that is forgotten leaves usage all the same", () => {
  const amounts = [{ limit: "rpm", milli: 3_000 }];
  assert.deepEqual(creditedToNone(held(claimOn([rpm], {})), amounts, {}, at(NOON + HOUR_MS)), [
    { hourMs: NOON + HOUR_MS, requests: 0, amounts: [{ limit: "rpm", milli: -3_000 }] },
  ]);
  const uncounted = { ...at(NOON), countsUsage: false };
  assert.deepEqual(creditedToNone(held(claimOn([rpm], {})), amounts, {}, uncounted), []);
});

test("a purchase and a reset go by the limits they bring, and are no usage", () => {
  const quota = Limit.quota("day", 10, { resetAfterMs: 24 * HOUR_MS });
  const claim = claimOn([quota], { day: 4 });
  const record = takenFrom(undefined, claim, "plan", at(NOON)).after;
  const topped = toppedUpRecord(record, claim, [{ limit: "day", milli: 5_000 }], at(NOON + 1));
  assert.ok(topped.kind === "done");
  assert.deepEqual([tokensOf(topped.record), topped.amounts], [[["day", 11_000]], [{ limit: "day", milli: 5_000 }]]);
  const reset = resetRecord(topped.record, claim, undefined, at(NOON + 2));
  assert.ok(reset.kind === "done");
  assert.deepEqual(tokensOf(reset.record), [["day", 10_000]]);
  assert.deepEqual(reset.record.open, record?.open);
});

test("a shape is read from its text as it was written, and from no text that is none", () => {
  const { before } = takenFrom(undefined, claimOn([rpm, { ...tpm, soft: true }], {}), "plan", at(NOON));
  const { text } = shapeOf(before.state);
  assert.match(text, /^\[0,\["rpm",10,10,60000,1\],\[\{"name":"tpm"/);
  assert.deepEqual((shapeFrom(text, calendar) as Shape).limits, before.shape.limits);
  for (const damaged of [7, "", "{}", "[1]", '[0,["rpm"]]', '[0,["rpm",10,10,0,1]]', '[0,["rpm",10,10,60000,2]]']) {
    assert.equal(shapeFrom(damaged, calendar), undefined, String(damaged));
  }
});
