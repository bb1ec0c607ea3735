import { describe } from "node:test";
import { RateLimiter } from "../src/entry/index.ts";
import { SimulatedClock } from "../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";
import { tellTotalsStories } from "./totals-stories.ts";

const T0 = Date.UTC(2026, 5, 15, 10);

for (const [name, openStore] of EVERY_STORE) {
  describe(`totals: ${name}`, () => {
    tellTotalsStories(async (t) => {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      t.after(() => limiter.close());
      return { limiter, clock };
    });
  });
}
