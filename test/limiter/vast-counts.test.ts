import { test } from "node:test";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";
import { vastCountsStory, vastSumsStory } from "./vast-counts-story.ts";

const T0 = Date.UTC(2026, 2, 10, 1);

for (const [name, open] of EVERY_STORE) {
  test(`on ${name}, no amount that is counted makes a bucket unusable, and usage is exact past 2^53`, async (t) => {
    const clock = new SimulatedClock(T0);
    const { store, options } = open(clock, t);
    await vastCountsStory(store, clock, options);
  });

  test(`on ${name}, sums over resources and over the charges of a lease are exact, or refused before anything is taken`, async (t) => {
    const clock = new SimulatedClock(T0);
    const { store, options } = open(clock, t);
    await vastSumsStory(store, clock, options);
  });
}
