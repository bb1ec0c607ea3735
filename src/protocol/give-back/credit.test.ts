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
} from "../../../test/protocol/kit.ts";
import { resetLimits } from "../../domain/bucket/bucket-operations.ts";
import {
  acrossBoundaries,
  advanced,
  type BucketState,
  bucketFor,
  findLimit,
  takeFrom,
} from "../../domain/bucket/bucket-state.ts";
import { giveBack, ticketOf } from "../../domain/bucket/give-back.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Item } from "../../ports/item-store.ts";
import { creditForm, type GiveBack } from "./credit.ts";

interface Case {
  /** The state when something was taken; by now others wrote, time passed, limits changed. */
  readonly then: BucketState;
  readonly now: BucketState;
  readonly sees: "nothing" | "then" | "now";
  readonly back: GiveBack;
}

const anyCase: fc.Arbitrary<Case> = anyScene(3).chain((scene) => {
  const each = <Value>(one: fc.Arbitrary<Value>) =>
    fc.array(one, { minLength: scene.set.limits.length, maxLength: scene.set.limits.length });
  return fc
    .record({
      others: each(fc.integer({ min: -1_000, max: 1_000 })),
      gives: each(fc.option(fc.integer({ min: 0, max: 900 }), { nil: undefined })),
      fate: fc.constantFrom("same", "same", "rebase", "reset", "changed", "changedAndBack"),
      change: anyChange(scene),
      passedMs: anyElapsed,
      elapsedMs: anyElapsed,
      sees: fc.constantFrom("nothing", "then", "now"),
    })
    .map(({ others, gives, fate, change, passedMs, elapsedMs, sees }): Case => {
      const then = scene.state;
      const { epochMs } = then;
      const atMs = epochMs + Math.max(1, passedMs);
      let now: BucketState = {
        ...then,
        limits: then.limits.map((held, i) => {
          const moved = isClosed(held) ? 0 : Math.floor((held.terms.capacityMilli * (others[i] ?? 0)) / 1000);
          return { ...held, tokensMilli: held.tokensMilli + moved };
        }),
      };
      if (fate === "rebase") now = advanced(now, atMs, calendar);
      if (fate === "reset")
        now = advanced(resetLimits(advanced(now, atMs, calendar), undefined, atMs, calendar), atMs + 1, calendar);
      if (fate === "changed" || fate === "changedAndBack") {
        now = advanced(bucketFor(now, change, atMs, calendar), atMs + 1, calendar);
      }
      if (fate === "changedAndBack") {
        const origin = { asOfMs: change.origin.asOfMs + 9_000, generation: null };
        now = advanced(bucketFor(now, { set: scene.set, origin }, atMs + 2, calendar), atMs + 3, calendar);
      }
      // A take from a session opens it.
      const open = then.limits.map((held, i) => ({ ...held, gives: isClosed(held) ? undefined : gives[i] }));
      const amounts = open.flatMap(({ name, terms, gives: part }) =>
        part === undefined ? [] : [{ limit: name, milli: Math.floor((terms.capacityMilli * part) / 1000) }],
      );
      const readingMs = epochMs + elapsedMs;
      // In the words of the table: where they are not those of the limits, see the quota that is full on Sundays.
      const ticket = ticketOf(imageOf(itemOf(then)).state, amounts, epochMs, calendar);
      return {
        then,
        now: imageOf(itemOf(now)).state,
        sees: sees as Case["sees"],
        back: { readingMs, amounts, ticket, ...PLAIN_BACK },
      };
    });
});

const PLAIN_BACK = {
  ...{ bounded: [], parts: [], bypass: false, requests: 0, overdrafts: [], wouldRefuse: [], opened: [] },
  ...{ sheeted: undefined, slotsUsed: false, countsTime: true },
};

function put({ then, now, sees, back }: Case) {
  const item: Item = itemOf(now);
  const image = sees === "nothing" ? undefined : imageOf(sees === "then" ? itemOf(then) : item);
  const write = creditForm(KEY, image, back, ENV);
  checkWrite(write);
  const outcome = outcomeOf(write, item);
  return { item, outcome };
}

/** Returns the state that the domain makes of it. */
function expectedOf({ now, back }: Case): BucketState {
  const { readingMs, amounts, ticket } = back;
  return giveBack(acrossBoundaries(now, readingMs, calendar), amounts, ticket, readingMs);
}

test("what comes back is what the domain gives back: never into another period, whatever happened since", () => {
  fc.assert(
    fc.property(anyCase, (given) => {
      const { outcome } = put(given);
      if (given.sees === "now")
        assert.equal(outcome.kind, "applied", "it does not fit the very image it was made from");
      if (outcome.kind === "failed") return;
      const result = imageOf(outcome.after as Item).state;
      const expected = expectedOf(given);
      for (const held of expected.limits) {
        const is = findLimit(result, held.name);
        assert.ok(is !== undefined, `${held.name} was forgotten`);
        const fromMs = Math.max(given.back.readingMs, result.epochMs, expected.epochMs);
        for (const laterMs of [0, 5_555, 3_600_000]) {
          const thenMs = Math.min(fromMs + laterMs, result.validUntilMs - 1, expected.validUntilMs - 1);
          const period = BigInt(is.terms.refillPeriodMs);
          const more = fineLevel(is, thenMs - result.epochMs) - fineLevel(held, thenMs - expected.epochMs);
          assert.ok(more <= period, `${held.name} holds ${more} / ${period} millitokens too many`);
          if (given.sees === "now") assert.ok(more >= -period, `${held.name} lacks ${-more} / ${period} millitokens`);
        }
      }
    }),
    { numRuns: runs(400) },
  );
});

test("what comes back is usage taken back, and one write that nobody requested", () => {
  fc.assert(
    fc.property(anyCase, (given) => {
      const { item, outcome } = put({ ...given, sees: "now" });
      const after = outcome.after as Item;
      for (const { limit, milli } of given.back.amounts) {
        if (findLimit(given.now, limit) === undefined) continue;
        assert.equal(Number(item[`b_${limit}_tc`]) - Number(after[`b_${limit}_tc`]), milli);
      }
      assert.equal(Number(after.b_wcu_tc) - Number(item.b_wcu_tc), 1_000);
      assert.equal(after.b_rq, item.b_rq);
      assert.ok(Number(after.rf) >= Number(item.rf));
    }),
    { numRuns: runs(100) },
  );
});

test("what was taken from a quota that is full on Sundays comes back, whether that is day 0 or day 7", () => {
  const week = limitMakers(calendar).quota("week", 10, { reset: { cron: "0 0 * * 0", tz: "UTC" } });
  const origin = { asOfMs: 0, generation: null };
  const full = bucketFor(undefined, { set: limitSet([week]), origin }, 0, calendar);
  const amounts = [{ limit: "week", milli: 4_000 }];
  const state = takeFrom(full, amounts, 0) as BucketState;
  const back = { readingMs: 1, amounts, ticket: ticketOf(state, amounts, 0, calendar), ...PLAIN_BACK };
  // A process reads it that has forgotten in which words the limit was given.
  const item = itemOf(state);
  const outcome = outcomeOf(creditForm(KEY, imageOf(item), back, ENV), item);
  assert.equal(outcome.after?.b_week_tk, 10_000);
});

test("nothing, taken from a session that has not begun, can be given back by a process that has forgotten the bucket", () => {
  const five = limitMakers(calendar).quota("five", 10, { resetAfterMs: 18_000_000 });
  const origin = { asOfMs: 0, generation: null };
  const state = bucketFor(undefined, { set: limitSet([five]), origin }, 0, calendar);
  const amounts = [{ limit: "five", milli: 0 }];
  const back = { readingMs: 1, amounts, ticket: ticketOf(state, amounts, 0, calendar), ...PLAIN_BACK };
  checkWrite(creditForm(KEY, undefined, back, ENV));
});

test("a give-back makes no bucket, and no limit that the bucket lacks", () => {
  fc.assert(
    fc.property(anyCase, ({ then, back }) => {
      const [first] = back.amounts;
      if (first === undefined) return;
      const write = creditForm(KEY, undefined, back, ENV);
      assert.equal(outcomeOf(write, undefined).kind, "failed");
      const { [`b_${first.limit}_tk`]: _, ...lacking } = itemOf(then);
      assert.equal(outcomeOf(write, lacking).kind, "failed");
    }),
    { numRuns: runs(50) },
  );
});
