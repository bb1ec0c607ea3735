import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../adapters/system/calendar.ts";
import { type BucketKey, bucketKey } from "../domain/bucket/bucket-key.ts";
import { PLAIN_TICKET } from "../domain/bucket/give-back.ts";
import { HOUR_MS } from "../domain/charge/usage.ts";
import { Limit } from "../domain/limits/limit.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import type { Claim } from "../ports/bucket-store.ts";
import { type BucketRecord, recordAfter, recordFor, usageOfForgotten } from "./bucket-record.ts";
import type { RuleContext } from "./bucket-rules.ts";
import { credit, debit, type Rows, reset, takeAll, topUp } from "./row-buckets.ts";
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

/** One row, as a call leaves it. */
class OneRow implements Rows<BucketKey> {
  readonly context: RuleContext;
  record: BucketRecord | undefined;

  constructor(record: BucketRecord | undefined, nowMs: number) {
    this.context = at(nowMs);
    this.record = record;
  }

  place = () => bucket;
  state = () => this.record?.state;
  put: Rows<BucketKey>["put"] = (_, standing, change) => {
    this.record = recordAfter(this.record, standing, change, this.context);
  };
  countForgotten = () => assert.fail("It is not forgotten.");
  tell = () => assert.fail("Nothing is told.");
}

function taken(claim: Claim): BucketRecord {
  const row = new OneRow(undefined, NOON);
  assert.equal(takeAll(row, [claim], "config")[0]?.kind, "taken");
  return row.record as BucketRecord;
}

test("a bucket that is not there is full, and a claim that does not fit leaves it so", () => {
  const row = new OneRow(undefined, NOON);
  const [answer] = takeAll(row, [claimOn([rpm], { rpm: 11 })], "config");
  assert.ok(answer?.kind === "short");
  assert.equal(row.record, undefined);
  assert.equal(answer.state.limits[0]?.tokensMilli, 10_000);
  assert.equal(answer.state.untouched, true);
});

test("a take is counted in the open hour, with its request", () => {
  const after = taken(claimOn([rpm, tpm], { rpm: 1, tpm: 100 }));
  assert.deepEqual(tokensOf(after), [
    ["rpm", 9_000],
    ["tpm", 900_000],
  ]);
  assert.deepEqual(after.open, { hourMs: NOON, requests: 1, counted: [1_000, 100_000] });
  assert.deepEqual(after.left, []);
});

test("where nothing was due, the record that is brought is the record", () => {
  const claim = claimOn([rpm], { rpm: 1 });
  const record = taken(claim);
  assert.equal(recordFor(record, claim, at(NOON + 5)), record);
});

test("where limits change their places, the counts of the open hour leave by name", () => {
  const record = taken(claimOn([rpm, tpm], { rpm: 1 }));
  const changed = recordFor(record, claimOn([tpm, rpm], {}), at(NOON + 5));
  assert.deepEqual(changed.left, [{ hourMs: NOON, requests: 1, amounts: [{ limit: "rpm", milli: 1_000 }] }]);
  assert.deepEqual(changed.open, { hourMs: NOON, requests: 0, counted: [Number.NaN, Number.NaN] });
  assert.deepEqual(
    changed.shape.limits.map(({ name }) => name),
    ["tpm", "rpm"],
  );
});

test("an end that the bucket has gone through is not ahead for a clock that is behind", () => {
  const ends = [{ atMs: NOON + 1_000, limits: [rpm] }];
  const origin = { asOfMs: NOON, generation: 1, changeNumber: 2, ends };
  const standing = (of: Partial<Claim>, nowMs: number, record?: BucketRecord) =>
    recordFor(record, claimOn([rpm], {}, of), at(nowMs));
  const overridden = standing({ origin }, NOON);
  assert.equal(overridden.state.validUntilMs, NOON + 1_000);
  const met = standing({ origin: { asOfMs: NOON, generation: 1, changeNumber: 3 } }, NOON + 1_000, overridden);
  assert.equal(met.state.validUntilMs, Number.POSITIVE_INFINITY);
  assert.equal(standing({ origin }, NOON + 999, met).state.validUntilMs, Number.POSITIVE_INFINITY);
});

test("what passes by a bypass takes nothing, and is counted twice over: as used, and as let through", () => {
  const claim = claimOn([rpm], { rpm: 30 }, { bypass: true });
  const after = taken(claim);
  assert.deepEqual(tokensOf(after), [["rpm", 10_000]]);
  assert.deepEqual(after.open.counted, [30_000]);
  assert.deepEqual(after.left, [{ hourMs: NOON, requests: 0, amounts: [{ limit: "rpm#by", milli: 30_000 }] }]);
});

test("a soft limit below zero counts an overdraft", () => {
  const soft = { ...rpm, soft: true } as const;
  const after = taken(claimOn([soft], { rpm: 12 }));
  assert.deepEqual(tokensOf(after), [["rpm", -2_000]]);
  assert.deepEqual(after.left, [{ hourMs: NOON, requests: 0, amounts: [{ limit: "rpm#od", milli: 1_000 }] }]);
});

test("a debit goes below zero, and a give-back takes it out of usage again", () => {
  const claim = claimOn([rpm], {});
  const amounts = [{ limit: "rpm", milli: 12_000 }];
  const row = new OneRow(undefined, NOON);
  assert.equal(debit(row, held(claim), amounts).kind, "applied");
  assert.deepEqual(row.record && tokensOf(row.record), [["rpm", -2_000]]);
  assert.equal(credit(row, held(claim), amounts, {}).kind, "applied");
  assert.deepEqual(row.record && tokensOf(row.record), [["rpm", 10_000]]);
  assert.deepEqual(row.record?.open, { hourMs: NOON, requests: 0, counted: [0] });
});

test("what is given back to a bucket that is forgotten leaves usage all the same", () => {
  const amounts = [{ limit: "rpm", milli: 3_000 }];
  assert.deepEqual(usageOfForgotten(held(claimOn([rpm], {})), amounts, {}, at(NOON + HOUR_MS)), [
    { hourMs: NOON + HOUR_MS, requests: 0, amounts: [{ limit: "rpm", milli: -3_000 }] },
  ]);
  const uncounted = { ...at(NOON), countsUsage: false };
  assert.deepEqual(usageOfForgotten(held(claimOn([rpm], {})), amounts, {}, uncounted), []);
});

test("a purchase and a reset go by the limits they bring, and are no usage", () => {
  const quota = Limit.quota("day", 10, { resetAfterMs: 24 * HOUR_MS });
  const claim = claimOn([quota], { day: 4 });
  const record = taken(claim);
  const row = new OneRow(record, NOON + 1);
  const topped = topUp(row, claim, [{ limit: "day", milli: 5_000 }]);
  assert.deepEqual(topped, { kind: "done", amounts: [{ limit: "day", milli: 5_000 }] });
  assert.deepEqual(row.record && tokensOf(row.record), [["day", 11_000]]);
  assert.equal(reset(row, claim, undefined).kind, "done");
  assert.deepEqual(row.record && tokensOf(row.record), [["day", 10_000]]);
  assert.deepEqual(row.record?.open, record.open);
});

test("a shape is read from its text as it was written, and from no text that is none", () => {
  const before = recordFor(undefined, claimOn([rpm, { ...tpm, soft: true }], {}), at(NOON));
  const { text } = shapeOf(before.state);
  assert.match(text, /^\[0,\["rpm",10,10,60000,1\],\[\{"name":"tpm"/);
  assert.deepEqual((shapeFrom(text, calendar) as Shape).limits, before.shape.limits);
  for (const damaged of [7, "", "{}", "[1]", '[0,["rpm"]]', '[0,["rpm",10,10,0,1]]', '[0,["rpm",10,10,60000,2]]']) {
    assert.equal(shapeFrom(damaged, calendar), undefined, String(damaged));
  }
});
