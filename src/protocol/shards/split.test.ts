import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "../../../test/depth.ts";
import { checkTransaction, outcomeOf } from "../../../test/kit/conditional-write.ts";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { anyBucketOf, anyEpoch, anyLimits, anyZone, ENV, imageOf, itemOf, KEY } from "../../../test/protocol/kit.ts";
import {
  advanced,
  availableMilli,
  type BucketState,
  bucketFor,
  debitFrom,
  findLimit,
  freshBucket,
  wholeOf,
} from "../../domain/bucket/bucket-state.ts";
import { type Wanted, walkOf } from "../../domain/bucket/earliest.ts";
import type { LimitState } from "../../domain/bucket/limit-state.ts";
import { Search } from "../../domain/bucket/search.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Item, ItemWrite } from "../../ports/item-store.ts";
import type { Image } from "../item/codec.ts";
import { countsAgree, doublingWrites, mergingWrites } from "./split.ts";

const Kinds = limitMakers(calendar);
const T0 = Date.UTC(2026, 2, 15, 12);

const searched = (wanted: Wanted, fromMs: number) => walkOf(wanted, new Search(fromMs, calendar)).next(fromMs);

/** A bucket without sessions: those do not split. */
const anyBucket: fc.Arbitrary<BucketState> = fc.record({ tz: anyZone, epochMs: anyEpoch }).chain(({ tz, epochMs }) =>
  anyLimits(tz, 3)
    .map((limits) => limits.filter(({ resetAfterMs }) => resetAfterMs === undefined))
    .filter((limits) => limits.length > 0)
    .chain((limits) => anyBucketOf(limits, epochMs)),
);

/** The shards of one bucket. */
class Shards {
  items: Item[];

  constructor(state: BucketState) {
    this.items = [itemOf(state)];
  }

  images(): Image[] {
    return this.items.map((item, shard) => imageOf(item, { ...KEY, shard }));
  }

  whole(): BucketState {
    return wholeOf(
      this.images().map(({ state }) => state),
      calendar,
    );
  }

  /** All or nothing, as a transaction is. */
  transact(writes: readonly ItemWrite[]): boolean {
    checkTransaction(writes, { token: "t", event: undefined });
    const outcomes = writes.map((write) => outcomeOf(write, this.items[write.key.shard]));
    if (outcomes.some(({ kind }) => kind === "failed")) return false;
    const items: (Item | undefined)[] = [...this.items];
    for (const [i, { key }] of writes.entries()) items[key.shard] = outcomes[i]?.after;
    this.items = items.filter((item) => item !== undefined);
    return true;
  }

  /** Takes or gives back, in thousandths of each shard's capacity. */
  stir(parts: readonly number[]): void {
    this.items = this.images().map(({ item, state }, shard) => {
      const moved = state.limits.map(({ name, terms }, i) => {
        const part = parts[(shard + i) % parts.length] ?? 0;
        return [`b_${name}_tk`, Number(item[`b_${name}_tk`]) + Math.floor((terms.capacityMilli * part) / 1000)];
      });
      return { ...item, ...Object.fromEntries(moved) };
    });
  }

  /** Sums what all shards hold of a limit at an instant. */
  total(name: string, atMs: number): bigint {
    return this.#sum((state) => {
      const then = advanced(state, atMs, calendar);
      const held = findLimit(then, name);
      return held === undefined ? 0 : availableMilli(then, held, atMs);
    });
  }

  capacity(name: string, atMs: number): bigint {
    return this.#sum((state) => findLimit(advanced(state, atMs, calendar), name)?.terms.capacityMilli ?? 0);
  }

  #sum(of: (state: BucketState) => number): bigint {
    return this.images().reduce((sum, { state }) => sum + BigInt(of(state)), 0n);
  }

  get epochMs(): number {
    return Math.max(...this.items.map(({ rf }) => Number(rf)));
  }
}

const anySteps = fc.array(
  fc.record({
    how: fc.constantFrom("double", "double", "halve", "join"),
    elapsedMs: fc.oneof(fc.integer({ min: 1, max: 5_000 }), fc.integer({ min: 1, max: 86_400_000 })),
    before: fc.array(fc.integer({ min: -400, max: 300 }), { minLength: 1, maxLength: 5 }),
  }),
  { minLength: 1, maxLength: 7 },
);

function writesOf(shards: Shards, how: string, atMs: number): ItemWrite[] | undefined {
  const images = shards.images();
  if (how === "double") return images.length >= 32 ? undefined : doublingWrites(images, atMs, ENV);
  if (images.length === 1) return undefined;
  return mergingWrites(images, how === "halve" ? images.length / 2 : 1, atMs, ENV);
}

test("however a bucket is split and joined, it holds what it held: to a millitoken a shard, and never more", () => {
  fc.assert(
    fc.property(anyBucket, anySteps, (state, steps) => {
      const shards = new Shards(state);
      const names = state.limits.map(({ name }) => name);
      for (const { how, elapsedMs, before } of steps) {
        shards.stir(before);
        const atMs = shards.epochMs + elapsedMs;
        const writes = writesOf(shards, how, atMs);
        if (writes === undefined) continue;
        const due = names.map((name) => [shards.total(name, atMs), shards.capacity(name, atMs)] as const);
        const count = BigInt(shards.items.length);
        assert.ok(shards.transact(writes), "the writes do not fit the very images they were made from");
        for (const [i, name] of names.entries()) {
          const [held, capacity] = due[i] as readonly [bigint, bigint];
          const holds = shards.total(name, atMs);
          assert.ok(holds <= held, `${name} holds ${holds - held} more after ${how} of ${count}`);
          assert.ok(holds >= held - count, `${name} lacks ${held - holds} after ${how} of ${count}`);
          assert.equal(shards.capacity(name, atMs), capacity, `the capacity of ${name} after ${how} of ${count}`);
        }
        assert.ok(shards.items.every((item) => item.shard_count === shards.items.length));
        assert.ok(shards.items.every((item) => item.rf === atMs));
        const whole = shards.whole();
        for (const held of whole.limits) {
          assert.equal(BigInt(availableMilli(whole, held, atMs)), shards.total(held.name, atMs), held.name);
        }
      }
    }),
    { numRuns: runs(150) },
  );
});

test("nothing is minted when others take between the look and the transaction", () => {
  fc.assert(
    fc.property(
      anyBucket,
      fc.nat(4),
      fc.constantFrom("double", "halve", "join"),
      fc.array(fc.integer({ min: -700, max: 0 }), { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 100_000 }),
      (state, doublings, how, takes, elapsedMs) => {
        const shards = new Shards(state);
        for (let i = 0; i < doublings; i++) {
          assert.ok(shards.transact(writesOf(shards, "double", shards.epochMs + 1) ?? []));
        }
        const atMs = shards.epochMs + elapsedMs;
        const writes = writesOf(shards, how, atMs);
        if (writes === undefined) return;
        shards.stir(takes);
        const names = state.limits.map(({ name }) => name);
        const due = names.map((name) => shards.total(name, atMs));
        if (!shards.transact(writes)) return;
        for (const [i, name] of names.entries()) {
          assert.ok(shards.total(name, atMs) <= (due[i] as bigint), `${name} holds more after ${how}`);
        }
      },
    ),
    { numRuns: runs(200) },
  );
});

test("what comes back to an empty bucket between the look and the split is not lost", () => {
  const quota = Kinds.quota("q", 28, { reset: { cron: "0 0 * * *" } });
  const fresh = freshBucket(limitSet([quota]), { asOfMs: T0, generation: null }, T0, calendar);
  const limits = fresh.limits.map((held) => ({ ...held, tokensMilli: 0 }));
  const shards = new Shards({ ...fresh, limits, untouched: false });
  const writes = writesOf(shards, "double", T0 + 1) ?? [];
  shards.items = shards.items.map((item) => ({ ...item, b_q_tk: 26_000 }));
  // The giver keeps 14 at most: the split is drawn again, by what there is then.
  assert.equal(shards.transact(writes), false);
  assert.ok(shards.transact(writesOf(shards, "double", T0 + 1) ?? []));
  assert.equal(shards.total("q", T0 + 1), 26_000n);
});

test("what was topped up is divided and joined again without a rest", () => {
  fc.assert(
    fc.property(anyBucket, fc.integer({ min: 1, max: 5 }), (state, doublings) => {
      const quota = state.limits.find(({ quota }) => (quota?.topUpMilli ?? 0) > 0);
      if (quota === undefined) return;
      const shards = new Shards(state);
      const boughtMilli = () => shards.items.reduce((sum, item) => sum + Number(item[`b_${quota.name}_tu`] ?? 0), 0);
      // Within the period that it was bought in.
      const stays = () => advanced(state, shards.epochMs + 1, calendar).limits.find(({ name }) => name === quota.name);
      for (let i = 0; i < doublings && (stays()?.quota?.topUpMilli ?? 0) > 0; i++) {
        assert.ok(shards.transact(writesOf(shards, "double", shards.epochMs + 1) ?? []));
        assert.equal(boughtMilli(), quota.quota?.topUpMilli);
      }
      if (shards.items.length === 1 || (stays()?.quota?.topUpMilli ?? 0) === 0) return;
      assert.ok(shards.transact(writesOf(shards, "join", shards.epochMs + 1) ?? []));
      assert.equal(boughtMilli(), quota.quota?.topUpMilli);
    }),
    { numRuns: runs(200) },
  );
});

test("a wait for a split bucket ends at the first instant at which its shards have the amount together", () => {
  let waits = 0;
  fc.assert(
    fc.property(
      anyBucket,
      fc.integer({ min: 1, max: 3 }),
      fc.array(fc.integer({ min: -1_500, max: -100 }), { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 0, max: 1_000 }),
      fc.integer({ min: 500, max: 1_000 }),
      (state, doublings, takes, elapsedMs, part) => {
        const shards = new Shards(state);
        for (let i = 0; i < doublings; i++) {
          assert.ok(shards.transact(writesOf(shards, "double", shards.epochMs + 1) ?? []));
        }
        shards.stir(takes);
        const readingMs = shards.epochMs + elapsedMs;
        const whole = advanced(shards.whole(), readingMs, calendar);
        for (const limit of whole.limits) {
          const milli = Math.ceil((limit.terms.capacityMilli / 1000) * part);
          const holds = (atMs: number) => shards.total(limit.name, atMs) >= BigInt(milli);
          if (limit.limit.soft || holds(readingMs)) continue;
          const { atMs, found } = searched({ state: whole, limit, milli, leavePercent: 0 }, readingMs);
          if (!found || atMs > readingMs + 2 ** 44) continue;
          waits++;
          assert.ok(holds(atMs), `${limit.name}: ${milli} not there after ${atMs - readingMs} ms`);
          for (const early of [1, 2, 1_000, 60_000, 3_600_000, Math.floor((atMs - readingMs) / 2)]) {
            const earlyMs = Math.max(readingMs, atMs - Math.max(1, early));
            assert.ok(!holds(earlyMs), `${limit.name}: ${milli} there ${atMs - earlyMs} ms earlier`);
          }
        }
      },
    ),
    { numRuns: runs(150) },
  );
  assert.ok(waits > runs(20), `only ${waits} waits`);
});

test("shards of which only one has heard of a lowered limit hold no more than that together", () => {
  const limits = (capacity: number) => limitSet([Kinds.perDay("rpd", capacity)]);
  const fresh = freshBucket(limits(400), { asOfMs: T0, generation: null }, T0, calendar);
  const shards = new Shards({ ...fresh, untouched: false });
  assert.ok(shards.transact(writesOf(shards, "double", T0 + 1) ?? []));
  const [one, other] = shards.images().map(({ state }) => state) as [BucketState, BucketState];
  const lowered = bucketFor(one, { set: limits(55), origin: { asOfMs: T0 + 1, generation: null } }, T0 + 2, calendar);
  const whole = wholeOf([lowered, other], calendar);
  const held = findLimit(whole, "rpd");
  assert.ok(held !== undefined);
  assert.equal(availableMilli(whole, held, T0 + 2), 55_000);
});

test("a wait for shards of which only one has heard of a raised limit is by the raised one, and not for ever", () => {
  const limits = (rpm: number) => limitSet([Kinds.perMinute("rpm", rpm)]);
  const fresh = freshBucket(limits(100), { asOfMs: T0, generation: null }, T0, calendar);
  const shards = new Shards({ ...fresh, untouched: false });
  assert.ok(shards.transact(writesOf(shards, "double", T0 + 1) ?? []));
  const [one, other] = shards.images().map(({ state }) => state) as [BucketState, BucketState];
  const raised = bucketFor(other, { set: limits(200), origin: { asOfMs: T0 + 1, generation: null } }, T0 + 2, calendar);
  for (const states of [
    [one, raised],
    [raised, one],
  ]) {
    const whole = wholeOf(states, calendar);
    const limit = findLimit(whole, "rpm");
    assert.ok(limit !== undefined);
    // A hundred are there; at two hundred a minute it takes half a minute for as many more.
    const { atMs } = searched({ state: whole, limit, milli: 200_000, leavePercent: 0 }, T0 + 2);
    assert.ok(atMs > T0 + 29_000 && atMs < T0 + 31_000, `${atMs - T0}`);
  }
});

test("a wait for shards of which only one has heard that a limit is a session now is not for ever", () => {
  const limits = (limit: ReturnType<typeof Kinds.perMinute>) => limitSet([limit]);
  const before = limits(Kinds.perHour("rpm", 6));
  const fresh = freshBucket(before, { asOfMs: T0, generation: null }, T0, calendar);
  const spent = debitFrom(fresh, [{ limit: "rpm", milli: 3_000 }], T0) as BucketState;
  const shards = new Shards(spent);
  assert.ok(shards.transact(writesOf(shards, "double", T0 + 1) ?? []));
  const [one, other] = shards.images().map(({ state }) => state) as [BucketState, BucketState];
  const session = limits(Kinds.quota("rpm", 6, { resetAfterMs: 60_000 }));
  const heard = bucketFor(one, { set: session, origin: { asOfMs: T0 + 1, generation: null } }, T0 + 2, calendar);
  const whole = wholeOf([heard, other], calendar);
  const limit = findLimit(whole, "rpm");
  assert.ok(limit !== undefined);
  const { atMs } = searched({ state: whole, limit, milli: 6_000, leavePercent: 0 }, T0 + 5);
  assert.ok(atMs > T0 + 60_000 && atMs < T0 + 60_010, `${atMs - T0}`);
});

test("a bucket without shards has no state", () => {
  assert.throws(() => wholeOf([], calendar), /without shards/);
});

test("joined shards count the most resets that one of them had: no lease from before the last one gives back", () => {
  const quota = Kinds.quota("q", 10, { reset: { cron: "0 0 * * *" } });
  const fresh = freshBucket(limitSet([quota]), { asOfMs: T0, generation: null }, T0, calendar);
  const shards = new Shards({ ...fresh, untouched: false });
  assert.ok(shards.transact(writesOf(shards, "double", T0 + 1) ?? []));
  shards.items = shards.items.map((item, shard) => ({ ...item, b_q_rn: 101 + shard, b_q_ru: T0 + 5 + shard }));
  assert.equal(countsAgree(shards.images()), false);
  assert.ok(shards.transact(writesOf(shards, "join", T0 + 2) ?? []));
  assert.deepEqual(
    shards.items.map(({ b_q_rn, b_q_ru }) => [b_q_rn, b_q_ru]),
    [[102, T0 + 6]],
  );
  assert.equal(countsAgree(shards.images()), true);
});

/** Two shards with 2 each of what is left of a quota, by different rules: it was left out when only one had heard of the new one. */
function ruledApart(session: 0 | 1, marks: Item): Shards {
  const quota = Kinds.quota("q", 10, { reset: { cron: "0 0 * * *" } });
  const limits = limitSet([Kinds.perMinute("t", 10), quota]);
  const shards = new Shards({
    ...freshBucket(limits, { asOfMs: T0, generation: null }, T0, calendar),
    untouched: false,
  });
  assert.ok(shards.transact(writesOf(shards, "double", T0 + 1) ?? []));
  shards.items = shards.items.map(({ b_q_rsched, ...item }, shard): Item => {
    const left = { ...item, cfl: "t", b_q_tk: 2_000 };
    if (shard !== session) return { ...left, b_q_rsched: b_q_rsched as string };
    return { ...left, b_q_rsa: 3_600, ...marks };
  });
  return shards;
}

test("a calendar quota that a session joins has no window of it", () => {
  const shards = ruledApart(1, { b_q_ws: T0, b_q_wa: T0 });
  assert.ok(shards.transact(writesOf(shards, "join", T0 + 2) ?? []));
  const [{ b_q_ws, b_q_tk, b_q_ru } = {}] = shards.items;
  assert.deepEqual([b_q_ws, b_q_tk], [undefined, 4_000]);
  assert.equal(b_q_ru, T0 + 3_600_000, "until then what the session spent is remembered");
});

test("a closed session that a spent calendar quota joins is not full by that", () => {
  const shards = ruledApart(0, { b_q_tk: 5_000 });
  assert.ok(shards.transact(writesOf(shards, "join", T0 + 2) ?? []));
  const [{ b_q_ws, b_q_tk } = {}] = shards.items;
  assert.deepEqual([b_q_ws, b_q_tk], [T0 + 2, 7_000]);
  const later = advanced(shards.whole(), T0 + 60_000, calendar);
  assert.equal(availableMilli(later, findLimit(later, "q") as LimitState, T0 + 60_000), 7_000);
});
