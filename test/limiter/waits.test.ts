import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Limit, type Outcome, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { seeds } from "../depth.ts";
import { type ConditionalProcess, conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { calendar } from "../limits/kind-arbitraries.ts";

// Promptness: a request that waits, and fits, is granted within the attempt that is under way and one more.

const T0 = Date.UTC(2026, 2, 15, 12);
const TRIP_MS = 4;
/**
 * An attempt at two levels is at most five trips: one level after the other where they are scarce, what was taken is given
 * back, what was not asked is looked at; and configuration, where it was not read yet. Two attempts, then, and a trip more.
 */
const BOUND_MS = 11 * TRIP_MS;

/** What was remembered when a request came is asked about again after this, and after the deny memory. */
const REMEMBERED_SLEEP_MS = 1_000;

const slots = (count: number) => [Limit.quota("slots", count, { reset: { cron: "0 0 1 * *" } })];

interface World {
  readonly clock: SimulatedClock;
  readonly store: Store;
  /** Writes and transactions that the store was asked for, so far; undefined where they are not counted. */
  writes(): number | undefined;
}

function conditional(given: Partial<ConditionalProcess> = {}): World {
  const clock = new SimulatedClock(T0);
  const random = new SeededRandom(3);
  const world = conditionalWorld(
    { now: () => clock.now(), random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 },
    calendar,
  );
  const line = { pause: () => clock.sleep(TRIP_MS / 2, undefined) };
  const store = openConditional(world, { clock, random: () => random.next(), line, ...given });
  return { clock, store, writes: () => world.table.counts.writes + world.table.counts.transactions };
}

function memory(): World {
  return { clock: new SimulatedClock(T0), store: openMemory(), writes: () => undefined };
}

/** Lets time pass until the work is done. */
async function run<Value>({ clock }: World, work: Promise<Value>): Promise<Value> {
  let isOver = false;
  const ended = () => {
    isOver = true;
  };
  work.then(ended, ended);
  for (let i = 0; i < 20_000 && !isOver; i++) await clock.advance(1);
  return work;
}

async function family(world: World, limiter: RateLimiter, counts: { readonly key: number; readonly project: number }) {
  await run(world, limiter.createEntity({ id: "project" }));
  await run(world, limiter.setLimits("project", slots(counts.project)));
  for (const id of ["key", "other"]) {
    await run(world, limiter.createEntity({ id, parentId: "project", cascade: true }));
    await run(world, limiter.setLimits(id, slots(counts.key)));
  }
}

const asking = (entityId: string, count: number) => ({ entityId, resource: "gpu", consume: { slots: count } });

interface Waiting {
  readonly entityId: string;
  readonly limiter: number;
  readonly abort: AbortController;
  outcome: Outcome | "aborted" | undefined;
}

/** Takes, releases, waits, aborts, purchases and resets of two limiters on one store, at random; then calm, again and again. */
async function story(world: World, seed: number, levels: 1 | 2, denyMemoryMs: number): Promise<number> {
  const random = new SeededRandom(seed);
  const below = (count: number) => random.integer(0, count - 1);
  const { clock, store } = world;
  const limiters: RateLimiter[] = [];
  for (let i = 0; i < 2; i++) limiters.push(await run(world, RateLimiter.open({ store, clock, denyMemoryMs })));
  const [first] = limiters as [RateLimiter, RateLimiter];
  await family(world, first, { key: 1 + below(3), project: 2 + below(3) });
  const entities = levels === 1 ? ["project"] : ["key", "other"];
  const waiting: Waiting[] = [];
  const leases: Extract<Outcome, { ok: true }>["lease"][] = [];
  // Refused purchases and aborted waits are part of the story.
  const goOn = (work: Promise<unknown>) => void work.catch(() => undefined);
  let granted = 0;
  const any = () => ({ limiter: below(2), entityId: entities[below(entities.length)] as string });
  const wait = () => {
    const one: Waiting = { ...any(), abort: new AbortController(), outcome: undefined };
    waiting.push(one);
    const maxMs = random.chance(0.2) ? below(40) : 3_600_000;
    const request = { ...asking(one.entityId, 1), wait: { maxMs }, signal: one.abort.signal };
    const asked = (limiters[one.limiter] as RateLimiter).tryAcquire(request);
    goOn(
      asked.then(
        (outcome) => {
          one.outcome = outcome;
          if (!outcome.ok) return;
          granted++;
          leases.push(outcome.lease);
        },
        () => {
          one.outcome = "aborted";
        },
      ),
    );
  };
  const take = () => {
    const { limiter, entityId } = any();
    const asked = (limiters[limiter] as RateLimiter).tryAcquire(asking(entityId, 1 + below(2)));
    goOn(asked.then((outcome) => void (outcome.ok && leases.push(outcome.lease))));
  };
  const release = () => {
    const [lease] = leases.splice(below(Math.max(1, leases.length)), 1);
    if (lease !== undefined) goOn(random.chance(0.5) ? lease.rollback() : lease.release({ slots: 1 }));
  };
  const operate = () => {
    const { limiter, entityId } = any();
    const about = { entityId, resource: "gpu", idempotencyKey: `${seed}-${clock.now()}-${random.next()}` };
    const operator = limiters[limiter] as RateLimiter;
    if (random.chance(0.5)) goOn(operator.topUp({ ...about, amounts: { slots: 1 } }));
    else goOn(operator.resetBucket(about));
  };
  const abort = () => waiting.filter(({ outcome }) => outcome === undefined)[below(4)]?.abort.abort();
  for (let rounds = 0; rounds < 6; rounds++) {
    for (let steps = 0; steps < 12; steps++) {
      const dice = random.next();
      if (dice < 0.35) wait();
      else if (dice < 0.6) take();
      else if (dice < 0.9) release();
      else if (dice < 0.95) abort();
      else operate();
      await clock.advance(below(2 * TRIP_MS));
    }
    // What was begun ends, and then nothing comes back any more.
    await clock.advance(2 * BOUND_MS + (denyMemoryMs > 0 ? denyMemoryMs + REMEMBERED_SLEEP_MS : 0));
    for (const { entityId, limiter, outcome } of waiting) {
      if (outcome !== undefined) continue;
      const question = asking(entityId, 1);
      const { outcome: would } = await run(world, (limiters[limiter] as RateLimiter).explain(question));
      assert.equal(would, "refused", `seed ${seed}: ${entityId} at limiter ${limiter} waits although it fits`);
    }
    const before = world.writes();
    await clock.advance(BOUND_MS);
    assert.equal(world.writes(), before, `seed ${seed}: asks again and again although nothing happens`);
  }
  for (const { abort: end } of waiting) end.abort();
  await clock.advance(BOUND_MS);
  return granted;
}

const SEEDS = seeds(8, 60);

describe("a request that waits and fits is granted promptly", () => {
  for (const levels of [1, 2] as const) {
    for (const denyMemoryMs of [0, 1_000]) {
      const about = `${levels === 1 ? "one level" : "two levels"}, a deny memory of ${denyMemoryMs} ms`;
      test(`on conditional writes, ${about}`, async () => {
        let granted = 0;
        for (const seed of SEEDS) granted += await story(conditional({ denyMemoryMs }), seed, levels, denyMemoryMs);
        assert.ok(granted > 4 * SEEDS.length, `only ${granted} waits were granted`);
      });

      test(`in memory, ${about}`, async () => {
        let granted = 0;
        for (const seed of SEEDS) granted += await story(memory(), seed, levels, denyMemoryMs);
        assert.ok(granted > 4 * SEEDS.length, `only ${granted} waits were granted`);
      });
    }
  }
});

describe("a give-back reaches who waits", () => {
  /** The head waits for the key's only slot, which is held. */
  async function held(world: World, counts: { readonly key: number; readonly project: number }) {
    const { clock, store } = world;
    const limiter = await run(world, RateLimiter.open({ store, clock, denyMemoryMs: 0 }));
    await family(world, limiter, counts);
    const lease = await run(world, limiter.acquire(asking("key", 1)));
    const wait = (entityId: string, maxMs: number) => {
      const one: { atMs?: number; outcome?: Outcome } = {};
      const work = limiter.tryAcquire({ ...asking(entityId, 1), wait: { maxMs } }).then((outcome) => {
        one.atMs = clock.now();
        one.outcome = outcome;
      });
      return { one, work };
    };
    return { limiter, lease, wait };
  }

  for (let delayMs = 0; delayMs <= 3 * TRIP_MS; delayMs++) {
    test(`${delayMs} ms after the head began to ask: it does not sleep over it`, async () => {
      const world = conditional();
      const { clock } = world;
      const { limiter, lease, wait } = await held(world, { key: 1, project: 100 });
      const elsewhere = await run(
        world,
        limiter.acquire({ ...asking("someone", 1), limits: [Limit.perDay("slots", 5)] }),
      );
      const { one } = wait("key", 60_000);
      await clock.advance(15_000);
      // All heads ask again; ours at the key and at the project.
      await run(world, elsewhere.rollback());
      await clock.advance(delayMs);
      await run(world, lease.rollback());
      const freeMs = clock.now();
      await clock.advance(BOUND_MS);
      assert.equal(one.outcome?.ok, true, "it sleeps although the slot is free");
      assert.ok((one.atMs as number) - freeMs <= BOUND_MS);
    });
  }

  test("that goes on after its caller was answered, when it lands", async () => {
    let isThrottled = false;
    const throttled = { kind: "refused", why: "throttled", cause: new Error("too fast") } as const;
    const through = (line: ItemStore) =>
      overriding(line, {
        write: (write, call) => {
          const isCredit = write.trace?.parts.some(({ kind }) => kind === "credit");
          return isThrottled && isCredit ? throttled : line.write(write, call);
        },
      });
    const world = conditional({ through });
    const { clock } = world;
    const { lease, wait } = await held(world, { key: 1, project: 100 });
    const { one } = wait("key", 600_000);
    await clock.advance(1_000);
    isThrottled = true;
    await run(world, lease.rollback());
    await clock.advance(5_000);
    assert.equal("outcome" in one, false);
    isThrottled = false;
    // The next time that it is sent, within 1,280 ms, and an attempt and one more after it.
    await clock.advance(1_280 + 2 * BOUND_MS);
    assert.equal(one.outcome?.ok, true, "it sleeps although the slot is free");
  });

  test("by another limiter of the process, although a refusal is remembered", async () => {
    for (const world of [conditional(), memory()]) {
      const { clock, store } = world;
      const open = () => run(world, RateLimiter.open({ store, clock, denyMemoryMs: 60_000 }));
      const [one, other] = [await open(), await open()];
      await run(world, one.registerNamespace("tenant"));
      const [a, b] = [one.namespace("tenant"), other.namespace("tenant")];
      await run(world, a.setResourceDefaults("gpu", slots(1)));
      const lease = await run(world, a.acquire(asking("key", 1)));
      const told: Outcome[] = [];
      void b.tryAcquire({ ...asking("key", 1), wait: { maxMs: 50_000 } }).then((outcome) => told.push(outcome));
      await clock.advance(10_000);
      await run(world, lease.rollback());
      await clock.advance(BOUND_MS);
      assert.equal(told[0]?.ok, true, `on ${store.name} it sleeps although the slot is free`);
    }
  });

  test("the next in line, at once, when the head gives up", async () => {
    const world = conditional();
    const { clock } = world;
    const { limiter, lease, wait } = await held(world, { key: 2, project: 100 });
    const large = limiter.tryAcquire({ ...asking("key", 2), wait: { maxMs: 5_000 } });
    await clock.advance(BOUND_MS);
    const { one } = wait("key", 60_000);
    await clock.advance(5_000 - 2 * BOUND_MS);
    assert.equal("outcome" in one, false, "it overtook the head");
    assert.equal((await run(world, large)).ok, false);
    await clock.advance(BOUND_MS);
    assert.equal(one.outcome?.ok, true, "one of two slots is free");
    await run(world, lease.rollback());
  });
});
