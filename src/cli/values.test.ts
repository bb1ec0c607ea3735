import assert from "node:assert/strict";
import { test } from "node:test";
import { amountOf, durationMs, instantMs, pairsOf, tokensOf } from "./values.ts";

const NOW = Date.UTC(2026, 5, 15, 12);

test("durations have a unit, and a bare number is an error", () => {
  assert.deepEqual(
    ["500ms", "30s", "5m", "2h", "1d"].map((text) => durationMs(text, "--wait")),
    [500, 30_000, 300_000, 7_200_000, 86_400_000],
  );
  for (const text of ["5", "", "s", "-1s", "1.5s", "1w", "5 s", "99999999999999d"]) {
    assert.throws(() => durationMs(text, "--wait"), /--wait is ".*"; give a duration/, text);
  }
});

test("an instant is ISO 8601, UTC without a zone, or so long ago", () => {
  for (const [text, expected] of [
    ["2026-06-15", Date.UTC(2026, 5, 15)],
    ["2026-06", Date.UTC(2026, 5, 1)],
    ["2026-06-15T10:30", Date.UTC(2026, 5, 15, 10, 30)],
    ["2026-06-15T10:30:15.5Z", Date.UTC(2026, 5, 15, 10, 30, 15, 500)],
    ["2026-06-15T10:30+02:00", Date.UTC(2026, 5, 15, 8, 30)],
    ["24h", NOW - 86_400_000],
  ] as const) {
    assert.equal(instantMs(text, "--from", NOW), expected, text);
  }
  for (const text of ["yesterday", "2026-02-31", "2026-13-01", "15.06.2026", "1781520000000", ""]) {
    assert.throws(() => instantMs(text, "--from", NOW), /--from is/, text);
  }
});

test("amounts are whole, with k, M and _ for people", () => {
  assert.deepEqual(["0", "15_000", "10k", "2M", "007"].map(amountOf), [0, 15_000, 10_000, 2_000_000, 7]);
  for (const text of ["", "1.5", "-1", "1e3", "1K", "1_", "k", "9007199254740993"])
    assert.equal(amountOf(text), undefined, text);
});

test("tokens and metadata are pairs, and none is said twice", () => {
  assert.deepEqual(tokensOf(["rpm=1,tpm=5k", "day:0"], "-c"), { rpm: 1, tpm: 5000, day: 0 });
  for (const texts of [["rpm"], ["rpm="], ["=1"], ["rpm=1,"], ["rpm=1.5"], ["rpm=1", "rpm=2"]]) {
    assert.throws(() => tokensOf(texts, "-c"), /-c/, String(texts));
  }
  assert.deepEqual(pairsOf(["a=1", "b=", "c=x=y"], "--meta"), { a: "1", b: "", c: "x=y" });
  assert.throws(() => pairsOf(["=1"], "--meta"), /KEY=VALUE/);
});

test("amounts may be money, in micro-dollars", () => {
  assert.deepEqual(tokensOf(["usd=$0.25,rpm=1", "day_usd:$3"], "-c"), { usd: 250_000, rpm: 1, day_usd: 3_000_000 });
  for (const text of ["usd=$", "usd=$0.0000001", "usd=$-1", "usd=$1k", "usd=1$"]) {
    assert.throws(() => tokensOf([text], "-c"), /-c has ".*"; give NAME=N/, text);
  }
});
