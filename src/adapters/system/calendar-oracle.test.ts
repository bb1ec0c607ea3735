import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { checkScheduleVector, type ScheduleVector } from "../../../scripts/vectors-schedule.ts";
import { atDepth, runs } from "../../../test/depth.ts";
import { createCalendar } from "./calendar.ts";

const calendar = createCalendar();

test("all recorded cases hold: canonical form, effective terms, previous and next reset", () => {
  const file = new URL("../../../test/vectors/schedule.json", import.meta.url);
  const { vectors } = JSON.parse(readFileSync(file, "utf8")) as { vectors: readonly ScheduleVector[] };
  assert.equal(vectors.length, 520);
  const failed = vectors
    .map((vector) => ({ id: vector.id, why: checkScheduleVector(vector) }))
    .filter(({ why }) => why);
  assert.deepEqual(failed, []);
});

test("a vector that differs is told apart, with what was recorded and what is ours", () => {
  const vector = { id: "x", fn: "encode_schedule", in: { schedule: [{ cron: "0 * * * 0", tz: "UTC", scale: 2 }] } };
  assert.equal(checkScheduleVector({ ...vector, out: { compact: "1m0w7s2000", tz: "UTC" } }), undefined);
  assert.equal(
    checkScheduleVector({ ...vector, out: { compact: "1m0w0s2000", tz: "UTC" } }),
    "compact is 1m0w7s2000, recorded was 1m0w0s2000",
  );
  assert.match(checkScheduleVector({ ...vector, fn: "other", out: {} }) ?? "", /unknown fn "other"/);
  const broken = { id: "y", fn: "reset_edges", in: { cron: "61 * * * *", tz: "UTC", now_ms: "0" }, out: {} };
  assert.match(checkScheduleVector(broken) ?? "", /threw RangeError: .*minute "61" is not valid/);
});

describe("against an oracle that walks minute by minute", () => {
  test("windows and resets agree around changes of the clock and elsewhere, 1970 to 2200", () => {
    const random = seeded(2026);
    for (let round = 0; round < atDepth(20, 39); round += 1) {
      const tz = ZONES[round % ZONES.length] ?? "UTC";
      const year = round < 9 ? 1970 + Math.floor(random() * 55) : 2000 + Math.floor(random() * 200);
      const walk = walked(tz, round % 5 === 4 ? randomInstant(random, year) : changeInYear(tz, year, random));
      for (let pattern = 0; pattern < 14; pattern += 1) {
        const cron = randomCron(random);
        if (isUsable(cron)) assertAgrees(walk, cron, tz, random);
      }
    }
  });

  test("rare resets agree with a walk over the days of decades", () => {
    const random = seeded(4);
    for (let round = 0; round < runs(150); round += 1) {
      const [, , dayOfMonth = "*", month = "*", dayOfWeek = "*"] = randomCron(random).split(" ");
      const cron = `30 6 ${dayOfMonth} ${month} ${dayOfWeek}`;
      if (!isUsable(cron)) continue;
      const matches = labelMatcher(cron);
      const now = randomInstant(random, 1970 + Math.floor(random() * 190));
      const labelOf = (day: number): number => day * 1440 + 6 * 60 + 30;
      // Kolkata has been five and a half hours ahead for all that time, so 06:30 is 01:00Z.
      const day = Math.floor((now - 3_600_000) / DAY_MS);
      let next = day + 1;
      while (!matches(labelOf(next))) next += 1;
      let previous = day;
      while (!matches(labelOf(previous))) previous -= 1;
      const message = `${cron} at ${iso(now)}`;
      assert.equal(calendar.nextReset(cron, "Asia/Kolkata", now), next * DAY_MS + 3_600_000, message);
      assert.equal(calendar.previousReset(cron, "Asia/Kolkata", now), previous * DAY_MS + 3_600_000, message);
      if (!calendar.matches(cron, "Asia/Kolkata", now)) {
        assert.equal(calendar.nextChange(cron, "Asia/Kolkata", now), next * DAY_MS + 3_600_000, message);
      }
    }
  });

  test("what is remembered never changes an answer, whatever was asked before and however much", () => {
    const random = seeded(7);
    const used = createCalendar();
    const crons = Array.from({ length: 300 }, () => randomCron(random)).filter(isUsable);
    for (let round = 0; round < runs(3_000); round += 1) {
      const cron = pick(random, crons);
      const tz = pick(random, ZONES);
      const now = Date.UTC(2026, 2, 1) + Math.floor(random() * 300 * DAY_MS);
      const answer = (from: typeof used): readonly unknown[] => [
        from.matches(cron, tz, now),
        from.nextChange(cron, tz, now),
        from.nextReset(cron, tz, now),
        from.previousReset(cron, tz, now),
      ];
      if (round % 10 === 0) assert.deepEqual(answer(used), answer(createCalendar()), `${cron} ${tz} ${iso(now)}`);
      else answer(used);
    }
  });
});

// The oracle: Intl for the labels, lists of numbers for the patterns, one minute after the other. No code is shared
// with what it checks.

const DAY_MS = 86_400_000;

const ZONES = [
  "America/New_York",
  "Europe/Berlin",
  "Africa/Cairo",
  "Asia/Beirut",
  "America/Santiago",
  "America/Havana",
  "Australia/Lord_Howe",
  "Africa/Casablanca",
  "America/St_Johns",
  "Asia/Kolkata",
  "Antarctica/Troll",
  "America/Recife",
  "UTC",
];

interface Walk {
  /** The first instant; the others follow minute by minute. */
  readonly startMs: number;
  /** What the clock shows at each, in minutes. */
  readonly labels: readonly number[];
}

const LEAD_MINUTES = 1440;

function walked(tz: string, middleMs: number): Walk {
  const startMs = Math.floor(middleMs / 60_000) * 60_000 - 2 * DAY_MS;
  const labelOf = labeller(tz);
  return { startMs, labels: Array.from({ length: 4 * 1440 }, (_, index) => labelOf(startMs + index * 60_000)) };
}

function assertAgrees(walk: Walk, cron: string, tz: string, random: () => number): void {
  const { startMs, labels } = walk;
  const matches = labelMatcher(cron);
  const open = labels.map((label) => matches(label));
  const resets: number[] = [];
  let highest = labels[0] ?? 0;
  for (const [index, label] of labels.entries()) {
    let rises = false;
    for (let passed = highest + 1; passed <= label; passed += 1) rises ||= matches(passed) && !matches(passed - 1);
    if (rises) resets.push(startMs + index * 60_000);
    highest = Math.max(highest, label);
  }
  const endMs = startMs + labels.length * 60_000;
  for (let ask = 0; ask < 25; ask += 1) {
    const index = LEAD_MINUTES + Math.floor(random() * (labels.length - LEAD_MINUTES - 10));
    // At the first ms of a minute, at its last, or within.
    const now = startMs + index * 60_000 + pick(random, [0, 59_999, Math.floor(random() * 60_000)]);
    const message = `${cron} in ${tz} at ${iso(now)}`;
    assert.equal(calendar.matches(cron, tz, now), open[index], message);

    const change = open.findIndex((value, later) => later > index && value !== open[index]);
    const next = calendar.nextChange(cron, tz, now);
    if (change >= 0) assert.equal(iso(next), iso(startMs + change * 60_000), `change: ${message}`);
    else assert.ok(next >= endMs, `change within the walk: ${message} gave ${iso(next)}`);

    const reset = resets.find((ms) => ms > now);
    const following = calendar.nextReset(cron, tz, now);
    if (reset !== undefined) assert.equal(iso(following), iso(reset), `next reset: ${message}`);
    else assert.ok(following >= endMs, `next reset within the walk: ${message} gave ${iso(following)}`);

    const last = resets.findLast((ms) => ms <= now);
    const previous = calendar.previousReset(cron, tz, now);
    if (last !== undefined) assert.equal(iso(previous), iso(last), `previous reset: ${message}`);
    else assert.ok(previous <= startMs, `previous reset within the walk: ${message} gave ${iso(previous)}`);
  }
}

function labeller(tz: string): (atMs: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: tz,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
  });
  return (atMs) => {
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0] = (format.format(atMs).match(/\d+/g) ?? []).map(Number);
    return Date.UTC(year, month - 1, day, hour, minute) / 60_000;
  };
}

/** An instant near a change of the zone's offset in that year, if there is one. */
function changeInYear(tz: string, year: number, random: () => number): number {
  const labelOf = labeller(tz);
  const offset = (ms: number): number => labelOf(ms) - ms / 60_000;
  const days = Array.from({ length: 364 }, (_, index) => Date.UTC(year, 0, 2) + index * DAY_MS);
  const changes = days.filter((ms) => offset(ms) !== offset(ms + DAY_MS));
  return changes.length === 0 ? randomInstant(random, year) : pick(random, changes) + DAY_MS / 2;
}

function labelMatcher(cron: string): (label: number) => boolean {
  const fields = cron.split(" ");
  const [minutes, hours, days, months, weekdays] = fields.map((field, index) =>
    valuesOf(field, BOUNDS[index] ?? [0, 0]),
  );
  const both = fields[2]?.startsWith("*") || fields[4]?.startsWith("*");
  return (label) => {
    const date = new Date(label * 60_000);
    if (
      !minutes?.has(date.getUTCMinutes()) ||
      !hours?.has(date.getUTCHours()) ||
      !months?.has(date.getUTCMonth() + 1)
    ) {
      return false;
    }
    const weekday = date.getUTCDay();
    const onDay = days?.has(date.getUTCDate()) === true;
    const onWeekday = weekdays?.has(weekday) === true || (weekday === 0 && weekdays?.has(7) === true);
    return both ? onDay && onWeekday : onDay || onWeekday;
  };
}

const BOUNDS: readonly (readonly [low: number, high: number])[] = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 7],
];

function valuesOf(field: string, [low, high]: readonly [low: number, high: number]): Set<number> {
  const values = new Set<number>();
  for (const item of field.split(",")) {
    const [range = "", step] = item.split("/");
    const [from, to] = range === "*" ? [low, high] : range.split("-").map(Number);
    const last = to ?? (step === undefined ? from : high);
    for (let value = from ?? 0; value <= (last ?? 0); value += Number(step ?? 1)) values.add(value);
  }
  return values;
}

function randomCron(random: () => number): string {
  // Days and months are left open more often, else most patterns would not show in a walk of four days.
  const open = [0.3, 0.4, 0.6, 0.75, 0.6];
  return BOUNDS.map((bounds, index) => (random() < (open[index] ?? 0) ? "*" : randomField(random, bounds))).join(" ");
}

function randomField(random: () => number, [low, high]: readonly [low: number, high: number]): string {
  const value = (from: number): number => from + Math.floor(random() * (high - from + 1));
  const range = (): string => {
    const from = value(low);
    return `${from}-${value(from)}`;
  };
  const step = (): number => 1 + Math.floor(random() * Math.min(7, high - low));
  const item = pick(random, [
    () => String(value(low)),
    () => [value(low), value(low), value(low)].join(","),
    range,
    () => `*/${step()}`,
    () => `${range()}/${step()}`,
    () => `${value(low)}/${step()}`,
    () => `${range()},${value(low)}`,
    // Around midnight, and the hours in which clocks change.
    () => `${high - 1}-${high},${low}-${low + 2}`,
    () => String(Math.min(high, low + Math.floor(random() * 4))),
  ]);
  return item();
}

function randomInstant(random: () => number, year: number): number {
  return Date.UTC(year, 0, 3) + Math.floor(random() * 360 * DAY_MS);
}

function pick<Value>(random: () => number, values: readonly Value[]): Value {
  return values[Math.floor(random() * values.length)] as Value;
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function isUsable(cron: string): boolean {
  return calendar.problemOf(cron, "UTC", "reset") === undefined;
}

function iso(ms: number): string {
  return Number.isFinite(ms) ? new Date(ms).toISOString() : String(ms);
}
