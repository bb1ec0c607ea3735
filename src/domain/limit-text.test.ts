import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createCalendar } from "../adapters/system/calendar.ts";
import { ValidationError } from "./errors.ts";
import { type Limit, limitMakers, termsOf } from "./limit.ts";
import { limitOfText, textOfLimit } from "./limit-text.ts";
import { effectiveTerms } from "./schedule.ts";

const calendar = createCalendar();
const drip = (name: string, refillAmount: number, refillPeriodMs: number, capacity = refillAmount) => ({
  ...{ name, capacity, refillAmount, refillPeriodMs },
});
const quota = (name: string, capacity: number) => ({ name, capacity, refillAmount: 0, refillPeriodMs: 1_000 });

test("what people write for a limit, and the limit that it is", () => {
  for (const [text, limit] of [
    ["rpm:1000", drip("rpm", 1000, 60_000)],
    ["tpm:10k/5min:15_000", drip("tpm", 10_000, 300_000, 15_000)],
    ["a:1M/s", drip("a", 1_000_000, 1_000)],
    ["a:5/second", drip("a", 5, 1_000)],
    ["a:5/2hour", drip("a", 5, 7_200_000)],
    ["a:5/2hours", drip("a", 5, 7_200_000)],
    ["a:100/minutes", drip("a", 100, 60_000)],
    ["a:5G/day", drip("a", 5_000_000_000, 86_400_000)],
    ["a:5/day:1", drip("a", 5, 86_400_000, 1)],
    [
      "month:2M,reset=monthly,tz=Europe/Berlin",
      { ...quota("month", 2_000_000), reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } },
    ],
    [
      "month:2M,reset=monthly,counts=tpm",
      { ...quota("month", 2_000_000), counts: "tpm", reset: { cron: "0 0 1 * *", tz: "UTC" } },
    ],
    ["rpm:100,soft,counts=requests", { ...drip("rpm", 100, 60_000), counts: "requests", soft: true }],
    ["rpm:100,counts=rpm", drip("rpm", 100, 60_000)],
    ["week:2,reset=weekly", { ...quota("week", 2), reset: { cron: "0 0 * * 1", tz: "UTC" } }],
    ["q:5,reset=0 9,17 * * 1-5", { ...quota("q", 5), reset: { cron: "0 9,17 * * 1-5", tz: "UTC" } }],
    ["session:500,after=5h", { ...quota("session", 500), resetAfterMs: 18_000_000 }],
    [
      "rpm:100,soft,when=* 9-17 * * 1-5 x0.5",
      { ...drip("rpm", 100, 60_000), soft: true, schedule: [{ cron: "* 9-17 * * 1-5", tz: "UTC", scale: 0.5 }] },
    ],
    [
      "rpm:100,when=* 0-8 * * * 6:60",
      { ...drip("rpm", 100, 60_000), schedule: [{ cron: "* 0-8 * * *", tz: "UTC", refillAmount: 6, capacity: 60 }] },
    ],
    [
      "rpm:100,when=* 0-8 * * * 6/s,when=* 9,10 * * * x2,tz=Asia/Tokyo",
      {
        ...drip("rpm", 100, 60_000),
        schedule: [
          { cron: "* 0-8 * * *", tz: "Asia/Tokyo", capacity: 6, refillAmount: 6, refillPeriodMs: 1_000 },
          { cron: "* 9,10 * * *", tz: "Asia/Tokyo", scale: 2 },
        ],
      },
    ],
    [
      "q:50,reset=daily,when=* * * * 6 80",
      {
        ...quota("q", 50),
        schedule: [{ cron: "* * * * 6", tz: "UTC", capacity: 80 }],
        reset: { cron: "0 0 * * *", tz: "UTC" },
      },
    ],
  ] as const) {
    assert.deepEqual({ ...limitOfText(text, calendar) }, limit, text);
    assert.deepEqual(
      limitOfText(textOfLimit(limitOfText(text, calendar)), calendar),
      limitOfText(text, calendar),
      text,
    );
  }
});

test("what is left over is an error that names the text", () => {
  for (const text of [
    "rpm",
    ":5",
    "rpm:",
    "rpm:10.5",
    "rpm:-1",
    "rpm:0",
    "rpm:1__0",
    "rpm:_1",
    "rpm:1K",
    "rpm:10/fortnight",
    "rpm:10/",
    "rpm:10:",
    "rpm:10/min:20:30",
    "rpm:10,sft",
    "rpm:10,soft,soft",
    "rpm:10,reset=monthly,after=5h",
    "rpm:10/min,reset=monthly",
    "rpm:10:20,after=5h",
    "rpm:10,after=5",
    "rpm:10,after=500ms",
    "rpm:10,reset=fortnightly",
    "rpm:10,tz=Europe/Berlin",
    "rpm:10,reset=daily,tz=Mars/Olympus",
    "rpm:10,when=* * * * *",
    "rpm:10,when=* * * * x2",
    "rpm:10,when=* * * * * 2x",
    "rpm:10,when=* * * * * 5 5",
    "q:10,reset=daily,when=* * * * * 5/s",
    "wcu:10",
    "a b:10",
  ]) {
    assert.throws(() => limitOfText(text, calendar), ValidationError, text);
  }
});

const crons = fc.constantFrom("* 9-17 * * 1-5", "0,30 1-2 * * *", "* * 1 * *", "*/5 * * * *");
const tokens = fc.integer({ min: 1, max: 9_000_000_000 });
const periods = fc.integer({ min: 1, max: 1_000_000 }).map((seconds) => seconds * 1000);
const scales = fc.integer({ min: 1, max: 5_000 }).map((perMille) => perMille / 1000);
const zones = fc.constantFrom("UTC", "Europe/Berlin");
const make = limitMakers(calendar);

const limits: fc.Arbitrary<Limit> = fc
  .record({
    kind: fc.constantFrom("drip", "calendar", "session"),
    capacity: tokens,
    refillAmount: tokens,
    refillPeriodMs: periods,
    soft: fc.boolean(),
    tz: zones,
    cron: crons,
    counts: fc.constantFrom("a", "requests", "tz", "when"),
    windows: fc.array(
      fc.record(
        { cron: crons, scale: scales, capacity: tokens, refillAmount: tokens, refillPeriodMs: periods },
        { requiredKeys: ["cron", "capacity"] },
      ),
      { maxLength: 3 },
    ),
  })
  .map(({ kind, counts, capacity, refillAmount, refillPeriodMs, soft, tz, cron, windows }) => {
    const schedule = windows.map((given) => {
      const { scale, ...absolute } = given;
      if (scale !== undefined) return { cron: given.cron, tz, scale: Math.min(scale, 1) };
      return kind === "drip" ? { ...absolute, tz } : { cron: given.cron, capacity: given.capacity, tz };
    });
    const rest = { soft, schedule, counts };
    if (kind === "drip") return make.custom("a", { capacity, refillAmount, refillPeriodMs, ...rest });
    if (kind === "calendar") return make.quota("a", capacity, { reset: { cron, tz }, ...rest });
    return make.quota("a", capacity, { resetAfterMs: refillPeriodMs, ...rest });
  });

test("what is printed for a limit is read as a limit of the same terms in every window", () => {
  fc.assert(
    fc.property(limits, (limit) => {
      const read = limitOfText(textOfLimit(limit), calendar);
      const { schedule: _, ...plain } = limit;
      const { schedule: __, ...plainRead } = read;
      assert.deepEqual(plainRead, plain);
      const windows = (each: Limit) =>
        (each.schedule ?? []).map((entry) => [
          entry.cron,
          entry.tz,
          effectiveTerms(termsOf(each), [entry], () => true),
        ]);
      assert.deepEqual(windows(read), windows(limit));
      // And from then on it stays as it is.
      assert.equal(textOfLimit(read), textOfLimit(limit));
    }),
    { numRuns: 300 },
  );
});

test("a text that is wrong in one part names that part and what it may be", () => {
  for (const [text, message] of [
    ["rpm:1,000", /the amount is "1,000"; leave the commas out: 1000\.$/],
    ["rpm:100/fortnight", /the period is "fortnight"; give AMOUNT\/PERIOD with s, min, h or day .*such as 100\/min/],
    ["rpm:5T", /the amount is "5T"; give AMOUNT.* whole numbers with k, M or G/],
    ["rpm:100/min:2,000", /the burst is "2,000"; leave the commas out: 2000\.$/],
    ["rpm:100/min:x", /the burst is "x"; give AMOUNT/],
    ["rpm:100,when=* 9 * * * 5T", /ends in "5T"; give xSCALE or .*the amount is "5T"/],
    ["rpm:1/2/3", /give AMOUNT\[\/PERIOD\]\[:BURST\]/],
  ] as const) {
    assert.throws(() => limitOfText(text, calendar), { name: "ValidationError", code: "limit_invalid", message });
  }
});
