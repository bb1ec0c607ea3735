import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fc } from "../../../test/properties.ts";
import type { Terms } from "../../bucket/balance.ts";
import { effectiveTerms, type ScheduleEntry } from "./schedule.ts";
import { decodeReset, decodeSchedule, encodeReset, encodeSchedule } from "./schedule-grammar.ts";

describe("the stored form", () => {
  const crons: readonly [cron: string, stored: string][] = [
    ["0 0 1 * *", "1m0h0D1"],
    ["*/15 9-17 * JAN,jul-SEP mon-FRI", "1m*/15h9-17M1,7-9w1-5"],
    ["0 0 * * SUN", "1m0h0w7"],
    ["0 0 * * 0", "1m0h0w7"],
    ["0 0 * * 0,5,7", "1m0h0w7,5,7"],
    ["0 0 * * SUN-TUE", "1m0h0w0-2"],
    ["0 0 * * FRI-SUN", "1m0h0w5-7"],
    ["0 0 * * SUN-SUN", "1m0h0w0-0"],
    ["0 0 * * SUN/2", "1m0h0w0/2"],
    ["0 0 * * 0-7", "1m0h0w0-7"],
    ["5,5,3-4 * * * *", "1m5,5,3-4"],
    [" 0\t0  *  * 1 ", "1m0h0w1"],
  ];
  for (const [cron, stored] of crons) {
    test(`a reset at "${cron}" is stored as ${stored}, and what comes back is stored as the same`, () => {
      assert.equal(encodeReset(cron), stored);
      const decoded = decodeReset(stored);
      assert.ok(decoded.kind === "decoded");
      assert.equal(encodeReset(decoded.value), stored);
    });
  }

  test("a reset that matches every minute has no stored form: nobody could read it (X9)", () => {
    assert.throws(() => encodeReset("* * * * *"), /"\* \* \* \* \*" matches every minute/);
  });

  test("a schedule of every minute has one: the modifier alone", () => {
    const entries = [{ cron: "* * * * *", tz: "Asia/Tokyo", scale: 0.5 }];
    assert.deepEqual(encodeSchedule(entries), { compact: "1s500", tz: "Asia/Tokyo" });
    assert.deepEqual(decodeSchedule("1s500", "Asia/Tokyo"), { kind: "decoded", value: entries });
  });

  test("the zone is UTC when none is given, and one for all entries", () => {
    assert.equal(encodeSchedule([{ cron: "0 * * * *", scale: 2 }]).tz, "UTC");
    assert.throws(
      () =>
        encodeSchedule([
          { cron: "0 * * * *", scale: 2 },
          { cron: "1 * * * *", tz: "Asia/Tokyo", scale: 2 },
        ]),
      /one time zone, but has UTC and Asia\/Tokyo/,
    );
  });

  test("periods are stored in seconds, scales in per mille, whatever the order they were given in", () => {
    const entry = { cron: "* 8 * * *", refillPeriodMs: 90_000, capacity: 7, refillAmount: 3 };
    assert.equal(encodeSchedule([entry, { cron: "* * * * 6", scale: 0.001 }]).compact, "1h8c7a3p90;w6s1");
  });

  test("what cannot be stored exactly is refused, not rounded", () => {
    const cases: readonly [entry: ScheduleEntry, sentence: RegExp][] = [
      [{ cron: "0 * * * *", scale: 0.3333 }, /scale 0\.3333; use at most three decimal places/],
      [{ cron: "0 * * * *", scale: 0 }, /scale in per mille is 0/],
      [{ cron: "0 * * * *", scale: Number.NaN }, /scale NaN/],
      [{ cron: "0 * * * *", capacity: 1.5 }, /capacity is 1\.5/],
      [{ cron: "0 * * * *", refillPeriodMs: 1_500 }, /refillPeriodMs in seconds is 1\.5/],
      [{ cron: "0 * * * *" }, /has nothing to change; give either/],
      [{ cron: "0 * * * *", scale: 2, capacity: 5 }, /has a scale and absolute values; give either/],
      [{ cron: "0 0 * * * *", scale: 2 }, /has 6 fields/],
    ];
    for (const [entry, sentence] of cases) assert.throws(() => encodeSchedule([entry]), sentence);
    assert.throws(() => encodeSchedule([]), /leave the attribute out/);
  });

  const damaged: readonly [text: string, why: RegExp][] = [
    ["", /does not begin with version 1/],
    ["m0s500", /does not begin with version 1/],
    ["1", /a version and nothing else/],
    ["0m0s500", /version is 0/],
    ["01m0s500", /version is 01/],
    ["2m0s500", /version is 2, and only version 1 is known; update/],
    ["1m0", /"m0" changes nothing/],
    ["1m0s500;", /"" changes nothing/],
    ["1m0s0", /a value that is 0/],
    ["1m0c99999999999999", /too large/],
    ["1m0s500c5", /a scale and absolute values/],
    ["1h9m0s500", /is not m h D M w fields followed by/],
    ["1m0x5", /is not m h D M w/],
    ["1m1,,2s500", /a field that is not numbers, ranges and steps/],
    ["1wMONs500", /is not m h D M w/],
  ];
  for (const [text, why] of damaged) {
    test(`stored text "${text}" is reported as unreadable, with the reason`, () => {
      const decoded = decodeSchedule(text, "UTC");
      assert.ok(decoded.kind === "unreadable");
      assert.ok(decoded.problem.startsWith(`Stored schedule "${text}" cannot be read: `), decoded.problem);
      assert.match(decoded.problem, why);
    });
  }

  test("a stored reset with a modifier, several entries or nothing in it is unreadable", () => {
    const cases: readonly [text: string, why: RegExp][] = [
      ["1", /a version and nothing else/],
      ["1m0s500", /changes a limit, which a reset cannot do/],
      ["1m0;h5", /several resets/],
      ["3m0", /version is 3/],
      ["1m--", /a field that is not numbers/],
      ["1q", /not a list of m h D M w fields/],
    ];
    for (const [text, why] of cases) {
      const decoded = decodeReset(text);
      assert.ok(decoded.kind === "unreadable", text);
      assert.match(decoded.problem, why);
    }
  });

  test("any schedule comes back as it was, and is stored again as the same bytes", () => {
    fc.assert(
      fc.property(schedules, zones, (entries, tz) => {
        const given = entries.map((entry) => ({ ...entry, tz }));
        const stored = encodeSchedule(given);
        const decoded = decodeSchedule(stored.compact, stored.tz);
        assert.ok(decoded.kind === "decoded");
        assert.deepEqual(encodeSchedule(decoded.value), stored);
        // All but the cron comes back as given; the cron in its canonical spelling.
        assert.deepEqual(
          decoded.value.map((entry) => ({ ...entry, cron: "" })),
          given.map((entry) => ({ ...entry, cron: "" })),
        );
      }),
      { seed: 17, numRuns: 500 },
    );
  });

  test("no text, however damaged, makes reading throw; and what can be read reaches a form that stays", () => {
    const texts = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(..."1mhDMwscap0259*,-/;") }));
    fc.assert(
      fc.property(texts, (text) => {
        for (const candidate of [text, `1${text}`]) {
          const decoded = decodeSchedule(candidate, "UTC");
          decodeReset(candidate);
          if (decoded.kind === "unreadable") continue;
          const { compact } = encodeSchedule(decoded.value);
          const again = decodeSchedule(compact, "UTC");
          assert.ok(again.kind === "decoded");
          assert.equal(encodeSchedule(again.value).compact, compact);
        }
      }),
      { seed: 17, numRuns: 2_000 },
    );
  });
});

describe("effective terms", () => {
  const base: Terms = { capacityMilli: 7_000, refillAmountMilli: 3_000, refillPeriodMs: 60_000 };
  const always = (): boolean => true;

  test("the first entry that matches wins, and none leaves the base as it is", () => {
    const schedule = [
      { cron: "a", capacity: 1 },
      { cron: "b", tz: "Asia/Tokyo", capacity: 2 },
      { cron: "c", capacity: 3 },
    ];
    const asked: string[] = [];
    const terms = effectiveTerms(base, schedule, (cron, tz) => {
      asked.push(`${cron} ${tz}`);
      return cron !== "a";
    });
    assert.deepEqual(terms, { ...base, capacityMilli: 2_000 });
    assert.deepEqual(asked, ["a UTC", "b Asia/Tokyo"]);
    assert.equal(
      effectiveTerms(base, schedule, () => false),
      base,
    );
  });

  test("absolute values replace one by one", () => {
    assert.deepEqual(effectiveTerms(base, [{ cron: "*", refillPeriodMs: 5_000 }], always), {
      ...base,
      refillPeriodMs: 5_000,
    });
    assert.deepEqual(effectiveTerms(base, [{ cron: "*", refillAmount: 5 }], always), {
      ...base,
      refillAmountMilli: 5_000,
    });
  });

  test("scaling rounds down, leaves at least a millitoken of what there was, and nothing of nothing", () => {
    const scaled = (capacityMilli: number, scale: number): number =>
      effectiveTerms({ ...base, capacityMilli }, [{ cron: "*", scale }], always).capacityMilli;
    assert.equal(scaled(1_001, 0.333), 333);
    assert.equal(scaled(1, 0.001), 1);
    // In doubles 1.005 * 1000 and 0.29 * 100000 fall short of the whole number they are.
    assert.equal(scaled(1_000, 1.005), 1_005);
    assert.equal(scaled(100_000, 0.29), 29_000);
    assert.equal(
      effectiveTerms({ ...base, refillAmountMilli: 0 }, [{ cron: "*", scale: 3 }], always).refillAmountMilli,
      0,
    );
    assert.equal(effectiveTerms(base, [{ cron: "*", scale: 3 }], always).refillPeriodMs, 60_000);
  });

  test("scaling is exact beyond 2^53, and cut off at the largest capacity there may be", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9e15 }), fc.integer({ min: 1, max: 1e9 }), (capacityMilli, perMille) => {
        const exact = (BigInt(capacityMilli) * BigInt(perMille)) / 1000n;
        const expected = exact < 1n ? 1n : exact > 9_000_000_000_000_000n ? 9_000_000_000_000_000n : exact;
        const terms = effectiveTerms({ ...base, capacityMilli }, [{ cron: "*", scale: perMille / 1000 }], always);
        assert.equal(BigInt(terms.capacityMilli), expected);
      }),
      { seed: 17, numRuns: 2_000 },
    );
  });
});

const zones = fc.constantFrom("UTC", "Europe/Berlin", "Australia/Lord_Howe");

function field(low: number, high: number, names: readonly string[]): fc.Arbitrary<string> {
  const value = fc.oneof(
    fc.integer({ min: low, max: high }).map(String),
    ...(names.length > 0 ? [fc.constantFrom(...names)] : []),
  );
  const range = fc
    .tuple(fc.integer({ min: low, max: high }), fc.nat(high))
    .map(([from, more]) => `${from}-${Math.min(high, from + more)}`);
  const step = fc.integer({ min: 1, max: high });
  const item = fc.oneof(
    value,
    range,
    step.map((by) => `*/${by}`),
    fc.tuple(range, step).map(([from, by]) => `${from}/${by}`),
    fc.tuple(value, step).map(([from, by]) => `${from}/${by}`),
  );
  return fc.oneof(
    fc.constant("*"),
    fc.array(item, { minLength: 1, maxLength: 4 }).map((items) => items.join(",")),
  );
}

const fields = fc
  .tuple(
    field(0, 59, []),
    field(0, 23, []),
    field(1, 31, []),
    field(1, 12, ["JAN", "dec", "Jun"]),
    field(0, 7, ["SUN", "sat", "Wed"]),
  )
  .map((parts) => parts.join(" "));

const tokens = fc.integer({ min: 1, max: 9_000_000_000_000 });

const schedules = fc.array(
  fc.oneof(
    fc.record({ cron: fields, scale: fc.integer({ min: 1, max: 1_000_000_000 }).map((perMille) => perMille / 1000) }),
    fc
      .record(
        {
          cron: fields,
          capacity: tokens,
          refillAmount: tokens,
          refillPeriodMs: fc.integer({ min: 1, max: 1e9 }).map((s) => s * 1000),
        },
        { requiredKeys: ["cron"] },
      )
      .filter((entry) => Object.keys(entry).length > 1),
  ),
  { minLength: 1, maxLength: 4 },
);
