import assert from "node:assert/strict";
import { test } from "node:test";
import { ValidationError } from "./errors.ts";
import { checkLimits, Limit } from "./limit.ts";

function refused(make: () => unknown, code: string, why: RegExp): void {
  assert.throws(make, (error) => {
    assert.ok(error instanceof ValidationError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, why);
    return true;
  });
}

test("a rate is its own capacity, unless a burst is named", () => {
  assert.deepEqual(Limit.perSecond("x", 5), { name: "x", capacity: 5, refillAmount: 5, refillPeriodMs: 1_000 });
  assert.deepEqual(Limit.perMinute("x", 5), { name: "x", capacity: 5, refillAmount: 5, refillPeriodMs: 60_000 });
  assert.deepEqual(Limit.perHour("x", 5), { name: "x", capacity: 5, refillAmount: 5, refillPeriodMs: 3_600_000 });
  assert.deepEqual(Limit.perDay("x", 5), { name: "x", capacity: 5, refillAmount: 5, refillPeriodMs: 86_400_000 });
  assert.equal(Limit.perDay("x", 5, { burst: 20 }).capacity, 20);
  assert.equal(Limit.perDay("x", 5, { burst: 2 }).capacity, 2);
});

test("a limit survives JSON and cannot be changed after it was checked", () => {
  const limit = Limit.custom("tpm", { capacity: 20_000, refillAmount: 10_000, refillPeriodMs: 60_000 });
  assert.deepEqual(JSON.parse(JSON.stringify(limit)), { ...limit });
  assert.ok(Object.isFrozen(limit));
});

test("capacities and amounts are whole, positive and small enough that a thousand times them is exact", () => {
  assert.equal(Limit.perMinute("x", 9_000_000_000_000).capacity, 9_000_000_000_000);
  for (const rate of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 9_000_000_000_001, "5", null, undefined, 5n]) {
    refused(
      () => Limit.perMinute("x", rate as number),
      "limit_invalid",
      /Limit "x": capacity is .*whole number of tokens/,
    );
  }
  refused(() => Limit.perMinute("x", 5, { burst: 0 }), "limit_invalid", /capacity is 0/);
  refused(() => Limit.perMinute("x", 0, { burst: 5 }), "limit_invalid", /refillAmount is 0/);
});

test("periods are whole seconds, because the shared table stores seconds", () => {
  const period = (refillPeriodMs: unknown) => () =>
    Limit.custom("x", { capacity: 1, refillAmount: 1, refillPeriodMs: refillPeriodMs as number });
  assert.equal(period(1_000_000_000_000)().refillPeriodMs, 1_000_000_000_000);
  for (const ms of [0, -1000, 1, 999, 1500, 1000.5, Number.NaN, "1000", undefined, null, 1000n]) {
    refused(period(ms), "limit_invalid", /refillPeriodMs is .*whole seconds/);
  }
  refused(period(1_000_000_001_000), "limit_invalid", /longest period/);
});

test("a limit with a bad name, or no terms at all, is refused with a sentence and not with a crash", () => {
  refused(() => Limit.perMinute("wcu", 5), "limit_name_invalid", /reserved/);
  refused(() => Limit.perMinute("a b", 5), "limit_name_invalid", /begin with a letter/);
  refused(() => Limit.custom("x", undefined as never), "limit_invalid", /capacity is undefined/);
});

test("a list of limits keeps its order and names nothing twice", () => {
  const [rpm, tpm] = [Limit.perMinute("rpm", 5), Limit.perMinute("tpm", 5)];
  assert.deepEqual(checkLimits([tpm, rpm]), [tpm, rpm]);
  refused(() => checkLimits([rpm, tpm, Limit.perHour("rpm", 9)]), "limit_duplicate", /"rpm" is given twice/);
});

test("an empty list is refused: it would mean no limit at all", () => {
  refused(() => checkLimits([]), "limits_empty", /at least one/);
});

test("what is no list of limits is refused with its value", () => {
  refused(() => checkLimits(undefined as never), "limits_invalid", /undefined/);
  refused(() => checkLimits({} as never), "limits_invalid", /must be a list/);
  refused(() => checkLimits([null as never]), "limit_invalid", /Not a limit: null/);
  refused(() => checkLimits(["rpm" as never]), "limit_invalid", /Not a limit: "rpm"/);
});

test("sixteen limits fit on one bucket, seventeen do not", () => {
  const many = (count: number) => Array.from({ length: count }, (_, i) => Limit.perMinute(`l${i}`, 5));
  assert.equal(checkLimits(many(16)).length, 16);
  refused(() => checkLimits(many(17)), "limits_too_many", /17 limits/);
});

test("a list that was checked shares nothing with the one that was given", () => {
  const given = [{ name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 1000, extra: "dropped" }];
  const checked = checkLimits(given);
  (given[0] as { capacity: number }).capacity = 500;
  assert.deepEqual(checked, [{ name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 1000 }]);
});
