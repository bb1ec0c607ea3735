import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CALLERS,
  type CallEvent,
  KEY_TERMS,
  levelsOf,
  PROJECT,
  PROJECT_TERMS,
  runGateway,
  setUp,
  type Terms,
} from "../../examples/gateway/gateway.ts";
import { storedUsage } from "../../examples/gateway/tally.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { type FaultOptions, FaultStore, SeededRandom, SimulatedClock } from "../../src/entry/testing.ts";
import { atDepth } from "../depth.ts";

// The gateway of `npm start` with the test kit: minutes of it pass in a moment, and a seed brings about the same again.
// docs/guide/testing.md explains the kit.

const START_MS = Date.UTC(2026, 0, 1, 12);
const RUN_MS = 60_000;
const SEEDS = atDepth([1], [1, 2, 3]);

test("in no run does anybody get more than the burst and what was refilled, or wait longer than the 1.5 s of steady", async () => {
  for (const seed of SEEDS) {
    const { events, limiter } = await played(seed, {});
    await assertBounded(limiter, `seed ${seed}`);
    const waits = events.flatMap((event) => (event.kind === "answered" ? [event.waitedMs] : []));
    assert.ok(Math.max(...waits) <= 1_500, `seed ${seed}: somebody waited ${Math.max(...waits)} ms`);
    assert.ok(waits.some((ms) => ms > 0) && events.some(({ kind }) => kind === "refused"), `seed ${seed} is too quiet`);
  }
});

test("a run can be replayed: the same seed, the same events at the same instants", async () => {
  const [once, again, other] = [await played(7, {}), await played(7, {}), await played(8, {})];
  assert.deepEqual(once.events, again.events);
  assert.notDeepEqual(once.events, other.events);
});

test("a store that loses answers makes the gateway stricter, never laxer", async () => {
  for (const seed of SEEDS) {
    const rates = { debit: 0.1, credit: 0.1 };
    const { limiter, faults } = await played(seed, { rates, random: new SeededRandom(seed) });
    assert.ok(faults > 10, `only ${faults} faults`);
    await assertBounded(limiter, `seed ${seed}`);
  }
});

/** A minute of the gateway. */
async function played(seed: number, options: FaultOptions) {
  const clock = new SimulatedClock(START_MS);
  let faults = 0;
  const store = new FaultStore(openMemory(), { ...options, onFault: () => faults++ });
  const limiter = await RateLimiter.open({ store, clock, unnamedLimits: "allow" });
  await setUp(limiter);
  const random = new SeededRandom(seed);
  const events: (CallEvent & { readonly atMs: number })[] = [];
  const ending = new AbortController();
  const ran = runGateway(limiter, {
    random: () => random.next(),
    clock,
    signal: ending.signal,
    onEvent: (event) => events.push({ ...event, atMs: clock.now() }),
  });
  await clock.advance(RUN_MS);
  ending.abort();
  await ran;
  return { events, limiter, faults };
}

async function assertBounded(limiter: RateLimiter, place: string): Promise<void> {
  const usage = await storedUsage(limiter, START_MS);
  const levels = await levelsOf(limiter);
  const bounds: readonly (readonly [string, Readonly<Record<"rpm" | "tpm", Terms>>])[] = [
    [PROJECT, PROJECT_TERMS],
    ...CALLERS.map(({ key }) => [key, KEY_TERMS] as const),
  ];
  for (const [id, terms] of bounds) {
    for (const limit of ["rpm", "tpm"] as const) {
      const { perMinute, burst } = terms[limit];
      const left = levels.find((level) => level.entityId === id && level.limit === limit)?.available ?? 0;
      const used = usage.get(id)?.[limit] ?? 0;
      const most = burst + (RUN_MS / 60_000) * perMinute + Math.max(0, -left);
      assert.ok(used <= most, `${place}: ${id} used ${used} ${limit} of at most ${most}`);
    }
  }
}
