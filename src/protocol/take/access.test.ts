import assert from "node:assert/strict";
import { test } from "node:test";
import { outcomeOf } from "../../../test/kit/conditional-write.ts";
import { ENV, imageOf, itemOf, KEY } from "../../../test/protocol/kit.ts";
import { freshBucket } from "../../domain/bucket/bucket-state.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Claim } from "../../ports/bucket-store.ts";
import type { Item } from "../../ports/item-store.ts";
import { createForm, formFor } from "./forms.ts";
import { installLimitsIntent, intentOf, jobOfClaim } from "./job.ts";

// The mark of a switch (`disabled`) on an item goes when a process has read that nothing is off, and stays for every other process.

const T0 = Date.UTC(2026, 0, 1, 12);
const set = limitSet([{ name: "rpm", capacity: 100, refillAmount: 100, refillPeriodMs: 60_000 }]);
const origin = { asOfMs: T0 - 1_000, generation: null, reading: 7 };
const OFF: Item = { ...itemOf(freshBucket(set, origin, T0, ENV.calendar)), disabled: true };

function jobFor(more: Partial<Claim> = {}) {
  const take = [{ limit: "rpm", milli: 1_000 }];
  return jobOfClaim({ bucket: KEY.bucket, set, origin, take, bypass: false, ...more }, T0 + 1);
}

function intentFor(configConfirmed: boolean, more?: Partial<Claim>) {
  const options = { readingMs: T0 + 1, nonce: undefined, birth: undefined, guesses: undefined, sheeted: undefined };
  return intentOf([jobFor(more)], { ...options, configConfirmed, ignoreImageShortage: false });
}

function applied(item: Item, ...[intent]: [ReturnType<typeof intentFor>]) {
  const step = formFor(imageOf(item), intent, ENV);
  assert.ok(step.kind === "write");
  return { form: step.write.trace?.form, ...outcomeOf(step.write, item) };
}

test("a take by configuration that was not read since fails where the level is off", () => {
  assert.equal(applied(OFF, intentFor(false)).kind, "failed");
  assert.equal(applied(OFF, intentFor(false, { isOff: true })).kind, "failed");
});

test("a take by configuration that says that nothing is off removes what the item says", () => {
  const { form, kind, after } = applied(OFF, intentFor(true));
  assert.deepEqual([form, kind, after?.disabled], ["rebase", "applied", undefined]);
});

test("a take of who is exempt leaves it, and needs no other form of write than before", () => {
  const { form, kind, after } = applied(OFF, intentFor(true, { isOff: true }));
  assert.deepEqual([form, kind, after?.disabled], ["take", "applied", true]);
});

test("who is exempt takes nothing where the level was switched on meanwhile, and reads configuration again", () => {
  const step = formFor(imageOf(OFF), intentFor(true, { isOff: true }), ENV);
  const { disabled: _, ...on } = OFF;
  assert.ok(step.kind === "write");
  assert.equal(outcomeOf(step.write, on).kind, "failed");
});

test("limits that are brought to a bucket change nothing of what it says of switches", () => {
  const newer = limitSet([{ name: "rpm", capacity: 200, refillAmount: 200, refillPeriodMs: 60_000 }]);
  const job = jobFor({ set: newer, origin: { ...origin, asOfMs: T0 }, take: [] });
  const how = { readingMs: T0 + 1, nonce: undefined, configConfirmed: true, sheeted: undefined };
  const { form, kind, after } = applied(OFF, installLimitsIntent(job, how));
  assert.deepEqual([form, kind, after?.disabled, after?.b_rpm_cp], ["rebase", "applied", true, 200_000]);
});

test("a bucket that is made by who is exempt says that its level is off", () => {
  for (const [isOff, disabled] of [
    [true, true],
    [false, undefined],
  ] as const) {
    const step = createForm(KEY, { set, origin }, intentFor(true, { isOff }), ENV);
    assert.ok(step.kind === "write");
    assert.equal(step.write.set.disabled, disabled);
  }
});
