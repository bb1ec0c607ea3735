import assert from "node:assert/strict";
import { test } from "node:test";
import { firstSeed, runs } from "../../../test/depth.ts";
import { type Granted, mostInAnyStretch } from "../../../test/kit/contract-strict-windows.ts";
import { fc } from "../../../test/properties.ts";
import { createCalendar } from "../../adapters/system/calendar.ts";
import { availableMilli, type BucketState, bucketFor, takeFrom } from "../bucket/bucket-state.ts";
import { giveBack, PLAIN_TICKET } from "../bucket/give-back.ts";
import { ValidationError } from "../names/errors.ts";
import { limitMakers } from "./limit.ts";
import { limitSet } from "./limit-set.ts";
import { limitOfText, textOfLimit } from "./limit-text.ts";

const T0 = 1_800_000_000_000;
const calendar = createCalendar();
const Limit = limitMakers(calendar);
const strict = { strictWindow: true } as const;

function refused(make: () => unknown, why: RegExp): void {
  assert.throws(make, (error) => {
    assert.ok(error instanceof ValidationError, String(error));
    assert.equal(error.code, "limit_invalid");
    assert.match(error.message, why);
    return true;
  });
}

test("a strict window is a plain limit: it holds the burst, and the rest drips in", () => {
  const limit = (capacity: number, refillAmount: number, refillPeriodMs: number) => ({
    ...{ name: "x", capacity, refillAmount, refillPeriodMs },
  });
  assert.deepEqual(Limit.perMinute("x", 100, { ...strict, burst: 20 }), limit(20, 80, 60_000));
  assert.deepEqual(Limit.perSecond("x", 7, strict), limit(3, 4, 1_000));
  assert.deepEqual(Limit.perHour("x", 2, strict), limit(1, 1, 3_600_000));
  assert.deepEqual(
    Limit.perDay("x", 9_000_000_000_000, strict),
    limit(4_500_000_000_000, 4_500_000_000_000, 86_400_000),
  );
  assert.deepEqual(Limit.perMinute("x", 100, { strictWindow: false, burst: 200 }), limit(200, 100, 60_000));
  assert.deepEqual(Limit.perMinute("x", 10, { ...strict, shadow: true }), { ...limit(5, 5, 60_000), shadow: true });
});

test("what no strict window can be is refused with its value", () => {
  refused(() => Limit.perMinute("x", 1, strict), /strict already; leave strictWindow out/);
  for (const most of [0, -2, 2.5, "5", undefined, 9_000_000_000_001]) {
    refused(() => Limit.perMinute("x", most as number, strict), /Limit "x": .* whole number of tokens/);
  }
  for (const burst of [0, 100, 101, -1, 1.5, "20", Number.NaN]) {
    refused(
      () => Limit.perMinute("x", 100, { ...strict, burst: burst as number }),
      /burst is .* give (a whole number of tokens from 1 to|1 to 99)/,
    );
  }
  refused(() => Limit.perMinute("x", 100, { ...strict, soft: true }), /soft/);
  refused(
    () => Limit.perMinute("x", 100, { strictWindow: "yes" as never }),
    /strictWindow is "yes"; give true or false/,
  );
  const cron = "* 9-17 * * 1-5";
  for (const window of [{ scale: 1.5 }, { capacity: 1 }, { refillAmount: 1 }, { refillPeriodMs: 60_000 }]) {
    refused(() => Limit.perMinute("x", 100, { ...strict, schedule: [{ cron, ...window }] }), /scale of at most 1/);
  }
  refused(() => Limit.perMinute("x", 100, { ...strict, schedule: [null as never] }), /not a window/);
  assert.equal(Limit.perMinute("x", 100, { ...strict, schedule: [{ cron, scale: 1 }] }).capacity, 50);
});

test("other makers, and the values of limits, do not know strict windows", () => {
  const unknown = { code: /option_unknown|limit_invalid/, message: /unknown name "strictWindow"/ };
  assert.throws(
    () => Limit.custom("x", { capacity: 5, refillAmount: 5, refillPeriodMs: 1_000, ...strict } as never),
    unknown,
  );
  assert.throws(() => Limit.quota("x", 5, { reset: "daily", ...strict } as never), unknown);
  assert.throws(() => Limit.concurrent("x", 5, strict as never), unknown);
});

test("as text it has the word strict, and is printed with the numbers that it has", () => {
  const printed = (text: string) => textOfLimit(limitOfText(text, calendar));
  assert.equal(printed("rpm:100/min:20,strict"), "rpm:80/min:20");
  assert.equal(printed("rpm:100,strict"), "rpm:50/min");
  assert.equal(printed("rpm:10k/day:1k, strict ,counts=requests"), "rpm:9000/day:1000,counts=requests");
  assert.deepEqual(limitOfText("x:7/s,strict", calendar), Limit.perSecond("x", 7, strict));
  refused(() => limitOfText("rpm:1/min,strict", calendar), /strict already/);
  refused(() => limitOfText("rpm:100/min:100,strict", calendar), /burst is 100/);
  refused(() => limitOfText("rpm:100,strict,soft", calendar), /soft/);
  refused(() => limitOfText("rpm:100,strict,when=* 9-17 * * 1-5 x2", calendar), /scale of at most 1/);
  for (const text of ["month:5,reset=monthly,strict", "x:10@60s,strict", "usd:$5/day,strict"]) {
    refused(() => limitOfText(text, calendar), /no rate/);
  }
  refused(() => limitOfText("rpm:100,strict,strict", calendar), /given twice/);
});

const limits = fc
  .tuple(
    fc.constantFrom(1_000, 60_000, 3_600_000, 86_400_000),
    fc.oneof(fc.integer({ min: 2, max: 12 }), fc.integer({ min: 2, max: 10_000 })),
  )
  .chain(([periodMs, most]) =>
    fc
      .integer({ min: 1, max: most - 1 })
      .map((burst) => ({ periodMs, most, limit: makerOf(periodMs)("x", most, { ...strict, burst }) })),
  );
const steps = fc.array(
  fc.record({
    /** Of the period, in thousandths, and milliseconds besides. */
    jump: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 1_100 })),
    ms: fc.integer({ min: 0, max: 3 }),
    tokens: fc.oneof({ weight: 3, arbitrary: fc.constant("all" as const) }, { weight: 2, arbitrary: fc.nat() }),
    givesBack: fc.oneof(
      { weight: 4, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 1_000 }) },
    ),
  }),
  { minLength: 2, maxLength: 40, size: "max" },
);

test("never more than n granted in any stretch of one period", () => {
  fc.assert(
    fc.property(limits, steps, ({ periodMs, most, limit }, calls) => {
      const granted: Granted[] = [];
      let nowMs = T0;
      let state: BucketState | undefined;
      for (const { jump, ms, tokens, givesBack } of calls) {
        nowMs += Math.floor((periodMs / 1_000) * jump) + ms;
        state = bucketFor(state, { set: limitSet([limit]), origin: { asOfMs: T0, generation: 1 } }, nowMs, calendar);
        const there = Math.floor(levelOf(state, nowMs) / 1_000);
        const asked = tokens === "all" ? Math.max(1, there) : 1 + (tokens % limit.capacity);
        const after = takeFrom(state, [{ limit: "x", milli: asked * 1_000 }], nowMs);
        if (after === undefined) continue;
        state = after;
        granted.push({ atMs: nowMs, tokens: asked });
        const back = Math.floor((asked * givesBack) / 1_000);
        if (back === 0) continue;
        state = giveBack(state, [{ limit: "x", milli: back * 1_000 }], PLAIN_TICKET, nowMs);
        granted.push({ atMs: nowMs, tokens: -back });
      }
      const worst = mostInAnyStretch(granted, periodMs);
      assert.ok(worst <= most, `${worst} of ${most} in ${periodMs} ms`);
    }),
    { numRuns: runs(3_000), seed: firstSeed() },
  );
});

function levelOf(state: BucketState, nowMs: number): number {
  const [limit] = state.limits;
  return limit === undefined ? 0 : availableMilli(state, limit, nowMs);
}

function makerOf(periodMs: number): typeof Limit.perMinute {
  const makers: Readonly<Record<number, typeof Limit.perMinute>> = {
    1000: Limit.perSecond,
    60000: Limit.perMinute,
    3600000: Limit.perHour,
  };
  return makers[periodMs] ?? Limit.perDay;
}
