import assert from "node:assert/strict";
import { test } from "node:test";
import { runStudio, STUDIO, setUpStudio } from "../../examples/gateway/studio.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { SeededRandom, SimulatedClock } from "../../src/entry/testing.ts";

test("the story of `npm start` has something for every list of the overview", async (t) => {
  const clock = new SimulatedClock(Date.UTC(2026, 2, 10, 12));
  const limiter = await RateLimiter.open({ store: "memory", clock, strict: true, unnamedLimits: "allow" });
  t.after(() => limiter.close());
  await setUpStudio(limiter);
  const random = new SeededRandom(1);
  const ending = new AbortController();
  const ran = runStudio(limiter, { random: () => random.next(), clock, signal: ending.signal });
  await clock.advance(60_000);
  const { nearest, slots, thresholds, shadows, refusedMost } = await limiter.overview();
  ending.abort();
  await ran;
  assert.deepEqual([nearest[0]?.entityId, nearest[0]?.resource, nearest[0]?.limit], [STUDIO, "*", "usd"]);
  assert.ok(nearest[0]?.usedUpAtMs !== undefined && nearest[0].usedPercent >= 54, JSON.stringify(nearest[0]));
  assert.ok((slots[0]?.held ?? 0) >= 2, JSON.stringify(slots));
  assert.deepEqual(thresholds, [{ entityId: STUDIO, resource: "*", limit: "usd", percent: 50 }]);
  assert.ok((shadows[0]?.wouldRefuse ?? 0) > 5, JSON.stringify(shadows));
  assert.equal(refusedMost[0]?.limit, "parallel");
  // Set up again, the day goes on where it was.
  const left = async () => (await limiter.available({ entityId: "writer", resource: "gpt-5" })).at(-1)?.available;
  const before = await left();
  await setUpStudio(limiter);
  assert.equal(await left(), before);
});
