import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { conditionalWorld, openConditional } from "../../src/testing/conditional-store.ts";
import { describeStore } from "../../src/testing/contract.ts";
import { SeededRandom } from "../../src/testing/random.ts";

const calendar = createCalendar();

for (const [name, options] of [
  ["conditional writes", {}],
  ["conditional writes, each by itself", { coalesce: false, exact: true }],
] as const) {
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
