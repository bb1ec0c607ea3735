import assert from "node:assert/strict";
import { test } from "node:test";
import { waitWords } from "./durations.ts";

test("a wait reads as people say it, and is never shorter than it is", () => {
  for (const [ms, words] of [
    [1, "1 second"],
    [999, "1 second"],
    [1_000, "1 second"],
    [2_001, "3 seconds"],
    [59_001, "1 minute"],
    [60_001, "1 minute 1 second"],
    [65_000, "1 minute 5 seconds"],
    [3_599_500, "1 hour"],
    [3_660_000, "1 hour 1 minute"],
    [86_399_999, "1 day"],
    [86_400_001, "1 day 1 hour"],
    [1_209_600_000, "14 days"],
    [1_276_190_140, "14 days 19 hours"],
    [8_000_000_000_000_000, "92592592 days 15 hours"],
  ] as const) {
    assert.equal(waitWords(ms), words, String(ms));
  }
});
