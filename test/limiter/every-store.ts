import type { TestContext } from "node:test";
import { openSqlite } from "../../src/adapters/sqlite/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { steadyMs } from "../../src/adapters/system/clock.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import type { OpenOptions } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { Store } from "../../src/ports/store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { straightWorld } from "../kit/straight-whole.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { straightProcess } from "../straight/process.ts";

const calendar = createCalendar();

export interface OpenedStore {
  readonly store: Store;
  readonly options: Pick<OpenOptions, "denyMemoryMs">;
}

/** Stores that a story about one process is told on, each made anew, on the clock of the story. */
export const EVERY_STORE: readonly (readonly [
  name: string,
  open: (clock: SimulatedClock, t: TestContext) => OpenedStore,
])[] = [
  ["memory", () => ({ store: openMemory(), options: {} })],
  ["memory with a deny memory", () => ({ store: openMemory(), options: { denyMemoryMs: 1_000 } })],
  ["SQLite", (_, t) => ({ store: openFile(t), options: {} })],
  ["conditional writes", (clock) => ({ store: openProtocol(clock, 0), options: {} })],
  ["batches", (clock) => ({ store: openBatches(clock), options: {} })],
  // The engine's own memory would answer first.
  [
    "conditional writes that remember refusals themselves",
    (clock) => ({ store: openProtocol(clock, 1_000), options: { denyMemoryMs: 0 } }),
  ],
];

function openFile(t: TestContext): Store {
  const file = tempFile(t);
  const store = openSqlite({
    file,
    durability: "normal",
    coalesce: true,
    retention: FILE_RETENTION,
    random: () => 0.5,
    steadyMs,
    calendar,
  });
  t.after(() => store.close());
  return store;
}

function openProtocol(clock: SimulatedClock, denyMemoryMs: number): Store {
  const random = new SeededRandom(1);
  const writesPerSecond = Number.POSITIVE_INFINITY;
  const world = conditionalWorld({ now: () => clock.now(), random, writesPerSecond, staleMs: 0 }, calendar);
  return openConditional(world, { clock, random: () => random.next(), denyMemoryMs });
}

function openBatches(clock: SimulatedClock): Store {
  const world = straightWorld(() => clock.now());
  const random = new SeededRandom(1);
  return straightProcess(world, { line: world.batches, random, calendar, coalesce: true, laneCount: 3, clock });
}
