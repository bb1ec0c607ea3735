import assert from "node:assert/strict";
import { test } from "node:test";
import { openMemory } from "../../src/adapters/memory/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemTurns } from "../../src/adapters/system/clock.ts";
import { systemWarnings } from "../../src/adapters/system/environment.ts";
import { observableEvents } from "../../src/adapters/system/events.ts";
import { systemDigest, systemRandom } from "../../src/adapters/system/random.ts";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import { MEMORY_RETENTION } from "../../src/domain/config/retention.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import { Limiter } from "../../src/engine/limiter/limiter.ts";
import { Limit } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { at, MINUTE_MS, SECOND_MS } from "./kinds-kit.ts";

/** A limiter whose questions to the calendar are counted. */
async function counted(...limits: readonly Limit[]) {
  const real = createCalendar();
  let questions = 0;
  const counting = new Proxy(real, {
    get: (target, name: keyof Calendar) => {
      const ask = target[name] as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => {
        questions++;
        return ask(...args);
      };
    },
  });
  const clock = new SimulatedClock(at("2026-06-15T10:00:00Z"));
  const store = openMemory(counting, MEMORY_RETENTION, systemTurns);
  const world = {
    store,
    scope: store.scope("default"),
    clock: { now: () => clock.now(), sleep: clock.sleep.bind(clock) },
    calendar: counting,
    random: systemRandom,
    digest: systemDigest,
    events: observableEvents(),
    turns: systemTurns,
    warnings: systemWarnings(undefined),
  };
  const settings = {
    namespace: "default",
    namespaceId: () => "default",
    configTtlMs: 60_000,
    denyMemoryMs: 1_000,
    timeoutMs: 1_000,
    onUnavailable: undefined,
    unknownEntities: "allow" as const,
    unnamedLimits: "allow" as const,
    countRefusals: true,
    refusalLog: true,
    countCallers: false,
    bucketsMax: 10_000,
  };
  const limiter = new Limiter(world, settings, true);
  await limiter.setResourceDefaults("api", limits);
  /** Asks so many times for the same, and says how many questions to the calendar that took. */
  const ask = async (consume: Tokens, times: number, granted: boolean): Promise<number> => {
    questions = 0;
    for (let i = 0; i < times; i++) {
      assert.equal((await limiter.tryAcquire({ entityId: "a", resource: "api", consume })).ok, granted);
    }
    return questions;
  };
  return { clock, ask };
}

test("X17: neither a grant nor a refusal searches the calendar: a few questions each, whatever the schedule", async () => {
  const weekly = Limit.perMinute("x", 100, { schedule: [{ cron: "7,23 3 * * 1", scale: 2 }] });
  const tenWindows = Limit.perMinute("x", 100, {
    schedule: Array.from({ length: 10 }, (_, i) => ({ cron: `${i} ${i} ${i + 1} * *`, scale: 2 })),
  });
  const monthly = Limit.quota("x", 100, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } });
  for (const limit of [weekly, tenWindows, monthly]) {
    const { clock, ask } = await counted(limit);
    const windows = limit.schedule?.length ?? 0;
    await ask({ x: 100 }, 1, true);
    clock.set(clock.now() + 1);
    // A grant within a window asks nothing, but for the end of its period, to be given back in.
    assert.equal(await ask({ x: 0 }, 100, true), limit.reset === undefined ? 0 : 100);
    clock.set(clock.now() + 2 * SECOND_MS);
    const first = await ask({ x: 50 }, 1, false);
    assert.ok(first <= 20 + 10 * windows, `${first} questions for a refusal`);
    // A refusal from memory asks no more questions than the first.
    assert.ok((await ask({ x: 50 }, 100, false)) <= 100 * first);
  }
});

test("X17: a wait that no window ever ends is given up at a horizon, once, and not once more for every limit", async () => {
  // The wide window opens every other minute and is closed again before it could fill.
  const schedule = [{ cron: "*/2 * * * *", capacity: 122 }];
  const limit = (name: string) => Limit.custom(name, { capacity: 2, refillAmount: 1, refillPeriodMs: 1_000, schedule });
  const { clock, ask } = await counted(limit("x"), limit("y"));
  clock.set(clock.now() + MINUTE_MS);
  await ask({ x: 2, y: 2 }, 1, true);
  const one = await ask({ x: 122 }, 1, false);
  assert.ok(one > 2_000, "it was not looked for");
  const both = await ask({ x: 122, y: 122 }, 1, false);
  assert.ok(one < 30_000 && both < 2 * one, `${one} questions for one limit, ${both} for two`);
});
