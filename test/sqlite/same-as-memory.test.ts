import assert from "node:assert/strict";
import { test } from "node:test";
import { openMemory } from "../../src/adapters/memory/store.ts";
import { PLAIN_TICKET, type Ticket } from "../../src/domain/bucket/give-back.ts";
import { HOUR_MS, type UsageWindow } from "../../src/domain/charge/usage.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import type { ScopedStore } from "../../src/ports/store.ts";
import { NO_TURNS } from "../../src/testing/simulated-clock.ts";
import { atDepth, firstSeed } from "../depth.ts";
import { fc } from "../properties.ts";
import { amounts, calendar, claim, context, held, NOON, openOn, tempFile } from "./temp-store.ts";

const Kinds = limitMakers(calendar);

// Windows and resets on the half hour: a story of some hours passes many of them.
const SETS: readonly (readonly Limit[])[] = [
  [Kinds.perMinute("rpm", 10)],
  [Kinds.perMinute("rpm", 10), Kinds.perHour("tpm", 1_000)],
  [Kinds.perHour("tpm", 1_000), Kinds.perMinute("rpm", 10)],
  [Kinds.perMinute("rpm", 4), Kinds.custom("huge", { capacity: 9e12, refillAmount: 9e12, refillPeriodMs: 7_000 })],
  [
    Kinds.perMinute("rpm", 10, { schedule: [{ cron: "30-59 * * * *", scale: 0.5 }] }),
    Kinds.quota("tpm", 1_000, { reset: { cron: "*/30 * * * *" } }),
  ],
  [
    Kinds.quota("tpm", 800, { resetAfterMs: HOUR_MS, schedule: [{ cron: "15-44 * * * *", capacity: 500 }] }),
    Kinds.perMinute("rpm", 10, { soft: true }),
  ],
];
const ENTITIES = ["a", "b", "c"];

const step = fc.record({
  kind: fc.constantFrom("take", "take", "take", "take both", "debit", "credit", "credit", "topUp", "reset"),
  connection: fc.nat(1),
  entity: fc.nat(ENTITIES.length - 1),
  set: fc.nat(SETS.length - 1),
  // Not 0: memory shows an hour in which nothing was given back, the file does not.
  rpm: fc.integer({ min: 1, max: 12 }),
  tpm: fc.option(fc.nat(2_000)),
  huge: fc.option(fc.nat(9_000).map((n) => n * 1e9)),
  bypass: fc.integer({ min: 0, max: 7 }).map((n) => n === 0),
  key: fc.constantFrom("order-1", "order-2", "order-3"),
  // Mostly forward, sometimes back over an hour or two, sometimes a day on.
  laterMs: fc.oneof(
    { arbitrary: fc.nat(60_000), weight: 5 },
    { arbitrary: fc.integer({ min: -2, max: 3 }).map((n) => n * HOUR_MS), weight: 1 },
    { arbitrary: fc.nat(40).map((n) => n * HOUR_MS), weight: 1 },
  ),
  origin: fc.nat(20),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/** A store and the tickets of what was last taken from it, by entity. */
interface Told {
  readonly scope: ScopedStore;
  readonly tickets: Map<string, Ticket>;
}

/** What a store answers to a step; a failure is an answer too. */
async function answer({ scope, tickets }: Told, told: Step, nowMs: number): Promise<unknown> {
  const { buckets } = scope;
  const tokens = {
    rpm: told.rpm,
    ...(told.tpm === null ? {} : { tpm: told.tpm }),
    ...(told.huge === null ? {} : { huge: told.huge }),
  };
  const origin = { asOfMs: told.origin, generation: null };
  const entityId = ENTITIES[told.entity]!;
  const wanted = { ...claim(entityId, SETS[told.set]!, tokens, origin), bypass: told.bypass };
  const parent = claim("parent", SETS[1]!, { rpm: 1 });
  const { bucket, set } = wanted;
  const event = { eventId: `at-${nowMs}`, atMs: nowMs, action: "bucket_reset", entityId, details: {} } as const;
  const operation = { bucket, set, origin, nowMs, idempotencyKey: told.key, event };
  try {
    switch (told.kind) {
      case "take":
      case "take both": {
        const claims = told.kind === "take" ? [wanted] : [wanted, parent];
        const reply = await buckets.take(claims, context(nowMs));
        const [first] = reply === "stale" ? [] : reply;
        if (first?.kind === "taken") tickets.set(entityId, first.ticket);
        return reply;
      }
      case "debit":
        return await buckets.debit(held(wanted), amounts(tokens), context(nowMs));
      case "topUp":
        return await buckets.topUp(operation, amounts(tokens));
      case "reset":
        return await buckets.reset(operation, told.bypass ? ["tpm"] : undefined);
      default: {
        const ticket = tickets.get(entityId) ?? PLAIN_TICKET;
        return await buckets.credit({ ...held(wanted), ticket }, amounts(tokens), context(nowMs));
      }
    }
  } catch (error) {
    return (error as Error).message;
  }
}

async function everything({ buckets, usage, audit }: ScopedStore): Promise<unknown> {
  const keys = [...ENTITIES, "parent"].map((id) => claim(id, [], {}).bucket);
  const windows: UsageWindow[] = ["hourly", "daily", "monthly"];
  const all = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
  return {
    states: await buckets.read(keys),
    usage: await Promise.all(windows.map((window) => usage.query({ window, ...all }, { limit: 1_000 }))),
    audit: (await audit.list({}, { limit: 1_000 })).items,
  };
}

test("any story told to memory, and to two connections on one file in turns, has the same answers and the same end", async (t) => {
  const story = fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(story, async (chapters) => {
      const memory: Told = {
        scope: openMemory(calendar, FILE_RETENTION, NO_TURNS).scope("default"),
        tickets: new Map(),
      };
      const file = tempFile(t);
      const opened = [openOn(t, file), openOn(t, file)];
      const tickets = new Map<string, Ticket>();
      let nowMs = NOON;
      for (const steps of chapters) {
        // The steps of a chapter are under way together, on the connection of the first. Operations wait for nobody, and
        // credits need the ticket of a take: they are told by themselves.
        const together = steps.every(({ kind }) => kind.startsWith("take") || kind === "debit");
        const times = steps.map(({ laterMs }) => {
          nowMs += laterMs;
          return nowMs;
        });
        const here: Told = { scope: opened[steps[0]!.connection]!, tickets };
        const found = together
          ? await Promise.all(steps.map((told, i) => answer(here, told, times[i]!)))
          : await inTurn(here, steps, times);
        assert.deepEqual(found, await inTurn(memory, steps, times));
      }
      for (const { store, ...scope } of opened) {
        assert.deepEqual(await everything(scope), await everything(memory.scope));
        await store.close();
      }
    }),
    { numRuns: atDepth(40, 200), seed: firstSeed() },
  );
});

async function inTurn(store: Told, steps: readonly Step[], times: readonly number[]): Promise<unknown[]> {
  const answers = [];
  for (const [i, told] of steps.entries()) answers.push(await answer(store, told, times[i]!));
  return answers;
}
