import assert from "node:assert/strict";
import { test } from "node:test";
import { repairProblems } from "./conditional-item-rules.ts";

// The epoch of the repaired item lies 1 + 768 ms before the reading 20,000: its row of epochs ends in 768.
const repaired = { rf: 19_231, bn: 5_768 };

test("an epoch may be set back that is more than 5 s ahead of the reading, wherever the new epoch lies", () => {
  assert.deepEqual(repairProblems({ rf: 25_001, bn: 1 }, repaired, 20_500), []);
  assert.deepEqual(repairProblems({ rf: 25_001, bn: 1 }, { rf: 19_999, bn: 1 }, 20_500), []);
});

test("an epoch that is 5 s ahead of the reading is left alone", () => {
  assert.deepEqual(repairProblems({ rf: 25_000, bn: 1 }, repaired, 20_500), [
    "an epoch that was 5000 ms ahead was set back",
  ]);
});

test("of a reading ahead of the store's time the store's time counts", () => {
  assert.deepEqual(repairProblems({ rf: 25_000, bn: 1 }, repaired, 19_999), []);
});
