import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConfigScope, StoredConfig } from "../config/config.ts";
import { Limit, limitMakers } from "./limit.ts";
import { allSources, mergedLimits } from "./merged-limits.ts";

const SCOPES: readonly ConfigScope[] = [
  { level: "entityDefault", entityId: "a" },
  { level: "planDefault", planId: "gold" },
  { level: "system" },
];

const rate = (name: string, amount: number) => Limit.perMinute(name, amount);
const level = (limits: readonly Limit[], options: Omit<StoredConfig, "limits"> = {}): StoredConfig => ({
  limits,
  ...options,
});

test("without inherit the stored list itself is handed out, so that buckets share it", () => {
  const limits = [rate("rpm", 1)];
  const merged = mergedLimits([undefined, level(limits), level([rate("tpm", 2)])], SCOPES);
  assert.equal(merged.limits, limits);
  assert.deepEqual(merged, { limits, source: "planDefault" });
});

test("a level that inherits and has nothing after it is as one that does not", () => {
  const limits = [rate("rpm", 1)];
  assert.deepEqual(mergedLimits([level(limits, { inherit: true }), undefined, undefined], SCOPES), {
    limits,
    source: "entityDefault",
  });
});

test("a level with no limits hides nothing, whatever else it says", () => {
  const found = [level([], { access: "bypass" }), undefined, level([rate("rpm", 1)])];
  assert.equal(mergedLimits(found, SCOPES).source, "system");
});

test("a limit that a level replaces is for whom the replacing level is", () => {
  const found = [
    level([rate("rpm", 5)], { inherit: true }),
    level([rate("rpm", 1), rate("tpm", 2)], { inherit: true, appliesTo: "callers" }),
    level([rate("ipm", 3)]),
  ];
  const merged = mergedLimits(found, SCOPES);
  assert.deepEqual(merged.limits, [rate("rpm", 5), rate("tpm", 2), rate("ipm", 3)]);
  assert.deepEqual(merged.forEveryone, [rate("rpm", 5), rate("ipm", 3)]);
  assert.deepEqual(allSources(merged), { rpm: "entityDefault", tpm: "planDefault", ipm: "system" });
});

test("a merge of more than 16 limits is a problem that names the levels", () => {
  const many = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => rate(`${prefix}${i}`, 1));
  const { problem, limits } = mergedLimits(
    [level(many("a", 10), { inherit: true }), level(many("b", 7)), undefined],
    SCOPES,
  );
  assert.equal(limits.length, 17);
  assert.equal(problem?.code, "limits_too_many");
  assert.match(problem?.message ?? "", /17 limits.*entityDefault \(a0.*planDefault \(b0/);
});

test("a merge of two time zones is a problem that names the levels", () => {
  const { quota } = limitMakers({ problemOf: () => undefined });
  const berlin = quota("day", 5, { reset: { cron: "0 0 * * *", tz: "Europe/Berlin" } });
  const utc = quota("month", 5, { reset: { cron: "0 0 1 * *" } });
  const { problem } = mergedLimits([level([berlin], { inherit: true }), level([utc]), undefined], SCOPES);
  assert.equal(problem?.code, "limits_zones");
  assert.match(problem?.message ?? "", /Europe\/Berlin and UTC.*entityDefault \(day\), planDefault \(month\)/);
});
