import assert from "node:assert/strict";
import { test } from "node:test";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { ValidationError } from "../names/errors.ts";
import {
  checkLimits as checkLimitsBy,
  type Limit as LimitValue,
  limitMakers,
  Limit as WithoutCalendar,
} from "./limit.ts";
import type { ScheduleEntry } from "./schedule.ts";

const calendar = createCalendar();
const Limit = limitMakers(calendar);
const checkLimits = (limits: readonly LimitValue[]) => checkLimitsBy(limits, calendar);

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
  refused(period(1_000_000_001_000), "limit_invalid", /the longest is 1000000000000/);
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
  const given = [{ name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 1000 }];
  const checked = checkLimits(given);
  (given[0] as { capacity: number }).capacity = 500;
  assert.deepEqual(checked, [{ name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 1000 }]);
});

test("a misspelled option of a limit is refused with the nearest name, wherever in it it stands", () => {
  const wrong = (make: () => unknown, near: RegExp) => refused(make, "option_unknown", near);
  wrong(() => Limit.perMinute("x", 5, { brust: 9 } as never), /Limit "x".*"brust"; did you mean `burst`\?/);
  wrong(
    () => Limit.perHour("x", 5, { capacity: 9 } as never),
    /"capacity"; known: burst, counts, soft, shadow, schedule/,
  );
  wrong(
    () => Limit.custom("x", { capacity: 1, refillAmount: 1, refillPeriod: 1_000 } as never),
    /"refillPeriod"; did you mean `refillPeriodMs`\?/,
  );
  wrong(() => Limit.quota("x", 5, { resetAfter: 60_000 } as never), /did you mean `resetAfterMs`\?/);
  wrong(
    () => Limit.quota("x", 5, { reset: { cron: "0 0 * * *", timezone: "UTC" } } as never),
    /reset has .*"timezone"/,
  );
  wrong(
    () => Limit.perMinute("x", 5, { schedule: [{ cron: "* 9-17 * * *", scael: 2 }] } as never),
    /window .*"scael"; did you mean `scale`\?/,
  );
  wrong(
    () =>
      checkLimits([
        { name: "x", capacity: 5, refillAmount: 5, refill_period_ms: 1_000, refillPeriodMs: 1_000 },
      ] as never),
    /did you mean `refillPeriodMs`\?/,
  );
});

test("options of a limit that are no object are refused: a burst as third number would be ignored", () => {
  refused(() => Limit.perMinute("x", 5, 10 as never), "options_invalid", /not 10; known names: burst/);
  refused(() => Limit.perMinute("x", 5, null as never), "options_invalid", /not null/);
});

const DAILY = { cron: "0 0 * * *" };
const OFFICE = "* 9-17 * * 1-5";

test("a quota is a limit that never drips, and says its time zone even where none was given", () => {
  assert.deepEqual(Limit.quota("month", 1_000, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } }), {
    name: "month",
    capacity: 1_000,
    refillAmount: 0,
    refillPeriodMs: 1_000,
    reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" },
  });
  assert.deepEqual(Limit.quota("day", 5, { reset: { cron: " 0  0 * *\t* " } }).reset, { cron: "0 0 * * *", tz: "UTC" });
  assert.deepEqual(Limit.quota("session", 500, { resetAfterMs: 18_000_000 }), {
    name: "session",
    capacity: 500,
    refillAmount: 0,
    refillPeriodMs: 1_000,
    resetAfterMs: 18_000_000,
  });
});

test("every maker takes soft and a schedule, and a limit of any kind survives JSON, frozen to the bottom", () => {
  const schedule = [{ cron: OFFICE, scale: 0.5 }];
  const kind = { soft: true, schedule };
  const limits = [
    Limit.perSecond("a", 5, kind),
    Limit.perMinute("a", 5, { burst: 9, ...kind }),
    Limit.perHour("a", 5, kind),
    Limit.perDay("a", 5, kind),
    Limit.custom("a", { capacity: 5, refillAmount: 1, refillPeriodMs: 1_000, ...kind }),
    Limit.quota("a", 5, { reset: DAILY, ...kind }),
    Limit.quota("a", 5, { resetAfterMs: 1_000, ...kind }),
  ];
  for (const limit of limits) {
    assert.equal(limit.soft, true);
    assert.deepEqual(limit.schedule, [{ cron: OFFICE, tz: "UTC", scale: 0.5 }]);
    assert.deepEqual(JSON.parse(JSON.stringify(limit)), { ...limit });
    const parts = [limit, limit.schedule, limit.schedule?.[0], limit.reset];
    for (const part of parts) assert.ok(part === undefined || Object.isFrozen(part));
  }
});

test("soft: false and an empty schedule are the same limit as saying nothing", () => {
  assert.deepEqual(Limit.perMinute("x", 5, { soft: false, schedule: [] }), Limit.perMinute("x", 5));
});

test("a limit drips or resets: never both, never neither", () => {
  refused(() => Limit.quota("q", 5, {} as never), "limit_invalid", /"q": a quota needs a reset; give/);
  refused(() => Limit.quota("q", 5, undefined as never), "limit_invalid", /needs a reset/);
  refused(
    () => Limit.quota("q", 5, { reset: DAILY, resetAfterMs: 1_000 } as never),
    "limit_invalid",
    /"q": it has reset and resetAfterMs; give one of them/,
  );
  const both = { name: "q", capacity: 5, refillAmount: 3, refillPeriodMs: 1_000 };
  refused(() => checkLimits([{ ...both, reset: DAILY }]), "limit_invalid", /"q": it has a reset and refillAmount 3/);
  refused(() => checkLimits([{ ...both, resetAfterMs: 1_000 }]), "limit_invalid", /has a reset and refillAmount 3/);
  refused(() => checkLimits([{ ...both, refillAmount: 0 }]), "limit_invalid", /refillAmount is 0; give a whole number/);
});

test("a session lasts whole seconds, at most a billion of them", () => {
  assert.equal(Limit.quota("s", 5, { resetAfterMs: 1_000_000_000_000 }).resetAfterMs, 1_000_000_000_000);
  for (const resetAfterMs of [0, -1_000, 500, 1_500, 1_000.5, Number.NaN, Number.POSITIVE_INFINITY, "1000", null]) {
    refused(
      () => Limit.quota("s", 5, { resetAfterMs: resetAfterMs as number }),
      "limit_invalid",
      /"s": resetAfterMs is .*; give whole seconds/,
    );
  }
  refused(() => Limit.quota("s", 5, { resetAfterMs: 1_000_000_001_000 }), "limit_invalid", /longest is 1000000000000/);
});

test("a cron that never fires, never stops firing or makes no sense is refused with its text", () => {
  const cases: readonly [cron: unknown, why: RegExp][] = [
    ["0 0 30 2 *", /"q": Cron "0 0 30 2 \*" never fires: .*Choose a day that exists/],
    ["* * * * *", /"q": Cron "\* \* \* \* \*" matches every minute, .*Name the minute/],
    ["0 0 * *", /has 4 fields; five are needed/],
    ["0 24 * * *", /hour "24" is not valid; 0 to 23/],
    ["@daily", /"@daily" is neither a cron nor one of .*did you mean "daily"/],
    [5, /the reset has cron 5 .*give strings such as "0 0 1 \* \* *"/],
    [undefined, /the reset has cron undefined/],
  ];
  for (const [cron, why] of cases) {
    refused(() => Limit.quota("q", 5, { reset: { cron: cron as string } }), "cron_invalid", why);
  }
  refused(
    () => Limit.quota("q", 5, { reset: "0 0 * * *" as never }),
    "limit_invalid",
    /reset is "0 0 \* \* \*"; give \{/,
  );
  refused(() => Limit.quota("q", 5, { reset: null as never }), "limit_invalid", /reset is null; give \{ cron, tz\? \}/);
  const every = Limit.perMinute("x", 5, { schedule: [{ cron: "* * * * *", scale: 2 }] });
  assert.equal(every.schedule?.length, 1, "as a window, every minute makes sense");
  refused(
    () => Limit.perMinute("x", 5, { schedule: [{ cron: "0 0 31 4 *", scale: 2 }] }),
    "cron_invalid",
    /"x": Cron "0 0 31 4 \*" never fires/,
  );
});

test("a time zone that does not exist is refused with the names nearest to it", () => {
  const zone = (tz: unknown) => () => Limit.quota("q", 5, { reset: { cron: "0 0 * * *", tz: tz as string } });
  refused(zone("Europe/Berlinn"), "cron_invalid", /"q": .*"Europe\/Berlinn".*Europe\/Berlin/);
  refused(zone("Amerika/New_York"), "cron_invalid", /"Amerika\/New_York".*America\/New_York/);
  refused(zone(5), "cron_invalid", /tz 5; give strings/);
  refused(
    () => Limit.perMinute("x", 5, { schedule: [{ cron: OFFICE, tz: "Asia/Tokio", scale: 2 }] }),
    "cron_invalid",
    /"x": .*"Asia\/Tokio".*Asia\/Tokyo/,
  );
});

const scheduled = (entry: unknown) => () => Limit.perMinute("x", 100, { schedule: [entry as ScheduleEntry] });

test("a scale has three decimal places at most and stays within the bounds of tokens", () => {
  for (const scale of [0.001, 0.333, 1.005, 2, 1_000_000]) {
    assert.equal(scheduled({ cron: OFFICE, scale })().schedule?.[0]?.scale, scale);
  }
  for (const scale of [0, -1, 0.3333, 0.0005, 1_000_001, Number.NaN, Number.POSITIVE_INFINITY, "0.5", null, true]) {
    refused(
      scheduled({ cron: OFFICE, scale }),
      "limit_invalid",
      /"x": the window "\* 9-17 \* \* 1-5" has scale .*; give a number above 0 and up to 1000000 with at most three/,
    );
  }
  const large = (scale: number) => () => Limit.perMinute("x", 9e12, { schedule: [{ cron: OFFICE, scale }] });
  assert.equal(large(1)().schedule?.length, 1);
  refused(large(1.001), "limit_invalid", /scale 1\.001 .* more than 9000000000000 tokens; choose a smaller one/);
});

test("a window scales or replaces: not both, not neither, and only by whole numbers", () => {
  assert.deepEqual(scheduled({ cron: OFFICE, capacity: 7, refillAmount: 3, refillPeriodMs: 5_000 })().schedule, [
    { cron: OFFICE, tz: "UTC", capacity: 7, refillAmount: 3, refillPeriodMs: 5_000 },
  ]);
  refused(scheduled({ cron: OFFICE }), "limit_invalid", /has nothing to change; give either scale, or at least one of/);
  refused(scheduled({ cron: OFFICE, scale: 2, capacity: 5 }), "limit_invalid", /has a scale and absolute values; give/);
  for (const value of [0, -1, 1.5, true, "5", Number.NaN, 9_000_000_000_001]) {
    refused(
      scheduled({ cron: OFFICE, capacity: value }),
      "limit_invalid",
      /"x": capacity in a window is .*whole number/,
    );
    refused(scheduled({ cron: OFFICE, refillAmount: value }), "limit_invalid", /refillAmount in a window is .*whole/);
  }
  refused(scheduled({ cron: OFFICE, refillPeriodMs: 1_500 }), "limit_invalid", /refillPeriodMs in a window is 1500/);
  refused(scheduled(null), "limit_invalid", /null is not a window; give \{ cron, scale \}/);
  refused(scheduled("9-17"), "limit_invalid", /"9-17" is not a window/);
  refused(() => Limit.perMinute("x", 5, { schedule: {} as never }), "limit_invalid", /schedule is .*; give a list/);
});

test("no window makes a quota drip", () => {
  const quota = (entry: ScheduleEntry) => () => Limit.quota("q", 5, { reset: DAILY, schedule: [entry] });
  assert.equal(quota({ cron: OFFICE, capacity: 9 })().schedule?.[0]?.capacity, 9);
  assert.equal(quota({ cron: OFFICE, scale: 2 })().schedule?.[0]?.scale, 2);
  refused(
    quota({ cron: OFFICE, refillAmount: 1 }),
    "limit_invalid",
    /would make a quota refill; change only its capacity/,
  );
  refused(quota({ cron: OFFICE, capacity: 9, refillPeriodMs: 1_000 }), "limit_invalid", /would make a quota refill/);
});

test("sixteen windows fit on one limit, seventeen do not", () => {
  const windows = (count: number) => () =>
    Limit.perMinute("x", 5, {
      schedule: Array.from({ length: count }, (_, i) => ({ cron: `${i} * * * *`, scale: 2 })),
    });
  assert.equal(windows(16)().schedule?.length, 16);
  refused(windows(17), "limit_invalid", /the schedule has 17 windows; at most 16/);
});

test("soft is true or false, and nothing that only looks like it", () => {
  for (const soft of ["yes", 1, null]) {
    refused(
      () => Limit.perMinute("x", 5, { soft: soft as never }),
      "limit_invalid",
      /"x": soft is .*; give true or false/,
    );
  }
});

test("all limits of one bucket share one time zone, because it is stored once", () => {
  const berlin = Limit.quota("month", 5, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } });
  const paris = Limit.perMinute("rpm", 5, { schedule: [{ cron: OFFICE, tz: "Europe/Paris", scale: 2 }] });
  const plain = Limit.perMinute("tpm", 5);
  assert.equal(checkLimits([berlin, plain]).length, 2);
  refused(
    () => checkLimits([berlin, paris]),
    "limits_zones",
    /have Europe\/Berlin and Europe\/Paris; give all the same/,
  );
  // Not naming a zone is naming UTC.
  const utc = Limit.quota("day", 5, { reset: DAILY });
  refused(() => checkLimits([berlin, utc]), "limits_zones", /Europe\/Berlin and UTC/);
  const mixed = {
    schedule: [
      { cron: OFFICE, scale: 2 },
      { cron: "0 0 * * 0", tz: "Asia/Tokyo", scale: 3 },
    ],
  };
  refused(() => checkLimits([Limit.perMinute("x", 5, mixed)]), "limits_zones", /UTC and Asia\/Tokyo/);
});

test("whoever has no calendar at hand is told where to find a Limit that has one", () => {
  assert.equal(WithoutCalendar.quota("s", 5, { resetAfterMs: 1_000 }).capacity, 5);
  refused(
    () => WithoutCalendar.quota("q", 5, { reset: DAILY }),
    "cron_invalid",
    /has no calendar; use the Limit of `zae-limiter`/,
  );
});

test("a limit says what it counts, by the rule of limit names; its own name is not said", () => {
  assert.deepEqual(Limit.perMinute("rpm", 5, { counts: "requests" }).counts, "requests");
  assert.equal("counts" in Limit.perMinute("rpm", 5, { counts: "rpm" }), false);
  assert.equal("counts" in (checkLimits([{ ...Limit.perMinute("rpm", 5), counts: "rpm" }])[0] as object), false);
  for (const counts of ["", "9x", "a b", "wcu", 5, null]) {
    refused(() => Limit.perMinute("rpm", 5, { counts } as never), "limit_name_invalid", /Invalid measure/);
  }
  const quota = Limit.quota("month", 5, { counts: "tpm", resetAfterMs: 60_000 });
  assert.deepEqual(JSON.parse(JSON.stringify(quota)), { ...quota });
  assert.equal(Limit.custom("x", { capacity: 1, refillAmount: 1, refillPeriodMs: 1_000, counts: "y" }).counts, "y");
});
