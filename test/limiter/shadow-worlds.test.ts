import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { seeds } from "../depth.ts";
import { HardModel } from "../simulation/shadow-model.ts";
import { EVERY_STORE } from "./every-store.ts";

// Random requests of one process, on every store, beside a second model in which the shadow is hard.

const T0 = Date.UTC(2026, 2, 15, 12);
const ask = { entityId: "key-1", resource: "gpt-4" } as const;
const WORLDS = seeds(2, 12);
/** One of so many worlds has to find each bug. */
const MUTANT_WORLDS = 6;
const second = { refillAmount: 1, refillPeriodMs: 1_000 };

type Opened = (clock: SimulatedClock, t: TestContext) => ReturnType<(typeof EVERY_STORE)[number][1]>;

/** Plays one world; answers what is wrong, the first thing only. */
async function play(
  t: TestContext,
  open: Opened,
  seed: number,
  spoiled: (store: Store) => Store,
): Promise<string | undefined> {
  const random = new SeededRandom(seed);
  const clock = new SimulatedClock(T0);
  const { store, options } = open(clock, t);
  const limiter = await RateLimiter.open({ store: spoiled(store), clock, ...options });
  await limiter.setResourceDefaults("gpt-4", [
    Limit.custom("rpm", { capacity: 10, ...second }),
    Limit.custom("tpm", { capacity: 20, ...second, shadow: true }),
  ]);
  const hard = new HardModel(10_000, true, clock.now());
  const shadow = new HardModel(20_000, true, clock.now());
  let [passed, granted] = [0, 0];
  for (let step = 0; step < 60; step++) {
    const nowMs = clock.now();
    const [rpm, tpm] = [random.integer(0, 3), random.integer(0, 12)];
    const leavePercent = random.pick([0, 0, 0, 50]);
    const outcome = await limiter.tryAcquire({ ...ask, consume: { rpm, tpm }, leavePercent });
    if (hard.take(rpm * 1_000, leavePercent, nowMs) !== outcome.ok)
      return `${outcome.ok} at ${nowMs - T0}, a hard limit says otherwise`;
    if (outcome.ok) {
      granted++;
      const isTaken = shadow.take(tpm * 1_000, leavePercent, nowMs);
      if (!isTaken) passed++;
      if (outcome.lease.shadowed.includes("tpm") === isTaken)
        return `${tpm} tpm told as passed by: ${!isTaken} would be right`;
      const more = random.integer(0, 6);
      const then = random.pick(["adjust", "rollback", "settle"] as const);
      if (then === "adjust") {
        await outcome.lease.adjust({ tpm: more });
        if (isTaken) shadow.debit(more * 1_000, nowMs);
        await outcome.lease.settle();
      } else if (then === "rollback") {
        await outcome.lease.rollback();
        hard.credit(rpm * 1_000);
        if (isTaken) shadow.credit(tpm * 1_000);
      } else await outcome.lease.settle();
    }
    const [, held] = await limiter.available(ask);
    if (held?.available !== Math.floor(shadow.level(nowMs) / 1_000))
      return `${held?.available} tpm, a hard limit would hold ${shadow.level(nowMs)} millitokens`;
    await clock.advance(random.pick([0, 100, 700, 2_500, 9_000]));
  }
  const { wouldRefuse, requests } = await limiter.usageSummary({ ...ask, window: "daily" });
  if ((wouldRefuse.tpm ?? 0) !== passed) return `${wouldRefuse.tpm} counted, ${passed} would have been refused`;
  return requests === granted ? undefined : `${requests} requests counted of ${granted}`;
}

const SPOILED: Readonly<Record<string, (store: Store) => Store>> = {
  "a shadow that debits": inBuckets((buckets) => ({
    take: async (claims, context) => {
      const reply = await buckets.take(claims, context);
      if (reply === "stale") return reply;
      for (const [i, answer] of reply.entries()) {
        const of = claims[i];
        if (answer.kind !== "taken" || answer.shadowed.length === 0 || of === undefined) continue;
        const due = of.take.filter(({ limit }) => answer.shadowed.includes(limit));
        await buckets.debit({ ...of, ticket: answer.ticket }, due, context);
      }
      return reply;
    },
  })),
  "a shadow that does not name what it would refuse": inBuckets((buckets) => ({
    take: async (claims, context) => {
      const reply = await buckets.take(claims, context);
      if (reply === "stale") return reply;
      return reply.map((answer) => (answer.kind === "taken" ? { ...answer, shadowed: [] } : answer));
    },
  })),
  "a shadow that is asked without its floor": inBuckets((buckets) => ({
    take: (claims, context) =>
      buckets.take(
        claims.map(({ leavePercent: _, ...claim }) => claim),
        context,
      ),
  })),
};

/** Takes go another way; what takes past that, in place, is left out. */
function inBuckets(change: (buckets: BucketStore) => Pick<BucketStore, "take">): (store: Store) => Store {
  return (store) =>
    overriding<Store>(store, {
      scope: (id) => {
        const scope = store.scope(id);
        const { buckets } = scope;
        const spoiled: BucketStore = {
          ...change(buckets),
          debit: (...args) => buckets.debit(...args),
          credit: (...args) => buckets.credit(...args),
          refund: (...args) => buckets.refund(...args),
          renew: (...args) => buckets.renew(...args),
          topUp: (...args) => buckets.topUp(...args),
          reset: (...args) => buckets.reset(...args),
          read: (...args) => buckets.read(...args),
          listKeys: (...args) => buckets.listKeys(...args),
          listByResource: (...args) => buckets.listByResource(...args),
        };
        return overriding(scope, { buckets: spoiled });
      },
    });
}

for (const [name, open] of EVERY_STORE) {
  test(`a shadow on ${name} holds what a hard limit would, and names and counts what it would refuse`, async (t) => {
    for (const seed of WORLDS) assert.equal(await play(t, open, seed, (store) => store), undefined, `seed ${seed}`);
  });
}

for (const [bug, spoiled] of Object.entries(SPOILED)) {
  test(`the second model finds ${bug}`, async (t) => {
    const [, open] = EVERY_STORE[0] as (typeof EVERY_STORE)[number];
    for (let seed = 1; seed <= MUTANT_WORLDS; seed++) if ((await play(t, open, seed, spoiled)) !== undefined) return;
    assert.fail(`not found in ${MUTANT_WORLDS} worlds`);
  });
}
