import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../test/limits/calendar-kit.ts";
import { type Limit, limitMakers } from "./limit.ts";
import { marksAfterUse, opensWindow, rewound, traitsOf } from "./limit-kinds.ts";
import { advanceLimit, fullLimit, type LimitState } from "./limit-state.ts";

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
  assert.deepEqual(traitsOf(drip), { refillsSteadily: true, opensWindow: false });
  assert.deepEqual(traitsOf(daily), { refillsSteadily: false, opensWindow: false });
  assert.deepEqual(traitsOf(session), { refillsSteadily: false, opensWindow: true });
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

test("a session that loses everything by being moved back is open: closed, the next use would find it full", () => {
  const windowed = Kinds.quota("session", 10, {
    resetAfterMs: HOUR_MS,
    schedule: [{ cron: "* 11 * * *", scale: 0.5 }],
  });
  const toMs = NOON - 2 * HOUR_MS;
  const { limit, lostMilli } = rewound(holding(windowed, 10), { fromMs: NOON, toMs }, calendar);
  assert.deepEqual([lostMilli, limit.tokensMilli, limit.quota?.windowStartMs], ["all", 0, toMs]);
  assert.equal(advanceLimit(limit, toMs, toMs + 1_000, calendar).tokensMilli, 0);
});
