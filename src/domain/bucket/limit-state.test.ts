import assert from "node:assert/strict";
import { test } from "node:test";
import { atDepth, runs } from "../../../test/depth.ts";
import {
  anyInstant,
  anyLimit,
  anyState,
  calendar,
  EVEN_NUMBERS,
  type Numbers,
  ODD_NUMBERS,
} from "../../../test/limits/kind-arbitraries.ts";
import { SlowLimit } from "../../../test/limits/slow-limit.ts";
import { fc } from "../../../test/properties.ts";
import { levelMilli } from "../../bucket/level.ts";
import { kindOf } from "../limits/kinds/table.ts";
import { capacityMaxMilli, limitMakers } from "../limits/limit.ts";
import type { ScheduleEntry } from "../limits/schedule.ts";
import { advanceLimit, boundaryAfter, fullLimit, type LimitState, termsAt } from "./limit-state.ts";
import { searchFor } from "./search.ts";

const Limit = limitMakers(calendar);
const DAY_MS = 86_400_000;

interface Case {
  readonly state: LimitState;
  readonly fromMs: number;
  readonly spanMs: number;
}

function anyCase(
  grain: "coarse" | "fine",
  numbers: Numbers,
  spanMs: fc.Arbitrary<number>,
  fraction = true,
): fc.Arbitrary<Case> {
  return fc
    .tuple(anyLimit(grain, numbers), anyInstant, spanMs, fc.boolean())
    .chain(([limit, instantMs, span, atBoundary]) => {
      // Half of the stories begin with a window or a period, at its very first millisecond.
      const boundaryMs = boundaryAfter(fullLimit(limit, true, instantMs, calendar), instantMs, calendar);
      const fromMs = atBoundary && Number.isFinite(boundaryMs) ? boundaryMs : instantMs;
      return anyState(limit, fromMs, fraction).map((state) => ({ state, fromMs, spanMs: span }));
    });
}

const days = fc.oneof(fc.integer({ min: 0, max: 3 * DAY_MS }), fc.integer({ min: 0, max: 7_200_000 }));
// Three windows change four times a day at most: that is as long as every change is walked through.
const decades = fc.oneof(
  fc.integer({ min: 0, max: 12 * 365 * DAY_MS }),
  fc.integer({ min: 0, max: 40 * DAY_MS }),
  fc.integer({ min: 0, max: 2 * DAY_MS }),
);

/** Somewhere between, or at a boundary, or a millisecond beside it. */
function between({ state, fromMs, spanMs }: Case, thousandth: number, beside: -1 | 0 | 1 | undefined): number {
  const midMs = fromMs + Math.floor((spanMs * thousandth) / 1000);
  if (beside === undefined) return midMs;
  const boundaryMs = boundaryAfter(advanceLimit(state, fromMs, midMs, calendar), midMs, calendar);
  return Math.min(fromMs + spanMs, Math.max(fromMs, boundaryMs + beside));
}

function splits(cases: fc.Arbitrary<Case>, numRuns: number): void {
  const beside = fc.option(fc.constantFrom(-1 as const, 0 as const, 1 as const), { nil: undefined });
  let passed = 0;
  fc.assert(
    fc.property(cases, fc.nat(1000), beside, (one, thousandth, offset) => {
      const { state, fromMs, spanMs } = one;
      const toMs = fromMs + spanMs;
      const midMs = between(one, thousandth, offset);
      const whole = advanceLimit(state, fromMs, toMs, calendar);
      const parts = advanceLimit(advanceLimit(state, fromMs, midMs, calendar), midMs, toMs, calendar);
      assert.deepEqual(parts, whole);
      if (boundaryAfter(state, fromMs, calendar) <= toMs) passed++;
    }),
    { numRuns },
  );
  assert.ok(passed > numRuns / 3, `only ${passed} of ${numRuns} stories passed a boundary`);
}

test("advancing in one step or in two, wherever they are split, is the same to the fraction: over days, windows of minutes", () => {
  splits(anyCase("fine", ODD_NUMBERS, days), runs(800));
});

test("advancing in one step or in two, wherever they are split, is the same to the fraction: over decades", () => {
  splits(anyCase("coarse", ODD_NUMBERS, decades), runs(300));
});

test("a limit that fills within days is exactly where it would be, however long nobody came and however often it changed", () => {
  const quick: Numbers = { ...ODD_NUMBERS, capacity: fc.integer({ min: 1, max: 50 }), periodMs: fc.constant(1_000) };
  const ages = fc.integer({ min: 60 * DAY_MS, max: 365 * DAY_MS });
  splits(anyCase("fine", quick, ages), runs(60));
});

test("time never lifts a limit above the capacity in force, and the terms are those of the instant", () => {
  fc.assert(
    fc.property(anyCase("coarse", ODD_NUMBERS, decades), ({ state, fromMs, spanMs }) => {
      const toMs = fromMs + spanMs;
      const after = advanceLimit(state, fromMs, toMs, calendar);
      const topUpMilli = after.quota?.topUpMilli ?? 0;
      assert.ok(after.tokensMilli <= after.terms.capacityMilli, `${after.tokensMilli} of ${after.terms.capacityMilli}`);
      assert.deepEqual(after.terms, termsAt(state.limit, topUpMilli, toMs, calendar));
      assert.ok(topUpMilli === 0 || topUpMilli === state.quota?.topUpMilli);
    }),
    { numRuns: runs(300) },
  );
});

test("a limit of any kind is where a walk from minute to minute brings it, to the millitoken where nothing is rounded", () => {
  fc.assert(
    fc.property(anyCase("fine", EVEN_NUMBERS, days, false), ({ state, fromMs, spanMs }) => {
      const slow = new SlowLimit(state, fromMs, calendar);
      slow.walk(fromMs + spanMs);
      const after = advanceLimit(state, fromMs, fromMs + spanMs, calendar);
      assert.equal(BigInt(after.tokensMilli), slow.levelMilli);
      assert.equal(after.remainder, 0);
      compareMarks(after, slow);
    }),
    { numRuns: runs(150) },
  );
});

test("and less than a millitoken beside it where rates do not divide evenly", () => {
  fc.assert(
    fc.property(anyCase("fine", ODD_NUMBERS, days), ({ state, fromMs, spanMs }) => {
      const slow = new SlowLimit(state, fromMs, calendar);
      slow.walk(fromMs + spanMs);
      const after = advanceLimit(state, fromMs, fromMs + spanMs, calendar);
      const apart = BigInt(after.tokensMilli) - slow.levelMilli;
      assert.ok(apart >= -1n && apart <= 1n, `${apart} millitokens off`);
      compareMarks(after, slow);
    }),
    { numRuns: runs(150) },
  );
});

function compareMarks({ terms, quota }: LimitState, slow: SlowLimit): void {
  assert.deepEqual(terms, slow.terms);
  const { windowStartMs, topUpMilli } = quota ?? { windowStartMs: undefined, topUpMilli: 0 };
  assert.deepEqual({ windowStartMs, topUpMilli }, slow.marks);
}

/** Whether so much is there at an instant, if nobody takes before. */
function grants(state: LimitState, epochMs: number, milli: number, atMs: number): boolean {
  const at = advanceLimit(state, epochMs, atMs, calendar);
  return at.limit.soft === true || levelMilli(at, at.terms, 0) >= milli;
}

/** The same limit, at least a millitoken short of the amount: most waits begin so. A closed session is always full. */
function short(state: LimitState, milli: number): LimitState {
  if (state.limit.resetAfterMs !== undefined && state.quota?.windowStartMs === undefined) return state;
  return { ...state, tokensMilli: Math.min(state.tokensMilli, milli - 1) };
}

test("windows that no longer matter are passed over, and it comes to the same as going through them one by one", () => {
  let many = 0;
  fc.assert(
    fc.property(
      fc.oneof(anyCase("fine", EVEN_NUMBERS, days), anyCase("coarse", ODD_NUMBERS, fc.nat(900 * DAY_MS))),
      ({ state, fromMs, spanMs }) => {
        const toMs = fromMs + spanMs;
        const whole = advanceLimit(state, fromMs, toMs, calendar);
        let hops = 0;
        let [at, atMs] = [state, fromMs];
        for (;;) {
          const nextMs = boundaryAfter(at, atMs, calendar);
          if (nextMs > toMs) break;
          [at, atMs] = [advanceLimit(at, atMs, nextMs, calendar), nextMs];
          hops++;
        }
        assert.deepEqual(whole, advanceLimit(at, atMs, toMs, calendar));
        if (hops > 20) many++;
      },
    ),
    { numRuns: runs(300) },
  );
  assert.ok(many > runs(12), `only ${many} stories through many windows`);
});

test("the instant that a refusal names is the first that works, for every kind: a walk finds no earlier one", () => {
  let later = 0;
  let never = 0;
  let bought = 0;
  fc.assert(
    fc.property(
      anyCase("fine", EVEN_NUMBERS, fc.integer({ min: 0, max: DAY_MS / 2 }), false),
      fc.oneof(fc.integer({ min: 1, max: 1_100 }), fc.constant(1_000)),
      ({ state: drawn, fromMs: epochMs, spanMs }, parts) => {
        const milli = Math.ceil((capacityMaxMilli(drawn.limit) * parts) / 1000);
        const state = short(drawn, milli);
        const fromMs = epochMs + spanMs;
        const { atMs, found } = searchFor(state, epochMs, milli, fromMs, calendar);
        assert.ok(atMs >= fromMs);
        if (state.limit.soft) return assert.equal(atMs, fromMs);
        const slow = new SlowLimit(state, epochMs, calendar);
        slow.walk(fromMs);
        // Walking for months is not worth it, and minutes ahead by the thousand are only asked about again.
        const foundMs = slow.firstWith(milli, fromMs + DAY_MS);
        if (foundMs !== undefined) assert.equal(atMs, foundMs);
        // Only what was bought makes room for it, and that ends with the period: the walk shows that nothing comes before.
        else if (milli > capacityMaxMilli(state.limit) && !found) bought++;
        else assert.ok(atMs > fromMs + DAY_MS, `told ${atMs - fromMs} ms, but nothing is there for a day`);
        if (foundMs !== undefined && foundMs > fromMs) later++;
        if (atMs === Number.POSITIVE_INFINITY) never++;
      },
    ),
    { numRuns: runs(250) },
  );
  const shown = `${later} waits, ${never} refusals for ever and ${bought} until the end of what was bought`;
  assert.ok(later > runs(5) && never >= atDepth(0, 1), `${shown}: too poor to show anything`);
});

test("a caller who comes at the instant named is let in, and a millisecond before is not: any rates, weeks and years ahead", () => {
  let far = 0;
  fc.assert(
    fc.property(
      anyCase("coarse", ODD_NUMBERS, decades),
      fc.integer({ min: 1, max: 1_000 }),
      ({ state: drawn, fromMs: epochMs, spanMs }, parts) => {
        const fromMs = epochMs + (spanMs % (5 * DAY_MS));
        const milli = Math.ceil((capacityMaxMilli(drawn.limit) * parts) / 1000);
        const state = short(drawn, milli);
        const { atMs } = searchFor(state, epochMs, milli, fromMs, calendar);
        // Some thousand boundaries ahead, a year of these windows, the answer is only when to ask again.
        if (atMs > fromMs + 300 * DAY_MS) return;
        assert.ok(grants(state, epochMs, milli, atMs), `refused at ${atMs}`);
        if (atMs === fromMs) return;
        assert.ok(!grants(state, epochMs, milli, atMs - 1), `granted before ${atMs}`);
        if (atMs > fromMs + DAY_MS) far++;
        // Nor at any instant before: boundaries and what lies around them.
        for (let i = 1; i <= 20; i++) {
          const midMs = fromMs + Math.floor(((atMs - fromMs) * i) / 21);
          assert.ok(!grants(state, epochMs, milli, midMs), `granted at ${midMs}, before ${atMs}`);
        }
      },
    ),
    { numRuns: runs(250) },
  );
  assert.ok(far > runs(4), `only ${far} waits of more than a day`);
});

test("more than a limit can ever hold is never there, and that is told without looking through the calendar", () => {
  const asked: string[] = [];
  const counting = {
    ...calendar,
    matches: (cron: string, tz: string, atMs: number) => {
      asked.push(cron);
      return calendar.matches(cron, tz, atMs);
    },
  };
  const schedule = [{ cron: "*/2 * * * *", scale: 1.5 }];
  const limits = [
    Limit.perMinute("x", 10, { schedule }),
    Limit.quota("x", 10, { reset: { cron: "*/2 * * * *" }, schedule }),
    Limit.quota("x", 10, { resetAfterMs: 60_000, schedule }),
  ];
  for (const limit of limits) {
    const state = fullLimit(limit, true, 0, calendar);
    assert.equal(searchFor(state, 0, 15_001, 0, counting).atMs, Number.POSITIVE_INFINITY, kindOf(limit));
    assert.ok(asked.splice(0).length < 5, "the calendar was searched");
  }
});

test("what was bought can be spent above the capacity; once it is out, only what comes back makes room, until the reset", () => {
  const limit = Limit.quota("x", 10, { reset: { cron: "0 0 * * *" } });
  const full = fullLimit(limit, true, 0, calendar);
  const bought: LimitState = {
    ...full,
    terms: { ...full.terms, capacityMilli: 15_000 },
    tokensMilli: 15_000,
    quota: { windowStartMs: undefined, topUpMilli: 5_000, resets: 0 },
  };
  assert.equal(searchFor(bought, 0, 12_000, 500, calendar).atMs, 500);
  const spent = { ...bought, tokensMilli: 11_000 };
  assert.deepEqual(searchFor(spent, 0, 12_000, 500, calendar), { atMs: DAY_MS, found: false });
  assert.deepEqual(searchFor(spent, 0, 15_000, 500, calendar), { atMs: DAY_MS, found: false });
  assert.deepEqual(searchFor(spent, 0, 15_001, 500, calendar), { atMs: Number.POSITIVE_INFINITY, found: true });
  const renewed = advanceLimit(spent, 0, DAY_MS, calendar);
  assert.deepEqual(searchFor(renewed, DAY_MS, 12_000, DAY_MS, calendar), {
    atMs: Number.POSITIVE_INFINITY,
    found: true,
  });
  assert.equal(searchFor({ ...bought, tokensMilli: 9_000 }, 0, 10_000, 500, calendar).atMs, DAY_MS);
});

test("what drips into a full window flows off with it, fractions too: the next window begins at the brim exactly", () => {
  const schedule = [{ cron: "0-29 * * * *", scale: 0.5 }];
  const limit = Limit.custom("rpm", { capacity: 12, refillAmount: 52, refillPeriodMs: DAY_MS, schedule });
  const hourMs = Date.UTC(2026, 2, 15, 14);
  // Full within the first half of the hour, from just below the brim, with a fraction of its own.
  const state = { ...fullLimit(limit, true, hourMs, calendar), tokensMilli: 5_990, remainder: 12_345 };
  const half = advanceLimit(state, hourMs, hourMs + 1_800_000, calendar);
  assert.deepEqual([half.tokensMilli, half.remainder], [6_000, 0]);
});

test("a schedule that changes every minute, and a bucket left alone for a year, do not stop the process", () => {
  let calls = 0;
  const counting = {
    ...calendar,
    nextChange: (cron: string, tz: string, atMs: number) => {
      calls++;
      return calendar.nextChange(cron, tz, atMs);
    },
  };
  const limit = Limit.perHour("x", 60, { schedule: [{ cron: "*/2 * * * *", scale: 0.5 }] });
  const spent = { ...fullLimit(limit, true, 0, calendar), tokensMilli: 0 };
  const after = advanceLimit(spent, 0, 365 * DAY_MS, counting);
  assert.equal(after.tokensMilli, 30_000); // at an even minute: half of the sixty
  assert.ok(calls < 60_000, `${calls} questions to the calendar`);
});

test("a bucket left alone for years holds no more than the smallest of its windows has left it", () => {
  const schedule = [
    { cron: "* 9-17 * * *", scale: 0.333 },
    { cron: "*/15 * * * *", scale: 0.001 },
  ];
  const limit = Limit.perHour("x", 2, { burst: 3, schedule });
  // Ten minutes after a minute in which it holds three thousandths of a token.
  const toMs = Date.UTC(2027, 11, 31, 6, 55, 46);
  const left = [1, 48, 13_886].map((hours) => {
    const fromMs = toMs - hours * 3_600_000;
    return advanceLimit(fullLimit(limit, true, fromMs, calendar), fromMs, toMs, calendar).tokensMilli;
  });
  assert.deepEqual(left, [328, 328, 328]);
});

test("a quota left alone for months is cut by the one window that holds less, and not by one that never comes", () => {
  const [fromMs, toMs] = [Date.UTC(2026, 0, 10), Date.UTC(2026, 10, 30, 12, 1)];
  const heldBy = (schedule: readonly ScheduleEntry[], tokensMilli: number) => {
    const limit = Limit.quota("x", 1_000, { reset: { cron: "0 0 1 1 *" }, schedule });
    const state = { ...fullLimit(limit, true, fromMs, calendar), tokensMilli };
    return advanceLimit(state, fromMs, toMs, calendar).tokensMilli;
  };
  const everyMinute = { cron: "*/2 * * * *", capacity: 900 };
  const oneDay = { cron: "* * 15 6 *", capacity: 5 };
  assert.equal(heldBy([oneDay, everyMinute], 800_000), 5_000);
  // Behind the other one it is in force in the odd minutes of that day.
  assert.equal(heldBy([everyMinute, oneDay], 800_000), 5_000);
  assert.equal(heldBy([{ cron: "* * * 6 *", capacity: 700 }, everyMinute, oneDay], 800_000), 700_000);
  assert.equal(heldBy([everyMinute], 950_000), 900_000);
  assert.equal(heldBy([everyMinute, { cron: "1-59/2 * * * *", scale: 1 }, oneDay], 800_000), 800_000);
});

test("a limit of ten a day does not starve under windows that change every minute and say the same rate in other words", () => {
  const schedule = [{ cron: "*/2 * * * *", refillAmount: 5, refillPeriodMs: DAY_MS / 2 }];
  const limit = Limit.custom("rpd", { capacity: 10, refillAmount: 10, refillPeriodMs: DAY_MS, schedule });
  const spent = { ...fullLimit(limit, true, 0, calendar), tokensMilli: 0 };
  assert.equal(advanceLimit(spent, 0, 8_000_000, calendar).tokensMilli, 925); // 10 tokens * 8000 s / 86400 s = 0.9259
});
