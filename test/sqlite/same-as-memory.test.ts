import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { openMemory } from "../../src/adapters/memory/store.ts";
import { Limit } from "../../src/domain/limit.ts";
import { HOUR_MS, type UsageWindow } from "../../src/domain/usage.ts";
import type { ScopedStore } from "../../src/ports/store.ts";
import { amounts, claim, context, held, NOON, openOn, tempFile } from "./temp-store.ts";

const SETS = [
  [Limit.perMinute("rpm", 10)],
  [Limit.perMinute("rpm", 10), Limit.perHour("tpm", 1_000)],
  [Limit.perHour("tpm", 1_000), Limit.perMinute("rpm", 10)],
  [Limit.perMinute("rpm", 4), Limit.custom("huge", { capacity: 9e12, refillAmount: 9e12, refillPeriodMs: 7_000 })],
];
const ENTITIES = ["a", "b", "c"];

const step = fc.record({
  kind: fc.constantFrom("take", "take", "take both", "debit", "credit"),
  connection: fc.nat(1),
  entity: fc.nat(ENTITIES.length - 1),
  set: fc.nat(SETS.length - 1),
  // Not 0: memory shows an hour in which nothing was given back, the file does not.
  rpm: fc.integer({ min: 1, max: 12 }),
  tpm: fc.option(fc.nat(2_000)),
  huge: fc.option(fc.nat(9_000).map((n) => n * 1e9)),
  // Mostly forward, sometimes back over an hour or two.
  laterMs: fc.oneof(
    { arbitrary: fc.nat(60_000), weight: 5 },
    { arbitrary: fc.integer({ min: -2, max: 3 }).map((n) => n * HOUR_MS), weight: 1 },
  ),
  origin: fc.nat(20),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/** What a store answers to a step; a failure is an answer too. */
async function answer({ buckets }: ScopedStore, told: Step, nowMs: number): Promise<unknown> {
  const tokens = {
    rpm: told.rpm,
    ...(told.tpm === null ? {} : { tpm: told.tpm }),
    ...(told.huge === null ? {} : { huge: told.huge }),
  };
  const origin = { asOfMs: told.origin, generation: null };
  const wanted = claim(ENTITIES[told.entity]!, SETS[told.set]!, tokens, origin);
  const parent = claim("parent", SETS[1]!, { rpm: 1 });
  try {
    switch (told.kind) {
      case "take":
        return await buckets.take([wanted], context(nowMs));
      case "take both":
        return await buckets.take([wanted, parent], context(nowMs));
      case "debit":
        return await buckets.debit(held(wanted), amounts(tokens), context(nowMs));
      default:
        return await buckets.credit(held(wanted), amounts(tokens), context(nowMs));
    }
  } catch (error) {
    return (error as Error).message;
  }
}

async function everything({ buckets, usage }: ScopedStore): Promise<unknown> {
  const keys = [...ENTITIES, "parent"].map((id) => claim(id, [], {}).bucket);
  const windows: UsageWindow[] = ["hourly", "daily", "monthly"];
  const all = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
  return {
    states: await buckets.read(keys),
    usage: await Promise.all(windows.map((window) => usage.query({ window, ...all }, { limit: 1_000 }))),
  };
}

test("any story told to memory, and to two connections on one file in turns, has the same answers and the same end", async (t) => {
  const story = fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(story, async (chapters) => {
      const memory = openMemory().scope("default");
      const file = tempFile(t);
      const opened = [openOn(t, file), openOn(t, file)];
      let nowMs = NOON;
      for (const steps of chapters) {
        // The steps of a chapter are under way together, on the connection of the first.
        const times = steps.map(({ laterMs }) => {
          nowMs += laterMs;
          return nowMs;
        });
        const here = opened[steps[0]!.connection]!;
        const found = await Promise.all(steps.map((told, i) => answer(here, told, times[i]!)));
        const expected = [];
        for (const [i, told] of steps.entries()) expected.push(await answer(memory, told, times[i]!));
        assert.deepEqual(found, expected);
      }
      for (const { store, ...scope } of opened) {
        assert.deepEqual(await everything(scope), await everything(memory));
        await store.close();
      }
    }),
    { numRuns: 150 },
  );
});
