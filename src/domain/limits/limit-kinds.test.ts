import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../../test/limits/calendar-kit.ts";
import { advanceLimit, fullLimit, type LimitState } from "../bucket/limit-state.ts";
import { marksAfterUse, opensWindow, rewound } from "./changed-limit.ts";
import { rulesOf } from "./kinds/table.ts";
import { type Limit, limitMakers } from "./limit.ts";

const NOON = Date.UTC(2026, 0, 1, 12);
const HOUR_MS = 3_600_000;
const Kinds = limitMakers(calendar);
const drip = Kinds.perHour("drip", 10);
const daily = Kinds.quota("daily", 10, { reset: { cron: "0 0 * * *" } });
const session = Kinds.quota("session", 10, { resetAfterMs: HOUR_MS });

function holding(limit: Limit, tokens: number): LimitState {
  return { ...fullLimit(limit, true, NOON, calendar), tokensMilli: tokens * 1000 };
}

test("only a limit that drips refills steadily, and only a session opens a window", () => {
  const all = [drip, daily, session].map(rulesOf);
  assert.deepEqual(
    all.map(({ refillsSteadily }) => refillsSteadily),
    [true, false, false],
  );
  assert.deepEqual(
    all.map(({ opensWindow: opens }) => opens),
    [false, false, true],
  );
});

test("a window is opened by the first use, and by no later one", () => {
  const closed = holding(session, 10);
  assert.equal(opensWindow(closed, 0), false, "nothing was used");
  const marks = marksAfterUse(closed, 1_000, NOON);
  assert.equal(marks?.windowStartMs, NOON);
  const open = { ...closed, quota: marks };
  assert.equal(opensWindow(open, 1_000), false);
  assert.equal(marksAfterUse(open, 1_000, NOON + 5), marks);
  for (const limit of [drip, daily]) assert.equal(opensWindow(holding(limit, 10), 1_000), false);
});

test("moved back by an hour, a limit that drips loses what an hour brings, at most its capacity", () => {
  const back = (hours: number) => rewound(holding(drip, 10), { fromMs: NOON, toMs: NOON - hours * HOUR_MS }, calendar);
  assert.equal(back(0.5).lostMilli, 5_000);
  assert.equal(back(0.5).limit.tokensMilli, 5_000);
  assert.equal(back(48).lostMilli, 10_000);
});

test("moved back within its day a quota keeps what it has; moved back across a reset it has nothing, and keeps its debt", () => {
  const within = rewound(holding(daily, 7), { fromMs: NOON, toMs: NOON - HOUR_MS }, calendar);
  assert.deepEqual([within.lostMilli, within.limit.tokensMilli], [0, 7_000]);
  const across = rewound(holding(daily, 7), { fromMs: NOON, toMs: NOON - 13 * HOUR_MS }, calendar);
  assert.deepEqual([across.lostMilli, across.limit.tokensMilli], ["all", 0]);
  const owing = rewound(holding(daily, -3), { fromMs: NOON, toMs: NOON - 13 * HOUR_MS }, calendar);
  assert.equal(owing.limit.tokensMilli, -3_000);
});

test("moved back to before windows of a schedule, a quota keeps what it has: they fill nothing", () => {
  const schedule = [{ cron: "* 11 * * *", scale: 0.5 }];
  const windowed = Kinds.quota("daily", 10, { reset: { cron: "0 0 * * *" }, schedule });
  const { limit, lostMilli } = rewound(holding(windowed, 7), { fromMs: NOON, toMs: NOON - 2 * HOUR_MS }, calendar);
  assert.deepEqual([lostMilli, limit.tokensMilli], [0, 7_000]);
});

test("moved back within its window, a session keeps what it has", () => {
  const open = withWindow(holding(session, 7), NOON - HOUR_MS / 2);
  const { limit, lostMilli } = rewound(open, { fromMs: NOON, toMs: NOON - HOUR_MS / 4 }, calendar);
  assert.deepEqual([lostMilli, limit], [0, open]);
});

test("moved back to before its window, a session is empty for as long as the window before can have lasted", () => {
  for (const held of [holding(session, 10), withWindow(holding(session, 7), NOON)]) {
    for (const [backMs, untilMs] of [
      [60_000, NOON],
      [2 * HOUR_MS, NOON - HOUR_MS],
    ] as const) {
      const toMs = NOON - backMs;
      const { limit, lostMilli } = rewound(held, { fromMs: NOON, toMs }, calendar);
      assert.deepEqual([lostMilli, limit.tokensMilli], ["all", 0]);
      assert.equal(advanceLimit(limit, toMs, untilMs - 1, calendar).tokensMilli, 0);
      assert.equal(advanceLimit(limit, toMs, untilMs, calendar).tokensMilli, 10_000);
    }
  }
});

function withWindow(held: LimitState, windowStartMs: number): LimitState {
  return { ...held, quota: held.quota && { ...held.quota, windowStartMs } };
}
