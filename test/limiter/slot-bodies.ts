import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Batch, BatchReply, BatchStore } from "../../src/ports/batch-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore, overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock, type SkewedClock } from "../../src/testing/simulated-clock.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { straightWorld } from "../kit/straight-whole.ts";
import { type Copies, faultyBatches } from "../straight/faulty-batches.ts";
import { straightProcess } from "../straight/process.ts";

// Bodies that hold a slot and stop when their signal says so, in several processes: at no instant are more of them running than there
// are slots, whatever is lost, late or dies, as long as clocks are less than an eighth of a hold apart.

const T0 = Date.UTC(2026, 2, 15, 12);
const HOLD_MS = 16_000;
const ask = { entityId: "key-1", resource: "gpt-4" } as const;

/** A process: its limiter, and how it dies. */
interface Process {
  readonly limiter: RateLimiter;
  readonly clock: SkewedClock;
  crash(): void;
}

/** What all processes share, and how one more of them is opened. */
type OpenProcess = (clock: SkewedClock, random: SeededRandom, isFaultless: boolean) => { store: Store; crash(): void };
type Ground = (clock: SimulatedClock, random: SeededRandom, faults: number) => OpenProcess;

export const GROUNDS: Readonly<Record<string, Ground>> = {
  "conditional writes": (clock, random, faults) => {
    const options = {
      now: () => clock.now(),
      random: random.fork(),
      writesPerSecond: Number.POSITIVE_INFINITY,
      staleMs: 300,
    };
    const world = conditionalWorld(options, createCalendar());
    return (own, chance, isFaultless) => {
      const store = openConditional(world, {
        clock: own,
        random: () => chance.next(),
        line: {
          random: chance.fork(),
          rates: isFaultless ? {} : { write: faults, read: faults / 4 },
          pause: () => clock.sleep(chance.pick([0, 1, 5, 40]), undefined),
          answersLate: chance.chance(0.5),
          sleep: (ms, signal) => clock.sleep(ms, signal),
        },
      });
      return { store, crash: () => store.lineTo("default").crash() };
    };
  },
  batches: (clock, _, faults) => {
    const world = straightWorld(() => clock.now());
    const copies: Copies = [];
    return (own, chance, isFaultless) => {
      let isDead = false;
      const faulty = faultyBatches(
        world.batches,
        chance.fork(),
        copies,
        () => (isFaultless ? 0 : faults),
        () => {},
      );
      const line = overriding<BatchStore>(faulty, {
        apply: async (batch: Batch, timeoutMs: number): Promise<BatchReply> => {
          await clock.sleep(chance.pick([0, 1, 5, 40]), undefined);
          // Nobody hears of what a process asks for that is no more.
          return isDead ? new Promise<BatchReply>(() => {}) : faulty.apply(batch, timeoutMs);
        },
      });
      const process = { line, random: chance, calendar: createCalendar(), coalesce: true, laneCount: 2, clock: own };
      return {
        store: straightProcess(world, process),
        crash: () => {
          isDead = true;
        },
      };
    };
  },
  memory: (clock, _, faults) => {
    const shared = openMemory();
    return (_own, chance, isFaultless) => {
      const line = new FaultStore(shared, {
        random: chance.fork(),
        rates: isFaultless ? {} : { take: faults, credit: faults, renew: faults },
        pause: () => clock.sleep(chance.pick([0, 1, 5, 40]), undefined),
      });
      return { store: line, crash: () => line.crash() };
    };
  },
};

/** Plays one world; answers what is wrong, the first thing only. */
export async function playBodies(ground: Ground, seed: number): Promise<string | undefined> {
  const random = new SeededRandom(seed);
  const clock = new SimulatedClock(T0);
  const faults = random.pick([0, 0.1, 0.3]);
  const slots = random.integer(1, 4);
  const isSkewed = random.chance(0.5);
  const openProcess = ground(clock, random, faults);
  let problem: string | undefined;
  let running = 0;
  let bodies = 0;

  const open = async (isFaultless: boolean): Promise<Process> => {
    const own = clock.skewed(isSkewed ? random.integer(-700, 700) : 0);
    const { store, crash } = openProcess(own, random.fork(), isFaultless);
    const opening = RateLimiter.open({ store, clock: own });
    await clock.advance(200);
    return { limiter: await opening, clock: own, crash };
  };
  const ended = async <Value>(work: Promise<Value>): Promise<Value> => {
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    done.catch(() => {});
    while (!isDone) await clock.advance(50);
    return done;
  };

  const body = async ({ limiter }: Process, forMs: number, isKept: boolean): Promise<void> => {
    const run = async (signal: AbortSignal) => {
      if (signal.aborted) return;
      running++;
      bodies++;
      if (running > slots) problem ??= `${running} bodies run at once on ${slots} slots at ${clock.now() - T0}`;
      await clock.sleep(forMs, signal).catch(() => {});
      running--;
    };
    const request = { ...ask, consume: { parallel: 1 } };
    if (isKept) await limiter.withLease(request, (lease) => run(lease.signal));
    else {
      // Nobody renews it, and it may be forgotten.
      const lease = await limiter.acquire(request);
      await run(lease.signal);
      if (random.chance(0.7)) await lease.settle();
    }
  };

  const setter = await open(true);
  await ended(setter.limiter.setResourceDefaults("gpt-4", [Limit.concurrent("parallel", slots, { holdMs: HOLD_MS })]));
  const processes = [await open(false), await open(false), await open(false)];
  for (let step = 0; step < 100 && problem === undefined; step++) {
    const at = random.integer(0, processes.length - 1);
    const process = processes[at] as Process;
    const forMs = random.pick([0, 100, 2_000, 20_000, 60_000]);
    void body(process, forMs, random.chance(0.7)).catch((error: unknown) => {
      if (error instanceof RateLimitExceeded || (error as { code?: string }).code === "unavailable") return;
      if ((error as { code?: string }).code === "hold_lost") return;
      problem ??= `an error: ${error instanceof Error ? error.stack : String(error)}`;
    });
    if (random.chance(0.04)) {
      process.crash();
      processes[at] = await open(false);
    }
    await clock.advance(random.chance(0.15) ? random.integer(1_000, 12_000) : random.integer(0, 400));
  }
  if (problem !== undefined) return problem;
  await clock.advance(61_000 + 2 * HOLD_MS);
  if (running > 0) return `${running} bodies never ended`;
  const [status] = await ended(setter.limiter.available(ask));
  if (status?.available !== slots) return `${status?.available} of ${slots} slots came back after ${bodies} bodies`;
  return bodies === 0 ? "nobody was let in" : undefined;
}
