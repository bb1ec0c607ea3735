import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "../../../test/depth.ts";
import { magnitude, thousandths } from "../../../test/limits/arbitraries.ts";
import { ceilDiv, ExactBucket, unitsPerMilliOf } from "../../../test/limits/exact-bucket.ts";
import { fc } from "../../../test/properties.ts";
import { createCalendar } from "../../adapters/system/calendar.ts";
import type { Terms } from "../../bucket/balance.ts";
import { availableMilli, type BucketState, bucketFor, debitFrom, findLimit, takeFrom } from "../bucket/bucket-state.ts";
import { giveBack, PLAIN_TICKET } from "../bucket/give-back.ts";
import { searchFor } from "../bucket/search.ts";
import { Limit, termsOf } from "../limits/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../limits/limit-set.ts";
import type { Amount } from "./amounts.ts";

// The promise of the acquire protocol, over random histories of one bucket with several limits that share its epoch.

const T0 = 1_800_000_000_000;
const HOUR_MS = 3_600_000;
const NAMES = ["rpm", "tpm", "rpd"] as const;

const calendar = createCalendar();

const tokenCount = fc.oneof(
  fc.integer({ min: 1, max: 300 }),
  fc.integer({ min: 1, max: 300 }),
  magnitude(1, 9_000_000_000_000),
);
const periodMs = fc.constantFrom(1_000, 3_000, 7_000, 60_000, HOUR_MS, 86_400_000, 1_000_000_000_000);

const anyLimit = (name: string): fc.Arbitrary<Limit> =>
  fc
    .record({ capacity: tokenCount, refillAmount: tokenCount, refillPeriodMs: periodMs })
    .map((terms) => Limit.custom(name, terms));

const allLimits = fc.tuple(...NAMES.map(anyLimit)).map(limitSet);
const someLimits = fc
  .tuple(fc.subarray([...NAMES], { minLength: 1 }), allLimits)
  .map(([names, set]) => limitSet(set.limits.filter((limit) => names.includes(limit.name as (typeof NAMES)[number]))));

interface Call {
  readonly kind: "take" | "debit" | "credit" | "change" | "staleChange" | "look";
  readonly jumpMs: number;
  /** Thousandths of each limit's capacity, in the order of NAMES. */
  readonly parts: readonly number[];
  readonly set: LimitSet;
  /** Asks for all there is instead: the caller that finds whatever was minted. */
  readonly greedy: boolean;
}

const forward = fc.oneof(
  fc.integer({ min: 0, max: 20 }),
  fc.integer({ min: 0, max: 90_000 }),
  fc.integer({ min: 0, max: 5 * HOUR_MS }),
);
const eitherWay = fc.oneof({ weight: 3, arbitrary: forward }, { weight: 1, arbitrary: forward.map((ms) => -ms) });

function calls(kinds: readonly Call["kind"][], jumpMs: fc.Arbitrary<number>): fc.Arbitrary<Call[]> {
  const small = fc.integer({ min: 0, max: 60 });
  const parts = fc.oneof({ weight: 4, arbitrary: small }, { weight: 1, arbitrary: fc.integer({ min: 0, max: 1000 }) });
  return fc.array(
    fc.record({
      kind: fc.constantFrom(...kinds),
      jumpMs,
      parts: fc.array(parts, { minLength: NAMES.length, maxLength: NAMES.length }),
      set: someLimits,
      greedy: fc.boolean(),
    }),
    { minLength: 2, maxLength: 40, size: "max" },
  );
}

const stored = (generation: number): SetOrigin => ({ asOfMs: T0, generation });

function bringLimits(state: BucketState | undefined, set: LimitSet, origin: SetOrigin, nowMs: number): BucketState {
  return bucketFor(state, { set, origin }, nowMs, calendar);
}

/** As a store brings it before it takes: by the limits that the bucket has, with what time did since. */
function asOf(state: BucketState, nowMs: number): BucketState {
  return bringLimits(
    state,
    { limits: [], signature: state.signature, isByName: true, isBeyondRates: false },
    state.origin,
    nowMs,
  );
}

function amountsOf(call: Call, termsNow: ReadonlyMap<string, Terms>): Amount[] {
  return [...termsNow].map(([limit, terms]) => {
    const parts = call.parts[NAMES.indexOf(limit as (typeof NAMES)[number])] as number;
    return { limit, milli: thousandths(terms.capacityMilli, parts) };
  });
}

function termsByName(set: LimitSet): Map<string, Terms> {
  return new Map(set.limits.map((limit) => [limit.name, termsOf(limit)]));
}

function unitsOf(sets: readonly LimitSet[]): bigint {
  return unitsPerMilliOf(sets.flatMap((set) => set.limits.map(termsOf)));
}

interface Write {
  readonly kind: "take" | "debit" | "credit";
  readonly milli: number;
  /** r(reading): what had dripped in by then since the beginning, unrounded. */
  readonly dripped: bigint;
  readonly capacityMilli: number;
}

/** What the promise needs to know of one limit: its writes in order, and an unrounded meter of what drips in. */
class History {
  terms: Terms;
  #sinceMs: number;
  #before = 0n;
  readonly #writes: Write[] = [];
  readonly #unitsPerMilli: bigint;

  constructor(terms: Terms, sinceMs: number, unitsPerMilli: bigint) {
    this.terms = terms;
    this.#sinceMs = sinceMs;
    this.#unitsPerMilli = unitsPerMilli;
  }

  change(terms: Terms, atMs: number): void {
    this.#before = this.#dripped(atMs);
    this.#sinceMs = atMs;
    this.terms = terms;
  }

  write(kind: Write["kind"], milli: number, readingMs: number): void {
    const dripped = this.#dripped(readingMs);
    this.#writes.push({ kind, milli, dripped, capacityMilli: this.terms.capacityMilli });
    if (kind === "take") this.#check();
  }

  /** From one take (or debit) to the last take: taken + debited - given back <= capacity + r(last) - r(first). */
  #check(): void {
    const last = this.#writes.at(-1) as Write;
    let net = 0n;
    for (const first of this.#writes.toReversed()) {
      net += first.kind === "credit" ? -BigInt(first.milli) : BigInt(first.milli);
      if (first.kind === "credit") continue;
      const bound = BigInt(first.capacityMilli) + ceilDiv(last.dripped - first.dripped, this.#unitsPerMilli);
      assert.ok(net <= bound, `granted ${net} of ${bound} millitokens`);
    }
  }

  #dripped(atMs: number): bigint {
    const unitsPerMs = (BigInt(this.terms.refillAmountMilli) * this.#unitsPerMilli) / BigInt(this.terms.refillPeriodMs);
    return this.#before + unitsPerMs * BigInt(Math.max(0, atMs - this.#sinceMs));
  }
}

test("no run of takes, debits, give-backs, rebases and changed limits grants more than capacity and refill, whatever the clocks", () => {
  const kinds = ["take", "take", "take", "debit", "credit", "change", "staleChange"] as const;
  let taken = 0;
  fc.assert(
    fc.property(allLimits, calls(kinds, eitherWay), (first, story) => {
      const units = unitsOf([first, ...story.map((call) => call.set)]);
      const histories = new Map<string, History>();
      let state = bringLimits(undefined, first, stored(0), T0);
      for (const [name, terms] of termsByName(first)) histories.set(name, new History(terms, T0, units));
      let nowMs = T0;
      let generation = 0;
      for (const call of story) {
        nowMs += call.jumpMs;
        if (call.kind === "change" || call.kind === "staleChange") {
          const stale = call.kind === "staleChange";
          const before = state;
          state = bringLimits(state, call.set, stored(stale ? generation - 1 : ++generation), nowMs);
          for (const [name, terms] of termsByName(call.set)) {
            const known = histories.get(name);
            if (known === undefined) histories.set(name, new History(terms, state.epochMs, units));
            else if (!stale) known.change(terms, state.epochMs);
          }
          for (const [name, { terms }] of histories) {
            if (findLimit(state, name) !== undefined) continue;
            // A limit that was removed while it was full is forgotten, and starts full like one that never was.
            assert.equal(milli(before, name, state.epochMs), terms.capacityMilli, `${name} was forgotten too early`);
            histories.delete(name);
          }
          continue;
        }
        const termsNow = new Map([...histories].map(([name, { terms }]) => [name, terms]));
        const amounts = call.greedy && call.kind === "take" ? allThereIs(state, nowMs) : amountsOf(call, termsNow);
        const after = apply(state, call.kind, amounts, nowMs);
        if (after === undefined) continue;
        state = after;
        if (call.kind === "take") taken++;
        for (const { limit, milli } of amounts) {
          // A reading before the epoch counts as the epoch.
          if (call.kind !== "look") histories.get(limit)?.write(call.kind, milli, Math.max(nowMs, state.epochMs));
        }
      }
    }),
    { numRuns: runs(1500) },
  );

  assert.ok(taken > runs(3_000), `only ${taken} takes succeeded: the histories are too poor to show anything`);
});

function allThereIs(state: BucketState, nowMs: number): Amount[] {
  const all = state.limits.map(({ name }) => ({ limit: name, milli: milli(state, name, nowMs) }));
  return all.filter((amount) => amount.milli > 0);
}

function apply(
  state: BucketState,
  kind: Call["kind"],
  amounts: readonly Amount[],
  nowMs: number,
): BucketState | undefined {
  if (kind === "take") return takeFrom(asOf(state, nowMs), amounts, nowMs);
  if (kind === "credit") return giveBack(state, amounts, PLAIN_TICKET, nowMs);
  if (kind !== "debit") return state;
  try {
    return debitFrom(asOf(state, nowMs), amounts, nowMs);
  } catch (error) {
    // The largest limits reach the deepest debt there may be.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

test("rebases that another limit causes change nothing, not by a millitoken, for any mix of limits that share an epoch", () => {
  const kinds = ["take", "take", "debit", "credit", "look"] as const;
  let apart = 0;
  fc.assert(
    fc.property(allLimits, calls(kinds, forward), fc.infiniteStream(fc.boolean()), (set, story, disturb) => {
      let calm = bringLimits(undefined, set, stored(0), T0);
      let disturbed = calm;
      let nowMs = T0;
      for (const [i, call] of story.entries()) {
        nowMs += call.jumpMs;
        if (disturb.next().value) {
          const beside = Limit.perSecond("beside", 1 + (i % 5));
          disturbed = bringLimits(disturbed, limitSet([...set.limits, beside]), stored(i), nowMs);
        }
        const amounts = amountsOf(call, termsByName(set));
        const [next, nextDisturbed] = [calm, disturbed].map((state) => apply(state, call.kind, amounts, nowMs));
        assert.equal(next === undefined, nextDisturbed === undefined, `call ${i}: granted by one of them only`);
        calm = next ?? calm;
        disturbed = nextDisturbed ?? disturbed;
        if (calm.epochMs !== disturbed.epochMs) apart++;
        for (const name of NAMES)
          assert.equal(milli(disturbed, name, nowMs), milli(calm, name, nowMs), `${name}, call ${i}`);
      }
    }),
    { numRuns: runs(600) },
  );
  assert.ok(apart > runs(500), "the two buckets hardly ever had different epochs");
});

test("the level stays within one millitoken of a bucket that never rounds, also when the limits change", () => {
  const kinds = ["take", "take", "debit", "credit", "change", "look"] as const;
  fc.assert(
    fc.property(allLimits, calls(kinds, forward), (first, story) => {
      const units = unitsOf([first, ...story.map((call) => call.set)]);
      const exact = new Map([...termsByName(first)].map(([name, terms]) => [name, new ExactBucket(terms, units, T0)]));
      let termsNow = termsByName(first);
      let state = bringLimits(undefined, first, stored(0), T0);
      let nowMs = T0;
      for (const [i, call] of story.entries()) {
        nowMs += call.jumpMs;
        for (const bucket of exact.values()) bucket.advance(nowMs);
        if (call.kind === "change") {
          const limits = first.limits.map((limit) => call.set.limits.find(({ name }) => name === limit.name) ?? limit);
          state = bringLimits(state, limitSet(limits), stored(i + 1), nowMs);
          termsNow = termsByName(limitSet(limits));
          for (const [name, terms] of termsNow) exact.get(name)?.change(terms);
        }
        const amounts = amountsOf(call, termsNow);
        const after = call.kind === "change" ? undefined : apply(state, call.kind, amounts, nowMs);
        if (after !== undefined) {
          state = after;
          for (const { limit, milli } of amounts) {
            if (call.kind !== "look") exact.get(limit)?.add(call.kind === "credit" ? milli : 0 - milli);
          }
        }
        for (const [name, bucket] of exact) {
          const apart = BigInt(milli(state, name, nowMs)) - bucket.floorMilli();
          assert.ok(apart >= -1n && apart <= 1n, `${name} is ${apart} millitokens off after call ${i}`);
        }
      }
    }),
    { numRuns: runs(800) },
  );
});

/** A bucket with a past, and the time of its last reading. */
const livedIn = fc.tuple(allLimits, calls(["take", "take", "debit", "credit"], eitherWay)).map(([set, story]) => {
  let state = bringLimits(undefined, set, stored(0), T0);
  let nowMs = T0;
  for (const call of story) {
    nowMs += call.jumpMs;
    state = apply(state, call.kind, amountsOf(call, termsByName(set)), nowMs) ?? state;
  }
  return { set, state, nowMs };
});

test("nothing is ever available above the capacity, nothing is lost by waiting, nothing is won by going back in time", () => {
  fc.assert(
    fc.property(livedIn, forward, forward, fc.boolean(), ({ set, state, nowMs }, backMs, aheadMs, debits) => {
      const earlier = nowMs - backMs;
      // Someone with a slow clock looks in, or debits nothing, which cuts the overflow off as he sees it.
      const visited = debits
        ? debitFrom(
            asOf(state, earlier),
            [...NAMES].map((limit) => ({ limit, milli: 0 })),
            earlier,
          )
        : state;
      for (const [name, terms] of termsByName(set)) {
        const levels = [earlier, nowMs, nowMs + aheadMs].map((atMs) => milli(state, name, atMs));
        assert.deepEqual(
          levels,
          levels.toSorted((a, b) => a - b),
        );
        assert.ok((levels[2] as number) <= terms.capacityMilli);
        assert.deepEqual(
          [earlier, nowMs, nowMs + aheadMs].map((atMs) => milli(visited as BucketState, name, atMs)),
          levels,
        );
      }
    }),
    { numRuns: runs(600) },
  );
});

test("the earliest instant is the first millisecond at which the take succeeds, and Infinity above the capacity", () => {
  const moments = fc.record({ parts: fc.integer({ min: 0, max: 1000 }), offsetMs: eitherWay });
  fc.assert(
    fc.property(livedIn, moments, ({ set, state, nowMs }, { parts, offsetMs }) => {
      const fromMs = nowMs + offsetMs;
      for (const [name, terms] of termsByName(set)) {
        const limit = findLimit(state, name);
        assert.ok(limit !== undefined);
        const wanted = { limit: name, milli: thousandths(terms.capacityMilli, parts) };
        const { atMs, found } = searchFor(limit, state.epochMs, wanted.milli, fromMs, calendar);
        const neverMs = searchFor(limit, state.epochMs, terms.capacityMilli + 1, fromMs, calendar).atMs;
        assert.equal(neverMs, Number.POSITIVE_INFINITY);
        assert.ok(atMs < Number.POSITIVE_INFINITY, `${name} is said never to be granted`);
        // Some 285,000 years ahead: then it is when to ask again, and not later.
        if (!found) assert.equal(takeFrom(asOf(state, atMs), [wanted], atMs), undefined);
        if (!found || !Number.isSafeInteger(atMs)) continue;
        assert.ok(takeFrom(asOf(state, atMs), [wanted], atMs) !== undefined, `${name}: refused at ${atMs}`);
        assert.ok(atMs >= fromMs);
        if (atMs > fromMs)
          assert.equal(
            takeFrom(asOf(state, atMs - 1), [wanted], atMs - 1),
            undefined,
            `${name}: granted before ${atMs}`,
          );
      }
    }),
    { numRuns: runs(800) },
  );
});

function milli(state: BucketState, name: string, atMs: number): number {
  const limit = findLimit(state, name);
  assert.ok(limit !== undefined, `the bucket has no limit ${name}`);
  return availableMilli(state, limit, atMs);
}
