import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY } from "../../../test/protocol/kit.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { blankIntent, type Intent } from "../take/intent.ts";
import { boundOverdrafts, overdraftsBy } from "../take/write-limit.ts";

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

test("a bound on overdrafts is among the exact numbers, or left out where no stored number reaches it", () => {
  const boundBy = (risenMilli: number) => {
    const builder = new WriteBuilder();
    boundOverdrafts(builder, "b_rpm_tk", { from: 1_000, below: 3_000 }, risenMilli);
    return builder.update(KEY, "exists", undefined).when.flat();
  };
  assert.deepEqual(boundBy(500), [
    { name: "b_rpm_tk", is: ">=", value: 500 },
    { name: "b_rpm_tk", is: "<", value: 2_500 },
  ]);
  assert.deepEqual(boundBy(1.1e16), [{ name: "b_rpm_tk", is: "<", value: -Number.MAX_SAFE_INTEGER }]);
});
