import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { atDepth } from "../depth.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { describeStore } from "../kit/contract.ts";

const calendar = createCalendar();

const VARIANTS = [
  ["conditional writes", {}],
  ["conditional writes, each by itself", { coalesce: false, exact: true }],
] as const;

for (const [name, options] of VARIANTS.slice(0, atDepth(1, VARIANTS.length))) {
  describeStore(name, () => {
    const random = new SeededRandom(1);
    const world = conditionalWorld(
      { now: () => systemClock.now(), random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
      calendar,
    );
    const another = () => openConditional(world, { clock: systemClock, random: () => random.next(), ...options });
    const store = another();
    return { store, another, close: () => store.close() };
  }, ["generation", "pastHours"]);
}
