import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { magnitude } from "../../test/limits/arbitraries.ts";
import { fc } from "../../test/properties.ts";
import { type ClockBounds, correctedMs, latestMs, type Observation, observed } from "./clock-bounds.ts";

const NOON = Date.UTC(2026, 5, 1, 12);
const HOUR = 3_600_000;

/** The bounds after these answers. */
function after(...answers: readonly Observation[]): ClockBounds {
  const bounds = answers.reduce<ClockBounds | undefined>(observed, undefined);
  assert.ok(bounds !== undefined, "the answers taught nothing");
  return bounds;
}

describe("one answer", () => {
  test("bounds the server's time to the second of its Date and the time it was under way", () => {
    const bounds = after({ dateMs: NOON, sentMs: 5_000, receivedMs: 5_040 });
    assert.deepEqual(bounds, { earliestMs: NOON - 5_041, latestMs: NOON - 4_000, atMs: 5_000 });
    // At the reading of 5,040 the server shows noon at the earliest; it may have shown 12:00:00.999 when ours was 5,000.
    assert.equal(latestMs(bounds, 5_040), NOON + 1_040 + 1);
  });

  test("bounds the whole readings of both clocks at both ends, where the true offset never is", () => {
    const bounds = after({ dateMs: 1_000, sentMs: 0, receivedMs: 0 });
    assert.deepEqual([bounds.earliestMs, bounds.latestMs], [999, 2_000]);
    // In microseconds: the server stamps 1,000,000 at our 999 of the same reading 0. At our 1,000, reading 1, it shows 1,000.
    assert.equal(readingOf(1_000_000 + (1_000 - 999)) - readingOf(1_000), 999);
    // It stamps 1,999,999, its last instant with that Date, at our 0. At our 999, reading 0, it shows 2,000.
    assert.equal(readingOf(1_999_999 + 999) - readingOf(999), 2_000);
  });

  test("moves a clock that is an hour off to the nearest edge, and leaves one alone that can be right", () => {
    const bounds = after({ dateMs: NOON, sentMs: 0, receivedMs: 40 });
    const corrected = (localMs: number) => correctedMs(localMs, bounds, 40);
    assert.equal(corrected(NOON + HOUR), NOON + 1_041);
    assert.equal(corrected(NOON - HOUR), NOON - 2);
    for (const localMs of [NOON - 2, NOON - 1, NOON, NOON + 500, NOON + 1_041])
      assert.equal(corrected(localMs), localMs);
  });

  test("tells less as it grows older, 200 ms for every 1,000 s, rounded outwards", () => {
    const bounds = after({ dateMs: NOON, sentMs: 0, receivedMs: 0 });
    for (const [steadyMs, driftMs] of [
      [0, 1],
      [4_999, 1],
      [5_000, 2],
      [1_000_000, 201],
      [86_400_000, 17_281],
    ] as const) {
      assert.equal(latestMs(bounds, steadyMs), NOON + 1_000 + steadyMs + driftMs);
      assert.equal(correctedMs(0, bounds, steadyMs), NOON - 1 + steadyMs - driftMs);
    }
  });

  test("of which the end was before the beginning teaches nothing, whatever was known", () => {
    const backwards = { dateMs: NOON, sentMs: 5_000, receivedMs: 4_999 };
    assert.equal(observed(undefined, backwards), undefined);
    const known = after({ dateMs: NOON, sentMs: 0, receivedMs: 40 });
    assert.equal(observed(known, backwards), known);
  });
});

describe("several answers", () => {
  test("nothing known: the local clock is believed, and the server may show any time", () => {
    assert.equal(correctedMs(NOON, undefined, 0), NOON);
    assert.equal(latestMs(undefined, 0), Number.POSITIVE_INFINITY);
  });

  test("either side of the turn of a second tell the time to a few ms", () => {
    // Steady time 0 is 500 ms before noon, answers take 2 ms.
    const bounds = after(
      { dateMs: NOON - 1_000, sentMs: 497, receivedMs: 499 },
      { dateMs: NOON, sentMs: 500, receivedMs: 502 },
    );
    assert.deepEqual([correctedMs(0, bounds, 502), latestMs(bounds, 502)], [NOON - 2, NOON + 7]);
    assert.equal(correctedMs(NOON + 2, bounds, 502), NOON + 2);
  });

  test("that overtake each other give the same bounds in whatever order they arrive", () => {
    const slow = { dateMs: NOON, sentMs: 0, receivedMs: 30_000 };
    const quick = { dateMs: NOON + 11_000, sentMs: 10_000, receivedMs: 10_002 };
    const both = { earliestMs: NOON + 997, latestMs: NOON + 1_000 + 2, atMs: 10_000 };
    assert.deepEqual(after(slow, quick), both);
    assert.deepEqual(after(quick, slow), both);
  });

  test("that tell nothing new leave the bounds as they are: rounding does not widen them", () => {
    const bounds = after({ dateMs: NOON, sentMs: 0, receivedMs: 2 });
    for (let sentMs = 1_000; sentMs < 60_000; sentMs += 1_000) {
      const slow = { dateMs: NOON + sentMs + 1_000, sentMs, receivedMs: sentMs + 2_000 };
      assert.equal(observed(bounds, slow), bounds);
    }
  });

  test("a thousand times a second for a minute keep the time known to the 10 ms that an answer takes", () => {
    let bounds: ClockBounds | undefined;
    for (let sentMs = 0; sentMs < 60_000; sentMs++) {
      const serverMs = NOON + sentMs + 5;
      bounds = observed(bounds, { dateMs: serverMs - (serverMs % 1_000), sentMs, receivedMs: sentMs + 10 });
      if (sentMs < 1_000) continue;
      const widthMs = latestMs(bounds, sentMs) - correctedMs(0, bounds, sentMs);
      assert.ok(widthMs <= 10 + 8, `${widthMs} ms at ${sentMs}`);
    }
  });

  test("of which the last contradicts the others: the last one alone counts", () => {
    const slept = { dateMs: NOON + HOUR, sentMs: 1_000, receivedMs: 1_002 };
    assert.deepEqual(after({ dateMs: NOON, sentMs: 0, receivedMs: 2 }, slept), after(slept));
    const early = { dateMs: NOON - HOUR, sentMs: 1_000, receivedMs: 1_002 };
    assert.deepEqual(after({ dateMs: NOON, sentMs: 0, receivedMs: 2 }, early), after(early));
  });

  test("that leave nothing between their ends contradict each other, though the ends meet", () => {
    const known = { earliestMs: 0, latestMs: 1_000, atMs: 0 };
    const at = (receivedMs: number) => observed(known, { dateMs: 2_000, sentMs: 0, receivedMs });
    assert.deepEqual(at(1_000), { earliestMs: 999, latestMs: 1_000, atMs: 0 });
    assert.deepEqual(at(999), { earliestMs: 1_000, latestMs: 3_000, atMs: 0 });
  });
});

/** Requests that may overlap; times in microseconds, since readings are rounded to ms and the truth is not. */
interface Request {
  readonly waitUs: number;
  readonly outUs: number;
  readonly backUs: number;
}
const requests = fc.array(
  fc.record({
    waitUs: magnitude(0, 40_000_000_000),
    outUs: magnitude(0, 60_000_000),
    backUs: magnitude(0, 60_000_000),
  }),
  { minLength: 1, maxLength: 12 },
);
const drifts = fc.array(fc.oneof(fc.constantFrom(-200, 0, 200), fc.integer({ min: -200, max: 200 })), {
  minLength: 1,
  maxLength: 5,
});
const startsUs = fc.record({
  serverUs: fc.integer({ min: 1_700_000_000_000_000, max: 1_700_000_002_000_000 }),
  steadyUs: fc.integer({ min: 0, max: 2_000_000 }),
});

describe("for any latency, any order of answers and a drift of up to 200 ppm", () => {
  test("the server's time always lies within the bounds, so a clock that shows it is never moved", () => {
    fc.assert(
      fc.property(requests, drifts, startsUs, (sent, ppms, start) => {
        let bounds: ClockBounds | undefined;
        play(sent, ppms, start, (observation, steadyMs, serverMs) => {
          if (observation !== undefined) bounds = observed(bounds, observation);
          assert.equal(correctedMs(serverMs, bounds, steadyMs), serverMs);
          assert.ok(latestMs(bounds, steadyMs) >= serverMs);
        });
      }),
      { numRuns: 3_000 },
    );
  });

  test("an answer never makes the bounds wider than they were, nor wider than it alone would", () => {
    fc.assert(
      fc.property(requests, drifts, startsUs, (sent, ppms, start) => {
        let bounds: ClockBounds | undefined;
        play(sent, ppms, start, (observation, steadyMs) => {
          if (observation === undefined) return;
          const widthMs = (of: ClockBounds | undefined) => latestMs(of, steadyMs) - correctedMs(0, of, steadyMs);
          const knownMs = widthMs(bounds);
          const alone = after(observation);
          bounds = observed(bounds, observation);
          // Where drift, rounded, leaves nothing between the ends, what was seen last replaces what was known.
          const isReplaced = bounds?.earliestMs === alone?.earliestMs && bounds?.latestMs === alone?.latestMs;
          // Two for the drift of either end, rounded up once more.
          assert.ok(isReplaced || widthMs(bounds) <= knownMs + 2);
          assert.ok(widthMs(bounds) <= widthMs(alone) + 2);
        });
      }),
      { numRuns: 1_000 },
    );
  });

  test("after one answer a clock an hour off is moved to within 1 s, the latency and the drift of the server's", () => {
    const offMs = fc.oneof(fc.integer({ min: -HOUR, max: -10_000 }), fc.integer({ min: 10_000, max: HOUR }));
    fc.assert(
      fc.property(requests, drifts, startsUs, offMs, ([one], ppms, start, wrongMs) => {
        assert.ok(one !== undefined);
        let bounds: ClockBounds | undefined;
        let sentMs = 0;
        play([one, { waitUs: 1_800_000_000, outUs: 0, backUs: 0 }], ppms, start, (observation, steadyMs, serverMs) => {
          if (bounds === undefined) {
            if (observation === undefined) return;
            bounds = after(observation);
            sentMs = observation.sentMs;
          }
          const errorMs = correctedMs(serverMs + wrongMs, bounds, steadyMs) - serverMs;
          const latencyMs = (one.outUs + one.backUs) / 1_000;
          // The clocks did drift, and the bounds allow for it; each rounding costs a millisecond.
          const driftMs = (2 * 200 * (steadyMs - sentMs)) / 1_000_000;
          assert.ok(Math.abs(errorMs) <= 1_000 + latencyMs + driftMs + 4, `off by ${errorMs} ms`);
        });
      }),
      { numRuns: 2_000 },
    );
  });
});

test("bounds never invert, whatever the server and the clock say", () => {
  const anything = fc.record({
    dateMs: fc.integer({ min: NOON - HOUR, max: NOON + HOUR }),
    sentMs: fc.integer({ min: 0, max: 10_000 }),
    receivedMs: fc.integer({ min: 0, max: 10_000 }),
  });
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 20 }), (answers) => {
      let bounds: ClockBounds | undefined;
      for (const answer of answers) {
        bounds = observed(bounds, answer);
        if (bounds === undefined) continue;
        assert.ok(bounds.earliestMs < bounds.latestMs);
        assert.ok(Number.isSafeInteger(bounds.earliestMs) && Number.isSafeInteger(bounds.latestMs));
      }
    }),
    { numRuns: 2_000 },
  );
});

/**
 * Lets the requests happen, and looks at every instant at which one is sent, stamped or answered, with the observation when
 * there is one. The server's clock drifts against the steady one by each of the rates in turn.
 */
function play(
  sent: readonly Request[],
  ppms: readonly number[],
  start: { readonly serverUs: number; readonly steadyUs: number },
  look: (observation: Observation | undefined, steadyMs: number, serverMs: number) => void,
): void {
  const events: { atUs: number; kind: "sent" | "stamped" | "received"; request: Request }[] = [];
  let sentUs = start.steadyUs;
  for (const request of sent) {
    sentUs += request.waitUs;
    events.push({ atUs: sentUs, kind: "sent", request });
    events.push({ atUs: sentUs + request.outUs, kind: "stamped", request });
    events.push({ atUs: sentUs + request.outUs + request.backUs, kind: "received", request });
  }
  events.sort((a, b) => a.atUs - b.atUs);
  const sentMs = new Map<Request, number>();
  const dateMs = new Map<Request, number>();
  let { steadyUs, serverUs } = start;
  for (const [index, { atUs, kind, request }] of events.entries()) {
    const passedUs = atUs - steadyUs;
    steadyUs = atUs;
    serverUs += passedUs + Math.trunc((passedUs * ppms[index % ppms.length]!) / 1_000_000);
    const steadyMs = readingOf(steadyUs);
    const serverMs = readingOf(serverUs);
    if (kind === "sent") sentMs.set(request, steadyMs);
    if (kind === "stamped") dateMs.set(request, serverMs - (serverMs % 1_000));
    const observation =
      kind === "received"
        ? { dateMs: dateMs.get(request)!, sentMs: sentMs.get(request)!, receivedMs: steadyMs }
        : undefined;
    look(observation, steadyMs, serverMs);
  }
}

/** The reading of a clock, in whole ms. */
function readingOf(us: number): number {
  return Math.floor(us / 1_000);
}
