import assert from "node:assert/strict";
import { test } from "node:test";
import { checkWrite, outcomeOf } from "../../../test/kit/conditional-write.ts";
import { ENV, imageOf, itemOf, KEY, tokensOn, withTokens } from "../../../test/protocol/kit.ts";
import { DEBT_MAX_MILLI } from "../../bucket/balance.ts";
import { freshBucket } from "../../domain/bucket/bucket-state.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Item } from "../../ports/item-store.ts";
import { createForm, formFor } from "./forms.ts";
import { blankIntent, type Intent, NO_USAGE } from "./intent.ts";

const T0 = Date.UTC(2026, 0, 1, 12);
const set = limitSet([{ name: "rpm", capacity: 100, refillAmount: 100, refillPeriodMs: 60_000, soft: true }]);
const origin = { asOfMs: T0 - 1_000, generation: null };
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

function taking(milli: number, readingMs: number): Intent {
  const amounts = [{ limit: "rpm", milli }];
  return {
    ...blankIntent(readingMs),
    moves: [{ limit: "rpm", milli, whenShort: "refuse" }],
    usage: { ...NO_USAGE, requests: 1, counters: amounts },
    parts: [{ of: {}, kind: "take", amounts }],
  };
}

function holding(tokensMilli: number): Item {
  return itemOf(withTokens(freshBucket(set, origin, T0, ENV.calendar), "rpm", tokensMilli));
}

// 100 drip in a minute, 6,000 in an hour; each take is of one token more than the debt has room for.
const forms = [
  { form: "take", afterMs: MINUTE_MS, drippedMilli: 100_000, storedMilli: 0 },
  { form: "rebase", afterMs: HOUR_MS, drippedMilli: 6_000_000, storedMilli: 6_000_000 },
] as const;

for (const { form, afterMs, drippedMilli, storedMilli } of forms) {
  test(`a soft limit that owes as much as can be measured is left as it is by a ${form}, which is counted all the same`, () => {
    const item = holding(1_000 - DEBT_MAX_MILLI);
    const step = formFor(imageOf(item), taking(drippedMilli + 2_000, T0 + afterMs), ENV);
    assert.ok(step.kind === "write");
    assert.equal(step.write.trace?.form, form);
    checkWrite(step.write);
    const { after } = outcomeOf(step.write, item);
    assert.equal(tokensOn(after as Item, "rpm"), 1_000 - DEBT_MAX_MILLI + storedMilli);
    assert.deepEqual([after?.b_rpm_tc, after?.b_rpm_od, after?.b_rq], [drippedMilli + 2_000, 1_000, 1]);
    // Some of the debt was paid meanwhile: now it has room for the take.
    assert.equal(outcomeOf(step.write, holding(2_000 - DEBT_MAX_MILLI)).kind, "failed");
  });
}

test("a new bucket from which more is taken than can be owed is made full, and the take is counted", () => {
  const milli = DEBT_MAX_MILLI + 100_001;
  const step = createForm(KEY, { set, origin }, taking(milli, T0), ENV);
  assert.ok(step.kind === "write");
  const { b_rpm_tk, b_rpm_tc, b_rpm_od } = step.write.set;
  assert.deepEqual([b_rpm_tk, b_rpm_tc, b_rpm_od], [100_000, milli, undefined]);
});
