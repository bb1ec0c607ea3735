import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  acrossBoundaries,
  availableMilli,
  type BucketState,
  bucketFor,
  debitFrom,
  findLimit,
  takeFrom,
} from "../../src/domain/bucket/bucket-state.ts";
import { giveBack, PLAIN_TICKET, type Ticket, ticketOf } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import { at, calendar } from "./calendar-kit.ts";

// Begin here: what time, takes, debits and give-backs do to the four kinds of limits, each number asked of src/domain.

const Limits = limitMakers(calendar);
const LIMITS = [
  Limits.perMinute("drip", 60),
  Limits.quota("quota", 100, { reset: "daily" }),
  Limits.quota("session", 100, { resetAfterMs: 3 * 3_600_000 }),
  Limits.perMinute("schedule", 60, { schedule: [{ cron: "* 22-23,0-5 * * *", scale: 2 }] }),
];

/** The same table is in docs/reference/arithmetic.md. Each request is for so many tokens of every limit. */
const TABLE = `
| instant | what happens | drip | quota | session | schedule | why |
| --- | --- | --- | --- | --- | --- | --- |
| 15th 21:00:05 | takes 40 | 20 | 60 | 60 | 20 | all begin full; the session's 3 hours begin with this take |
| 15th 21:00:15 | asks for 50: refused | 30 | 60 | 60 | 30 | 10 s drip in 10; two limits have less than 50, so nothing is taken of any |
| 15th 21:00:25 | takes 40 | 0 | 20 | 20 | 0 | 40 were there |
| 15th 21:00:30 | is charged 15 more | -10 | 5 | 5 | -10 | the work is done, so a lease may charge more than there is: a debt |
| 15th 21:00:45 | gives back 10 | 15 | 15 | 15 | 15 | 15 s pay the debt of 10 and add 5; then 10 come back to each |
| 15th 22:00:15 | nothing | 60 | 15 | 15 | 90 | both were full at 60; the window opened at 22:00, and 2 a second drip in since; quotas do not drip |
| 15th 23:59:55 | nothing | 60 | 15 | 15 | 120 | full in the window |
| 16th 00:00:00 | nothing | 60 | 100 | 15 | 120 | the day is over: the quota is full again |
| 16th 00:00:05 | nothing | 60 | 100 | 100 | 120 | 3 hours after its first take the session is over: full, and closed until the next take |
| 16th 06:00:00 | nothing | 60 | 100 | 100 | 60 | the window is over: what stands above 60 is cut off |
`;

/** What becomes of the bucket when so many tokens of each limit are wanted. */
const ACTIONS: readonly (readonly [RegExp, Action])[] = [
  [
    /^takes (\d+)$/,
    ({ state, ticket: before }, amounts, nowMs) => {
      const after = takeFrom(state, amounts, nowMs);
      assert.ok(after !== undefined, "it was refused");
      return { state: after, ticket: before ?? ticketOf(after, amounts, nowMs, calendar) };
    },
  ],
  [
    /^asks for (\d+): refused$/,
    (held, amounts, nowMs) => {
      assert.equal(takeFrom(held.state, amounts, nowMs), undefined);
      return held;
    },
  ],
  [
    /^is charged (\d+) more$/,
    ({ state, ticket }, amounts, nowMs) => {
      const after = debitFrom(state, amounts, nowMs);
      assert.ok(after !== undefined, "it was refused");
      return { state: after, ticket };
    },
  ],
  [
    /^gives back (\d+)$/,
    ({ state, ticket = PLAIN_TICKET }, amounts, nowMs) => ({
      state: giveBack(acrossBoundaries(state, nowMs, calendar), amounts, ticket, nowMs),
      ticket,
    }),
  ],
  [/^nothing$/, (held) => held],
];

/** A bucket, and the ticket of its first take. */
interface Bucket {
  readonly state: BucketState;
  readonly ticket: Ticket | undefined;
}

type Action = (bucket: Bucket, amounts: readonly Amount[], nowMs: number) => Bucket;

const rows = TABLE.trim()
  .split("\n")
  .slice(2)
  .map((line) => line.split("|").map((cell) => cell.trim()));

test("a drip, a quota, a session and a schedule through ten instants", () => {
  assert.equal(rows.length, 10);
  const claim = { set: limitSet(LIMITS), origin: { asOfMs: 0, generation: 1 } };
  let bucket: { state: BucketState | undefined; ticket: Ticket | undefined } = { state: undefined, ticket: undefined };
  for (const [, instant = "", happens = "", ...cells] of rows) {
    const nowMs = at(`2026-03-${instant.replace("th ", "T")}Z`);
    const state = bucketFor(bucket.state, claim, nowMs, calendar);
    const [pattern, act] = ACTIONS.find(([one]) => one.test(happens)) ?? assert.fail(`nothing is known of: ${happens}`);
    const milli = Number(pattern.exec(happens)?.[1] ?? 0) * 1000;
    const after = act(
      { state, ticket: bucket.ticket },
      LIMITS.map(({ name }) => ({ limit: name, milli })),
      nowMs,
    );
    const held = LIMITS.map(({ name }) => {
      const limit = findLimit(after.state, name) ?? assert.fail(name);
      return availableMilli(after.state, limit, nowMs);
    });
    assert.deepEqual(
      held,
      cells.slice(0, LIMITS.length).map((cell) => Number(cell) * 1000),
      `${instant}: ${happens}`,
    );
    bucket = after;
  }
});

test("docs/reference/arithmetic.md shows the same ten instants", () => {
  const page = readFileSync(new URL("../../docs/reference/arithmetic.md", import.meta.url), "utf8");
  assert.ok(page.includes(TABLE), "the table of test/limits/ten-instants.test.ts is not the one in the page");
});
