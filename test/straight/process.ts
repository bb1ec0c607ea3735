import { systemDigest } from "../../src/adapters/system/random.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import { leaseForm } from "../../src/leases/record-of.ts";
import type { BatchStore } from "../../src/ports/batch-store.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Clock, Turns } from "../../src/ports/system.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { openStraight, type StraightSite } from "../kit/straight-whole.ts";

/** After all that is ready to run has run, without leaving the turn of the event loop: it replays exactly. */
const LATER: Turns = {
  next: async () => {
    for (let i = 0; i < 40; i++) await Promise.resolve();
  },
};

/** A process on a store that takes in batches, whose calls have all the time in the world. */
export function straightProcess(
  world: StraightSite,
  given: {
    readonly line: BatchStore;
    readonly random: SeededRandom;
    readonly calendar: Calendar;
    readonly coalesce: boolean;
    readonly laneCount: number;
    readonly clock: Pick<Clock, "now">;
  },
): Store {
  const { line, random, calendar, coalesce, laneCount, clock } = given;
  const waiting = {
    steadyMs: () => clock.now(),
    // A pause between two tries is over at once; nobody waits for the end of a call's time.
    after: (ms: number, work: () => void) => {
      if (ms < 1_000) queueMicrotask(work);
      return () => {};
    },
  };
  return openStraight(world, {
    ...{ line, random, calendar, coalesce, laneCount, waiting, turns: LATER, digest: systemDigest },
    ...{ leaseForm: leaseForm(calendar), retention: FILE_RETENTION },
  });
}
