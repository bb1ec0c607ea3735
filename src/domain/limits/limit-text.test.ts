import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { ValidationError } from "../names/errors.ts";
import { limitOfText, textOfLimit } from "./limit-text.ts";

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
    ["rpm:100,shadow", { ...drip("rpm", 100, 60_000), shadow: true }],
    ["day:5,shadow,reset=daily", { ...quota("day", 5), shadow: true, reset: { cron: "0 0 * * *", tz: "UTC" } }],
    ["rpm:100,counts=rpm", drip("rpm", 100, 60_000)],
    ["rpm:100,notify=80/95", { ...drip("rpm", 100, 60_000), notifyAt: [80, 95] }],
    [
      "month:2M,reset=monthly,counts=tpm,notify=50",
      { ...quota("month", 2_000_000), counts: "tpm", notifyAt: [50], reset: { cron: "0 0 1 * *", tz: "UTC" } },
    ],
    ["week:2,reset=weekly", { ...quota("week", 2), reset: { cron: "0 0 * * 1", tz: "UTC" } }],
    ["q:5,reset=0 9,17 * * 1-5", { ...quota("q", 5), reset: { cron: "0 9,17 * * 1-5", tz: "UTC" } }],
    ["parallel:10@60s", { ...quota("parallel", 10), holdMs: 60_000 }],
    ["jobs:1k@5m", { ...quota("jobs", 1_000), holdMs: 300_000 }],
    [
      "parallel:10@60s,soft,when=* 9-16 * * 1-5 4,when=* * * * 0 x2,tz=Europe/Berlin,counts=requests",
      {
        ...{ ...quota("parallel", 10), holdMs: 60_000, soft: true, counts: "requests" },
        schedule: [
          { cron: "* 9-16 * * 1-5", tz: "Europe/Berlin", capacity: 4 },
          { cron: "* * * * 0", tz: "Europe/Berlin", scale: 2 },
        ],
      },
    ],
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
    "rpm:10,soft,extra",
    "rpm:10,soft,",
    "rpm:10,shadow,foo",
    "rpm:10,soft,shaddow",
    "parallel:10@60s,shadow,foo",
    "rpm:10,reset=daily,foo",
    "rpm:10,counts=tpm,foo",
    "rpm:10,notify=80,foo",
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
    "parallel:@60s",
    "parallel:10@",
    "parallel:10@60",
    "parallel:10@500ms",
    "parallel:10@2d",
    "parallel:2M@60s",
    "parallel:0@60s",
    "parallel:10@60s@60s",
    "parallel:10/min@60s",
    "parallel:10@60s:20",
    "parallel:10@60s,reset=daily",
    "parallel:10@60s,after=5h",
    "parallel:10@60s,tz=UTC",
    "parallel:10@60s,when=* * * * * 4/min",
    "parallel:10@60s,when=* * * * * 4:8",
    "wcu:10",
    "a b:10",
  ]) {
    assert.throws(() => limitOfText(text, calendar), ValidationError, text);
  }
});

test("a text that is wrong in one part names that part and what it may be", () => {
  for (const [text, message] of [
    ["rpm:1,000", /the amount is "1,000"; leave the commas out: 1000\.$/],
    ["rpm:100/fortnight", /the period is "fortnight"; give AMOUNT\/PERIOD with s, min, h or day .*such as 100\/min/],
    ["rpm:5T", /the amount is "5T"; give AMOUNT.* whole numbers with k, M or G/],
    ["rpm:100/min:2,000", /the burst is "2,000"; leave the commas out: 2000\.$/],
    ["rpm:100/min:x", /the burst is "x"; give AMOUNT/],
    ["rpm:100,when=* 9 * * * 5T", /ends in "5T"; give xSCALE or .*the amount is "5T"/],
    ["parallel:10@", /the hold is ""; give how long each is held after the @, such as 10@60s/],
    ["parallel:10/min@60s", /is not COUNT@HOLD; .*no period, no burst/],
    ["parallel:10@60s,reset=daily", /it has @ and reset=; slots are free when they are given back/],
    ["parallel:10@60s,when=* 9 * * * 4/min", /of a quota, or of slots, has neither period nor burst/],
    ["rpm:1/2/3", /give AMOUNT\[\/PERIOD\]\[:BURST\]/],
  ] as const) {
    assert.throws(() => limitOfText(text, calendar), { name: "ValidationError", code: "limit_invalid", message });
  }
});

test("money is a quota in micro-dollars, by the calendar or beside reset= and after=", () => {
  const monthly = { cron: "0 0 1 * *", tz: "UTC" };
  for (const [text, limit] of [
    ["usd:$50/month", { ...quota("usd", 50_000_000), reset: monthly }],
    ["usd:$5/day", { ...quota("usd", 5_000_000), reset: { cron: "0 0 * * *", tz: "UTC" } }],
    ["usd:$0.25/hour", { ...quota("usd", 250_000), reset: { cron: "0 * * * *", tz: "UTC" } }],
    ["usd:$1.000001/week", { ...quota("usd", 1_000_001), reset: { cron: "0 0 * * 1", tz: "UTC" } }],
    ["usd:$9000000/year", { ...quota("usd", 9_000_000_000_000), reset: { cron: "0 0 1 1 *", tz: "UTC" } }],
    ["usd:$50/month,tz=Europe/Berlin", { ...quota("usd", 50_000_000), reset: { ...monthly, tz: "Europe/Berlin" } }],
    ["usd:$50,reset=monthly", { ...quota("usd", 50_000_000), reset: monthly }],
    ["usd:$2,reset=0 6 * * *", { ...quota("usd", 2_000_000), reset: { cron: "0 6 * * *", tz: "UTC" } }],
    ["usd:$2.50,after=5h", { ...quota("usd", 2_500_000), resetAfterMs: 18_000_000 }],
    ["team_usd:$5/day,soft", { ...quota("team_usd", 5_000_000), soft: true, reset: { cron: "0 0 * * *", tz: "UTC" } }],
    ["month:$5/month,counts=usd", { ...quota("month", 5_000_000), counts: "usd", reset: monthly }],
    [
      "usd:$50/month,when=* * * * 6,0 $10.50",
      {
        ...quota("usd", 50_000_000),
        reset: monthly,
        schedule: [{ cron: "* * * * 6,0", tz: "UTC", capacity: 10_500_000 }],
      },
    ],
  ] as const) {
    assert.deepEqual(limitOfText(text, calendar), limit, text);
  }
});

test("how many at once is written in seconds below two minutes, then in the largest unit", () => {
  for (const [text, written] of [
    ["parallel:10@60s", "parallel:10@60s"],
    ["parallel:10@1m", "parallel:10@60s"],
    ["parallel:10000@119s", "parallel:10k@119s"],
    ["parallel:10@120s", "parallel:10@2m"],
    ["parallel:10@3600s", "parallel:10@1h"],
    ["parallel:10@90m,when=* * * * 6 4,soft", "parallel:10@90m,soft,when=* * * * 6 4"],
    // Slots are no money, whatever they are called.
    ["usd:5@60s", "usd:5@60s"],
  ] as const) {
    assert.equal(textOfLimit(limitOfText(text, calendar)), written);
  }
});

test("a limit is written as money by its name, and read again", () => {
  for (const [text, written] of [
    ["usd:50M,reset=monthly", "usd:$50/month"],
    ["usd:$50.00/month,tz=Europe/Berlin", "usd:$50/month,tz=Europe/Berlin"],
    ["team_usd:250k,reset=daily", "team_usd:$0.25/day"],
    ["usd:1,reset=0 6 * * *", "usd:$0.000001,reset=0 6 * * *"],
    ["usd:$2.5,after=5h", "usd:$2.50,after=5h"],
    ["usd:$9/week,when=* * * * 6 $1", "usd:$9/week,when=* * * * 6 $1"],
    // Money that drips is in tokens, and so is a limit of any other name.
    ["usd:1M/min", "usd:1M/min"],
    ["month:$5/month,counts=usd", "month:5M,reset=monthly,counts=usd"],
  ] as const) {
    assert.equal(textOfLimit(limitOfText(text, calendar)), written);
    assert.deepEqual(limitOfText(written, calendar), limitOfText(text, calendar));
  }
});

test("money that is no quota, or no money, is refused by the part that is wrong", () => {
  for (const [text, message] of [
    [
      "usd:$50",
      /an amount of money is a quota; give one of \/hour, \/day, \/week, \/month or \/year after it, or reset= or after=/,
    ],
    ["usd:$50,soft", /an amount of money is a quota/],
    ["usd:$5/min", /the period of money is "min"; .*Money that drips is written in tokens, .*: 5000000\/min/],
    ["usd:$5/5min", /the period of money is "5min"/],
    ["usd:$5/days", /the period of money is "days"/],
    ["usd:$5/h", /the period of money is "h"/],
    ["usd:$5/", /the period of money is ""/],
    ["usd:$5/month:9", /has no burst; leave it out/],
    ["usd:$5:9,reset=daily", /has no burst/],
    ["usd:$5/month,reset=daily", /it has a period after the amount, and reset=; give one/],
    ["usd:$5/month,after=5h", /it has a period after the amount, and after=; give one/],
    ["usd:$1.0000001/day", /the amount is "\$1.0000001"; give US dollars in digits with at most six decimals/],
    ["usd:$-5/day", /the amount is "\$-5"/],
    ["usd:$/day", /the amount is "\$"/],
    ["usd:$5k/day", /the amount is "\$5k"/],
    ["usd:$1,000/day", /the amount is "\$1,000"; leave the commas out: \$1000/],
    ["usd:$9000000.000001/day", /up to \$9000000/],
    ["usd:$5/day/day", /give \$AMOUNT, or \$AMOUNT and one of/],
    ["usd:$0/day", /capacity is 0/],
    ["usd:5$/day", /the amount is "5\$"/],
    ["usd:$5/month,when=* * * * 6 $1/day", /ends in "\$1\/day".*no period/],
    ["usd:1M/min,when=* * * * 6 $1", /ends in "\$1".*an amount of money is a quota/],
  ] as const) {
    assert.throws(() => limitOfText(text, calendar), { name: "ValidationError", code: "limit_invalid", message }, text);
  }
});

test("percentages that cannot be told are refused with the form to give", () => {
  for (const notify of ["", "0", "101", "95/80", "80/80", "1/2/3/4/5", "80,95x", "8e1", "80%"]) {
    assert.throws(() => limitOfText(`rpm:100,notify=${notify}`, calendar), {
      name: "ValidationError",
      code: "limit_invalid",
      message: /notify=.* must be one to four rising percentages from 1 to 100; give notify=80\/95\.$/,
    });
  }
  assert.throws(() => limitOfText("rpm:100,notify=80,notify=90", calendar), { message: /notify= is given twice/ });
});
