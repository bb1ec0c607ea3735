import assert from "node:assert/strict";
import { test } from "node:test";
import { HOUR_MS } from "../domain/charge/usage.ts";
import { countedIn, emptyHour, leaving, type OpenHour } from "./open-hour.ts";

const LIMITS = [{ name: "rpm" }, { name: "tpm" }];
const NINE = 9 * HOUR_MS;

const take = (open: OpenHour, nowMs: number, milli: number) =>
  countedIn(open, LIMITS, { amounts: [{ limit: "tpm", milli }], sign: 1, requests: 1, nowMs });

test("what is taken within the hour is added up in the row", () => {
  const first = take(emptyHour(LIMITS.length, NINE), NINE, 500);
  const second = take(first.open, NINE + HOUR_MS - 1, 250);
  assert.deepEqual(second, { open: { hourMs: NINE, requests: 2, counted: [Number.NaN, 750] }, left: [] });
});

test("the first take of the next hour sends the hour before to its table", () => {
  const nine = take(emptyHour(LIMITS.length, NINE), NINE + 5, 500).open;
  const { open, left } = take(nine, NINE + HOUR_MS, 100);
  assert.deepEqual(open, { hourMs: NINE + HOUR_MS, requests: 1, counted: [Number.NaN, 100] });
  assert.deepEqual(left, [{ hourMs: NINE, requests: 1, amounts: [{ limit: "tpm", milli: 500 }] }]);
});

test("a clock that went back counts in the hour it shows, and the open hour stays", () => {
  const nine = take(emptyHour(LIMITS.length, NINE), NINE, 500).open;
  const { open, left } = take(nine, NINE - 1, 100);
  assert.equal(open, nine);
  assert.deepEqual(left, [{ hourMs: NINE - HOUR_MS, requests: 1, amounts: [{ limit: "tpm", milli: 100 }] }]);
});

test("a give-back lowers the count, below zero in an hour that took nothing", () => {
  const counting = { amounts: [{ limit: "rpm", milli: 300 }], sign: -1, requests: 0, nowMs: NINE } as const;
  assert.deepEqual(countedIn(emptyHour(LIMITS.length, NINE), LIMITS, counting).open.counted, [-300, Number.NaN]);
});

test("a sum past 2^53 goes to the table instead of becoming inexact", () => {
  const full = take(emptyHour(LIMITS.length, NINE), NINE, 9e15).open;
  const { open, left } = take(full, NINE, 9e15);
  assert.equal(open, full);
  assert.deepEqual(left, [{ hourMs: NINE, requests: 1, amounts: [{ limit: "tpm", milli: 9e15 }] }]);
});

test("a give-back to a limit that the bucket no longer has is still counted by its name", () => {
  const counting = { amounts: [{ limit: "gone", milli: 300 }], sign: -1, requests: 0, nowMs: NINE } as const;
  const { left } = countedIn(emptyHour(LIMITS.length, NINE), LIMITS, counting);
  assert.deepEqual(left, [{ hourMs: NINE, requests: 0, amounts: [{ limit: "gone", milli: -300 }] }]);
});

test("an hour in which nothing was counted leaves nothing behind", () => {
  assert.deepEqual(leaving(emptyHour(LIMITS.length, NINE), LIMITS), []);
});

test("how long slots were held is counted in a row that has room for it, and by its name in one that has none", () => {
  const counts = [...LIMITS, { name: "tpm#hu" }];
  const counting = { amounts: [{ limit: "tpm#hu", milli: 700 }], sign: 1, requests: 0, nowMs: NINE } as const;
  const inRow = countedIn(emptyHour(counts.length, NINE), counts, counting);
  assert.deepEqual([inRow.open.counted, inRow.left], [[Number.NaN, Number.NaN, 700], []]);
  const amounts = [{ limit: "tpm#hu", milli: 700 }];
  assert.deepEqual(leaving(inRow.open, counts), [{ hourMs: NINE, requests: 0, amounts }]);
  const beside = countedIn(emptyHour(LIMITS.length, NINE), counts, counting);
  assert.deepEqual(beside.left, [{ hourMs: NINE, requests: 0, amounts }]);
  const later = countedIn(inRow.open, counts, { ...counting, nowMs: NINE + HOUR_MS });
  assert.deepEqual(later.open.counted, [Number.NaN, Number.NaN, 700]);
  assert.deepEqual(later.left, [{ hourMs: NINE, requests: 0, amounts }]);
});
