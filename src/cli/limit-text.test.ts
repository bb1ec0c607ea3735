import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../test/properties.ts";
import { limitOf, limitsOf, limitText } from "./limit-text.ts";

const drip = (refillAmount: number, refillPeriodMs: number, capacity: number) => ({
  capacity,
  refillAmount,
  refillPeriodMs,
});
const quota = (capacity: number) => ({ capacity, refillAmount: 0, refillPeriodMs: 1_000 });

test("a limit is read as the page has it", () => {
  for (const [text, expected] of [
    ["rpm:1000", { name: "rpm", ...drip(1000, 60_000, 1000) }],
    ["rpm:1000/min:1500,soft", { name: "rpm", ...drip(1000, 60_000, 1500), soft: true }],
    ["tpm:10k/5min:15_000", { name: "tpm", ...drip(10_000, 300_000, 15_000) }],
    ["r:5/s", { name: "r", ...drip(5, 1_000, 5) }],
    ["r:5/2hour", { name: "r", ...drip(5, 7_200_000, 5) }],
    ["r:5/d", { name: "r", ...drip(5, 86_400_000, 5) }],
    [
      "month:2M,reset=monthly,tz=Europe/Berlin",
      { name: "month", ...quota(2_000_000), reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } },
    ],
    ["q:5,reset=0 9,17 * * 1-5", { name: "q", ...quota(5), reset: { cron: "0 9,17 * * 1-5", tz: "UTC" } }],
    ["w:5,reset=weekly", { name: "w", ...quota(5), reset: { cron: "0 0 * * 1", tz: "UTC" } }],
    ["session:500,after=5h", { name: "session", ...quota(500), resetAfterMs: 18_000_000 }],
    [
      "rpm:100,soft,when=* 9-17 * * 1-5 x0.5",
      {
        name: "rpm",
        ...drip(100, 60_000, 100),
        soft: true,
        schedule: [{ cron: "* 9-17 * * 1-5", tz: "UTC", scale: 0.5 }],
      },
    ],
    [
      "rpm:100,when=* 0-8 * * * 6:60",
      {
        name: "rpm",
        ...drip(100, 60_000, 100),
        schedule: [{ cron: "* 0-8 * * *", tz: "UTC", refillAmount: 6, capacity: 60 }],
      },
    ],
    [
      "rpm:100,when=* 0,1 * * * 6/s,when=* 9 * * * x2,tz=Europe/Berlin",
      {
        name: "rpm",
        ...drip(100, 60_000, 100),
        schedule: [
          { cron: "* 0,1 * * *", tz: "Europe/Berlin", refillAmount: 6, capacity: 6, refillPeriodMs: 1_000 },
          { cron: "* 9 * * *", tz: "Europe/Berlin", scale: 2 },
        ],
      },
    ],
    [
      "q:10,reset=daily,when=* * * * 6 20",
      {
        name: "q",
        ...quota(10),
        reset: { cron: "0 0 * * *", tz: "UTC" },
        schedule: [{ cron: "* * * * 6", tz: "UTC", capacity: 20 }],
      },
    ],
  ] as const) {
    assert.deepEqual({ ...limitOf(text) }, expected, text);
    assert.deepEqual(
      limitOf(limitText(limitOf(text))),
      limitOf(text),
      `${text} printed is ${limitText(limitOf(text))}`,
    );
  }
});

test("whatever is left over is an error, with the text in it", () => {
  for (const text of [
    ...["rpm", ":5", "rpm:", "rpm:1x", "rpm:1.5", "rpm:-1", "rpm:1_", "rpm:_1", "rpm:1kk", "rpm:1K", "rpm:1m"],
    ...[
      "rpm:1/week",
      "rpm:1/0min",
      "rpm:1/min:",
      "rpm:1/min:2:3",
      "rpm:1/min/s",
      "rpm:1 ",
      "rpm:1,hard",
      "rpm:1,soft,soft",
    ],
    ...[
      "q:1/min,reset=daily",
      "q:1:2,after=5h",
      "q:1,reset=daily,after=5h",
      "q:1,reset=daily,reset=daily",
      "rpm:1,tz=UTC",
    ],
    ...[
      "rpm:1,when=* * * * *",
      "rpm:1,when=* * * * * y2",
      "rpm:1,when=* * * * * x",
      "rpm:1,when=* * * * 6 5 5",
      "rpm:1,softly",
    ],
    ...["q:1,reset=daily,when=* * * * 6 5/min", "q:1,after=5"],
  ]) {
    assert.throws(() => limitOf(text), /give|Write/, text);
  }
  assert.throws(() => limitOf("q:1,reset=0 0 30 2 *"), { name: "ValidationError" });
  assert.throws(() => limitOf("q:1,reset=daily,tz=Mars/Olympus"), { name: "ValidationError" });
  assert.throws(() => limitsOf(["rpm:1", "rpm:2"], []), /rpm twice/);
  assert.throws(() => limitsOf(["rpm:1"], ["tpm"]), /name one of the limits given: rpm/);
  assert.equal(limitsOf(["rpm:1", "tpm:2"], ["tpm"])[1]?.soft, true);
});

const amount = fc.oneof(
  fc.integer({ min: 1, max: 99_999 }),
  fc.integer({ min: 1, max: 999 }).map((k) => k * 1_000_000),
);
const periodMs = fc.integer({ min: 1, max: 200_000 }).map((seconds) => seconds * 1_000);
const tz = fc.constantFrom("UTC", "Europe/Berlin");
const cron = fc.constantFrom("* 9-17 * * 1-5", "* 0,6,12 * * *", "* * 1-7 * *");

test("what is printed for a limit is read back as the same limit", () => {
  const terms = fc.record({ refillAmount: amount, capacity: amount }, { requiredKeys: ["refillAmount", "capacity"] });
  const window = fc.oneof(
    fc.record({ cron, scale: fc.constantFrom(0.125, 0.5, 2, 10) }),
    fc.tuple(cron, terms).map(([when, changed]) => ({ cron: when, ...changed })),
    fc
      .tuple(cron, terms, periodMs)
      .map(([when, changed, refillPeriodMs]) => ({ cron: when, ...changed, refillPeriodMs })),
  );
  const name = fc.constantFrom("rpm", "tpm", "a.b-c_9");
  const limits = fc
    .tuple(name, amount, amount, periodMs, tz, fc.boolean(), fc.array(window, { maxLength: 3 }))
    .map(([id, refillAmount, capacity, refillPeriodMs, zone, soft, windows]) => ({
      ...{ name: id, capacity, refillAmount, refillPeriodMs },
      ...(soft ? { soft: true as const } : {}),
      ...(windows.length === 0 ? {} : { schedule: windows.map((each) => ({ tz: zone, ...each })) }),
    }));
  fc.assert(
    fc.property(limits, (limit) => {
      assert.deepEqual({ ...limitOf(limitText(limit)) }, { ...limit });
    }),
  );
  const resets = fc.constantFrom("0 0 1 * *", "0 9,17 * * 1-5", "30 4 * * *");
  fc.assert(
    fc.property(name, amount, resets, tz, fc.boolean(), (id, capacity, reset, zone, soft) => {
      const limit = {
        name: id,
        ...quota(capacity),
        ...(soft ? { soft: true as const } : {}),
        reset: { cron: reset, tz: zone },
      };
      assert.deepEqual({ ...limitOf(limitText(limit)) }, limit);
    }),
  );
  fc.assert(
    fc.property(name, amount, periodMs, (id, capacity, resetAfterMs) => {
      const limit = { name: id, ...quota(capacity), resetAfterMs };
      assert.deepEqual({ ...limitOf(limitText(limit)) }, limit);
    }),
  );
});
