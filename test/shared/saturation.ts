import { VirtualTime } from "../../bench/virtual-time.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { SHARED } from "../../src/protocol/shared/dialect.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { calendar } from "../limits/calendar-kit.ts";
import { OriginalClient } from "../simulation/original-client.ts";
import { bucket, MORNING_MS, make } from "../simulation/original-kit.ts";
import { NAMESPACE } from "./kit.ts";
import { OurProcess } from "./our-process.ts";
import { numberIn } from "./readings.ts";
import { Truth } from "./truth.ts";

export interface Saturated {
  readonly due: number;
  readonly ours: number;
  readonly theirs: number;
  /** The most that any run of takes took, as a part of what a capacity and the rate allow. */
  readonly worstBurst: number;
}

const CAPACITY = 50;
const RATE = 100;
const LASTS_MS = 6_000;

/** Clients of both sides on one bucket (50, 100 a second) for 6 s; a call takes about 5 ms, and everybody asks without a pause. */
export async function saturate(clients: { readonly ours: number; readonly theirs: number }): Promise<Saturated> {
  const time = new VirtualTime(MORNING_MS);
  const random = new SeededRandom(3);
  const untilMs = MORNING_MS + LASTS_MS;
  const limits = [make.custom("rps", { capacity: CAPACITY, refillAmount: RATE, refillPeriodMs: 1_000 })];
  const truth = new Truth(() => time.now());
  truth.set(bucket, { limits });
  const world = conditionalWorld(
    { now: () => time.now(), random: random.fork(), writesPerSecond: 1_000, staleMs: 0 },
    calendar,
  );
  const trip = () => time.sleep(1 + random.next() * 3);
  const burst = burstsOf(world.table);
  const granted = { ours: 0, theirs: 0 };
  const our = async (): Promise<void> => {
    const readings = new ConfigReadings();
    const own = random.fork();
    const store = openConditional(world, {
      clock: time,
      random: () => own.next(),
      dialect: SHARED,
      readings,
      line: { pause: trip },
    });
    const buckets = store.bucketsOf(NAMESPACE);
    const options = {
      clock: time,
      buckets,
      readings,
      truth,
      staleMs: 0,
      random: () => own.next(),
      trip,
      onRead: () => {},
    };
    const process = new OurProcess(options);
    while (time.now() < untilMs) {
      const { kind } = await process.take(bucket, () => [{ limit: "rps", milli: 1_000 }]);
      if (kind === "taken") granted.ours++;
      else await time.sleep(1 + random.next() * 9);
    }
  };
  const their = async (): Promise<void> => {
    const own = random.fork();
    const client = new OriginalClient(world.table.lineTo(NAMESPACE, { pause: trip }), {
      now: () => time.now(),
      random: () => own.next(),
      resolve: () => limits,
      calendar,
    });
    while (time.now() < untilMs) {
      const answer = await client.acquire(bucket, { rps: 1 });
      if (!answer.refused) granted.theirs++;
      else await time.sleep(Math.max(1, answer.retryAfterMs));
    }
  };
  const all = [...Array.from({ length: clients.ours }, our), ...Array.from({ length: clients.theirs }, their)];
  await Promise.all([time.run(), ...all]);
  return { due: CAPACITY + (RATE * LASTS_MS) / 1000, ...granted, worstBurst: burst() };
}

/** Watches what is taken, and tells the worst run: taken, less what dripped in meanwhile, as a part of the capacity. */
function burstsOf(table: ReturnType<typeof conditionalWorld>["table"]): () => number {
  let taken = 0;
  let least = Number.POSITIVE_INFINITY;
  let worst = 0;
  table.watch(({ before, after, atMs }) => {
    const amount = numberIn(after, "b_rps_tc") - numberIn(before, "b_rps_tc");
    if (amount <= 0) return;
    const dripped = (atMs - MORNING_MS) * RATE;
    least = Math.min(least, taken - dripped);
    taken += amount;
    worst = Math.max(worst, taken - dripped - least);
  });
  return () => worst / (CAPACITY * 1000);
}
