import assert from "node:assert/strict";
import { test } from "node:test";
import { overdraftsBy } from "./count-usage.ts";
import { blankIntent, type Intent } from "./intent.ts";

function takes(...milli: number[]): Intent {
  const parts = milli.map((one) => ({ of: {}, kind: "take" as const, amounts: [{ limit: "rpm", milli: one }] }));
  return { ...blankIntent(0), parts };
}

test("of several requests in one write, those that leave the limit below zero are overdrafts", () => {
  const intent = takes(3_000, 4_000, 1_000);
  assert.deepEqual(overdraftsBy(intent, "rpm", 8_000, false), { count: 0, from: 8_000, below: undefined });
  assert.deepEqual(overdraftsBy(intent, "rpm", 7_999, false), { count: 1, from: 7_000, below: 8_000 });
  assert.deepEqual(overdraftsBy(intent, "rpm", 2_999, false), { count: 3, from: undefined, below: 3_000 });
  assert.deepEqual(overdraftsBy(intent, "tpm", 0, false), { count: 0, from: undefined, below: undefined });
});

test("a limit that is left as it is, because it would owe too much, is overdrawn only where it was in debt", () => {
  assert.deepEqual(overdraftsBy(takes(9e15), "rpm", 0, true), { count: 0, from: 0, below: undefined });
  assert.deepEqual(overdraftsBy(takes(9e15), "rpm", -1, true), { count: 1, from: undefined, below: 0 });
});
