import { BucketSweep } from "../../src/straight/sweep.ts";
import { overriding } from "../../src/testing/overriding.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { straightWorld } from "../../src/testing/straight-whole.ts";
import { faultyBatches } from "../straight/faulty-batches.ts";
import { straightProcess } from "../straight/process.ts";
import { calendar } from "./calendar.ts";
import type { Connector } from "./connection.ts";
import { type Ground, type GroundContext, groundOn } from "./ground.ts";

/**
 * Processes on a store that takes in batches. Their batches get lost, come twice and are rolled back on the way: what the lane makes of
 * that is one answer for each call, which is compared with the model as that of any store.
 */
export function straightGround(context: GroundContext): Ground {
  const { seed, clock, journal, profile } = context;
  const random = new SeededRandom(seed + 2 ** 46);
  const coalesce = seed % 4 !== 0;
  const processCount = 1 + (seed % 3);
  const joins = coalesce && processCount === 1;
  // Of several lanes, one may be answered later than another that came after it; the model goes by the order of the answers.
  const laneCount = joins ? 1 : 3;
  const world = straightWorld(() => clock.now());
  let rate = seed % 5 === 0 ? 0 : Math.max(0.02, profile.faultRate);
  const process = () => {
    const line = faultyBatches(
      world.batches,
      random.fork(),
      () => rate,
      (mishap) => journal.count(`batches ${mishap}`),
    );
    return straightProcess(world, { line, random: random.fork(), calendar, coalesce, laneCount, clock });
  };
  const processes = Array.from({ length: processCount }, process);
  const ground = groundOn(processes, joins, context, "in the open hour");
  const sweep = new BucketSweep(world.batches, calendar);
  return {
    ...ground,
    get underWay() {
      return ground.underWay;
    },
    get disturbances() {
      return ground.disturbances;
    },
    happenings: () => [
      [
        1,
        "sweep",
        () => {
          journal.note("the store is swept");
          void sweep.toEnd("default", clock.now()).then((swept) => {
            for (let i = 0; i < swept; i++) journal.count("buckets swept");
          });
        },
      ],
    ],
    connector: (chance) =>
      calming(ground.connector(chance), () => {
        rate = 0;
      }),
  };
}

/** With the lines of clients, those of their batches grow calm. */
function calming(connector: Connector, calm: () => void): Connector {
  return {
    ...connector,
    connect: (...args) => {
      const connection = connector.connect(...args);
      return overriding(connection, {
        calm: () => {
          calm();
          connection.calm();
        },
      });
    },
  };
}
