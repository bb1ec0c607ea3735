import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "../../../test/depth.ts";
import { checkWrite, outcomeOf } from "../../../test/kit/conditional-write.ts";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import {
  anyChange,
  anyElapsed,
  anyScene,
  ENV,
  fineLevel,
  imageOf,
  isClosed,
  itemOf,
  KEY,
  tokensOn,
} from "../../../test/protocol/kit.ts";
import { isIdle } from "../../domain/bucket/bucket-questions.ts";
import {
  advanced,
  availableMilli,
  type BucketState,
  bornAs,
  bucketFor,
  debitFrom,
  findLimit,
  takeFrom,
} from "../../domain/bucket/bucket-state.ts";
import type { LimitSet, SetOrigin } from "../../domain/limits/limit-set.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { birthOf, namesOf } from "../item/attributes.ts";
import { keptUntilFromS } from "./expiry.ts";
import { createForm, formFor } from "./forms.ts";
import { type Guess, type Intent, NO_USAGE } from "./intent.ts";

interface Case {
  /** The state that was seen; by now others took, or gave back. */
  readonly seen: BucketState;
  readonly actual: BucketState;
  readonly set: LimitSet;
  readonly install: { readonly set: LimitSet; readonly origin: SetOrigin } | undefined;
  readonly readingMs: number;
  readonly kind: "take" | "debit";
  readonly moves: readonly { readonly limit: string; readonly milli: number }[];
  readonly ttl: "none" | "enough" | "ample";
  readonly guesses: ReadonlyMap<string, Guess> | undefined;
}

const anyCase: fc.Arbitrary<Case> = anyScene(3).chain((scene) => {
  const each = <Value>(one: fc.Arbitrary<Value>) =>
    fc.array(one, { minLength: scene.set.limits.length, maxLength: scene.set.limits.length });
  return fc
    .record({
      elapsedMs: anyElapsed,
      install: fc.oneof(
        fc.constant(undefined),
        fc.constant({ set: scene.set, origin: scene.state.origin }),
        anyChange(scene),
      ),
      kind: fc.constantFrom("take", "take", "debit"),
      // Thousandths of the capacity: what others took or gave back meanwhile, and what is wanted now.
      others: each(fc.oneof(fc.constant(0), fc.integer({ min: -1_500, max: 1_500 }))),
      jitters: each(fc.integer({ min: -2, max: 2 })),
      wants: each(fc.option(fc.integer({ min: 0, max: 1_200 }), { nil: undefined })),
      ttl: fc.constantFrom("none", "enough", "ample"),
      guesses: each(fc.constantFrom("none", "none", "below", "over", "spare")),
    })
    .map(({ elapsedMs, install, kind, others, jitters, wants, ttl, guesses }): Case => {
      const { state, set } = scene;
      const part = (name: string, thousandths: number) =>
        Math.floor(((findLimit(state, name)?.terms.capacityMilli ?? 0) * thousandths) / 1000);
      const limits = state.limits.map((held, i) => {
        if (isClosed(held)) return held;
        const moved = part(held.name, others[i] ?? 0) + (others[i] === 0 ? 0 : (jitters[i] ?? 0));
        return { ...held, tokensMilli: held.tokensMilli + moved };
      });
      const moves = state.limits.flatMap(({ name }, i) =>
        wants[i] === undefined ? [] : [{ limit: name, milli: part(name, wants[i]) }],
      );
      const guessed = new Map<string, Guess>();
      for (const [i, { name }] of state.limits.entries()) {
        const guess = guesses[i];
        if (guess === undefined || guess === "none") continue;
        const spareMilli = guess === "spare" ? part(name, 60) : 0;
        guessed.set(name, { side: guess === "below" ? "below" : "over", spareMilli });
      }
      return {
        seen: state,
        actual: { ...state, limits },
        set,
        install,
        readingMs: state.epochMs + elapsedMs,
        kind: kind as "take" | "debit",
        moves,
        ttl: ttl as Case["ttl"],
        guesses: guessed.size === 0 ? undefined : guessed,
      };
    });
});

const NONCE = { name: "n3", value: 77 };

function intentOf({ readingMs, install, kind, moves, guesses }: Case, ignoreImageShortage: boolean): Intent {
  return {
    readingMs,
    install,
    configConfirmed: false,
    checksAccess: true,
    isOff: false,
    moves: moves.map((move) => ({ ...move, whenShort: kind === "take" ? "refuse" : "owe" })),
    usage: { ...NO_USAGE, requests: kind === "take" ? 1 : 0, counters: moves },
    parts: [],
    nonce: NONCE,
    birth: NONCE.value,
    ignoreImageShortage,
    guesses,
  };
}

/** The item of a state that lives as long as whoever wrote it had to see to, or has no end. */
function stored(state: BucketState, ttl: Case["ttl"], wrote: number): Item {
  const item: Record<string, ItemValue> = { ...itemOf(state), b_wcu_tc: wrote, n7: wrote };
  const low = state.limits.map((limit) => ({ limit, lowMilli: Math.min(0, limit.tokensMilli) }));
  const untilS = keptUntilFromS(low, state.epochMs, calendar);
  if (ttl === "none" || untilS === undefined) return item;
  return { ...item, ttl: ttl === "enough" ? untilS : untilS + 10 * 365 * 86_400 };
}

interface Applied {
  readonly before: Item;
  readonly after: Item;
  /** The state that the domain makes of the item as it was, at the epoch that the write has chosen. */
  readonly expected: BucketState;
  readonly result: BucketState;
  readonly atMs: number;
}

/** The form for the image, put to the item as it really is. */
function put(given: Case, ignoreImageShortage: boolean): Applied | "short" | "failed" {
  const { seen, actual, install, readingMs, kind, moves } = given;
  const before = stored(actual, given.ttl, 5_000);
  const step = formFor(imageOf(stored(seen, given.ttl, 1_000)), intentOf(given, ignoreImageShortage), ENV);
  if (step.kind === "short") return "short";
  checkWrite(step.write);
  const outcome = outcomeOf(step.write, before);
  if (outcome.kind === "failed") return "failed";
  const after = outcome.after as Item;
  const result = imageOf(after).state;
  const atMs = Math.max(readingMs, result.epochMs);
  const brought =
    install === undefined ? actual : bucketFor(actual, install, Math.max(readingMs, actual.epochMs), calendar);
  const told = advanced(brought, result.epochMs, calendar);
  const exact = kind === "take" ? takeFrom(told, moves, atMs) : debitFrom(told, moves, atMs);
  return { before, after, expected: (exact ?? debitFrom(told, moves, atMs)) as BucketState, result, atMs };
}

test("a form that is applied leaves every limit where the domain leaves it, whatever others did meanwhile", () => {
  fc.assert(
    fc.property(anyCase, fc.boolean(), (given, ignoreImageShortage) => {
      const put1 = put(given, ignoreImageShortage);
      if (typeof put1 === "string") return;
      const { expected, result, atMs } = put1;
      for (const held of expected.limits) {
        const is = findLimit(result, held.name);
        assert.ok(is !== undefined, `${held.name} was forgotten`);
        assert.deepEqual(is.terms, held.terms);
        assert.equal(is.configured, held.configured);
        const spare = given.guesses?.get(held.name)?.spareMilli ?? 0;
        for (const laterMs of [0, 1, 7_777, 3_600_000]) {
          const thenMs = Math.min(atMs + laterMs, result.validUntilMs - 1);
          const period = BigInt(held.terms.refillPeriodMs);
          const more = fineLevel(is, thenMs - result.epochMs) - fineLevel(held, thenMs - expected.epochMs);
          assert.ok(more <= period, `${held.name} holds ${more} / ${period} millitokens more than the domain says`);
          assert.ok(more >= -period * BigInt(1 + spare), `${held.name} lacks ${-more} / ${period} millitokens`);
        }
      }
    }),
    { numRuns: runs(500) },
  );
});

test("what must fit leaves no hard limit below zero", () => {
  fc.assert(
    fc.property(anyCase, fc.boolean(), (given, ignoreImageShortage) => {
      const done = put({ ...given, kind: "take" }, ignoreImageShortage);
      if (typeof done === "string") return;
      for (const { limit: name, milli } of given.moves) {
        const held = findLimit(done.result, name);
        if (held === undefined || held.limit.soft || milli === 0) continue;
        const left = availableMilli(done.result, held, done.atMs);
        assert.ok(left >= 0, `${name} holds ${left} after ${milli} were taken`);
      }
    }),
    { numRuns: runs(500) },
  );
});

test("by an image that is right, short means that the domain has too little, and all else is applied", () => {
  fc.assert(
    fc.property(anyCase, (drawn) => {
      const given: Case = { ...drawn, actual: drawn.seen, guesses: undefined };
      const { seen, install, readingMs, kind, moves } = given;
      const done = put(given, false);
      assert.notEqual(done, "failed", "the form does not fit the very image it was made from");
      if (done !== "short") return;
      assert.equal(kind, "take");
      const nowMs = Math.max(readingMs, seen.epochMs);
      const brought = install === undefined ? seen : bucketFor(seen, install, nowMs, calendar);
      assert.equal(takeFrom(advanced(brought, nowMs, calendar), moves, nowMs), undefined);
    }),
    { numRuns: runs(500) },
  );
});

test("the epoch never goes back, and what is told from it changes only when it moves", () => {
  fc.assert(
    fc.property(anyCase, fc.boolean(), (given, ignoreImageShortage) => {
      const done = put(given, ignoreImageShortage);
      if (typeof done === "string") return;
      const { before, after } = done;
      const epochs = [before.rf, after.rf] as [number, number];
      assert.ok(epochs[1] >= epochs[0]);
      if (epochs[1] > epochs[0]) return;
      for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
        if (/^(b_.*_(tk|tc)|b_rq|ttl|lw|n3)$/.test(name)) continue;
        assert.equal(after[name], before[name], `${name} changed under the same epoch`);
      }
      const moved = new Set(given.moves.map(({ limit }) => limit));
      for (const { name } of given.seen.limits) {
        if (!moved.has(name)) assert.equal(tokensOn(after, name), tokensOn(before, name), `${name} was not taken from`);
      }
    }),
    { numRuns: runs(500) },
  );
});

test("usage, requests, writes and the nonce are written with every form", () => {
  fc.assert(
    fc.property(anyCase, (given) => {
      const done = put(given, false);
      if (typeof done === "string") return;
      const { before, after, result } = done;
      const gained = (name: string) => Number(after[name] ?? 0) - Number(before[name] ?? 0);
      for (const { name } of result.limits) {
        const milli = given.moves.find(({ limit }) => limit === name)?.milli ?? 0;
        if (namesOf(name).tc in before) assert.equal(gained(namesOf(name).tc), milli);
      }
      assert.equal(gained("b_rq"), given.kind === "take" ? 1 : 0);
      assert.equal(gained("b_wcu_tc"), 1_000);
      assert.equal(after.n3, NONCE.value);
      assert.equal(after.n7, before.n7, "another process's nonce");
    }),
    { numRuns: runs(200) },
  );
});

test("a form that has been applied is not applied again", () => {
  fc.assert(
    fc.property(anyCase, (given) => {
      const item = stored(given.seen, given.ttl, 1_000);
      const step = formFor(imageOf(item), intentOf({ ...given, guesses: undefined }, false), ENV);
      if (step.kind === "short") return;
      const first = outcomeOf(step.write, item);
      assert.equal(outcomeOf(step.write, first.after).kind, "failed");
    }),
    { numRuns: runs(100) },
  );
});

test("an item does not expire before it has been full for an hour", () => {
  fc.assert(
    fc.property(anyCase, fc.boolean(), (given, ignoreImageShortage) => {
      const done = put(given, ignoreImageShortage);
      if (typeof done === "string" || done.after.ttl === undefined) return;
      // A limit with windows is full only in the largest, which may be over by then: see ttl.test.ts.
      if (done.result.limits.some(({ limit }) => limit.schedule !== undefined)) return;
      const untilMs = Number(done.after.ttl) * 1000;
      assert.ok(isIdle(done.result, 3_600_000, untilMs, calendar), `it expires at ${untilMs}`);
    }),
    { numRuns: runs(500) },
  );
});

test("a bucket that is made is full but for what was taken, and refuses what not even a full one has", () => {
  fc.assert(
    fc.property(anyCase, (given) => {
      const { set, readingMs, kind, moves, seen } = given;
      const origin = seen.origin;
      const intent = { ...intentOf(given, false), install: { set, origin } };
      const step = createForm(KEY, { set, origin }, intent, ENV);
      // Its quotas count their resets from the write's nonce.
      const fresh = bornAs(
        bucketFor(undefined, { set, origin }, readingMs, calendar),
        birthOf(intent.nonce?.value ?? 0),
      );
      const expected = kind === "take" ? takeFrom(fresh, moves, readingMs) : debitFrom(fresh, moves, readingMs);
      if (step.kind === "short") {
        assert.equal(expected, undefined);
        return;
      }
      assert.ok(expected !== undefined, "it was made although it has not enough");
      checkWrite(step.write);
      assert.equal(outcomeOf(step.write, {}).kind, "failed", "what is there is not replaced");
      const item = outcomeOf(step.write, undefined).after as Item;
      const { state } = imageOf(item);
      assert.deepEqual(
        state.limits.map(({ name, tokensMilli, terms, quota }) => [name, tokensMilli, terms, quota]),
        expected.limits.map(({ name, tokensMilli, terms, quota }) => [name, tokensMilli, terms, quota]),
      );
      assert.equal(state.epochMs, readingMs);
      assert.equal(state.validUntilMs, expected.validUntilMs);
      assert.equal(item.shard_count, 1);
      assert.equal(item.b_wcu_tc, 1_000);
      assert.equal(item.n3, NONCE.value);
      for (const { limit, milli } of moves) assert.equal(item[namesOf(limit).tc], milli);
      if (item.ttl === undefined || state.limits.some(({ limit }) => limit.schedule !== undefined)) return;
      assert.ok(isIdle(state, 3_600_000, Number(item.ttl) * 1000, calendar));
    }),
    { numRuns: runs(300) },
  );
});
