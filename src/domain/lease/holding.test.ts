import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { byPeriod, joinedTicket, type PeriodPin, PLAIN_TICKET, type Ticket } from "../bucket/give-back.ts";
import type { Amount } from "../charge/amounts.ts";
import { type Holding, returnsOf, without, withTaken } from "./holding.ts";

const LIMITS = ["drip", "hour", "day", "session"] as const;

/** The ticket of a take of some limits in the periods of an hour. */
function ticketAt(hour: number, limits: readonly string[]): Ticket {
  const day = Math.floor(hour / 24);
  const pins = limits.flatMap((limit): PeriodPin[] => {
    const rest = { limit, reset: undefined, windowStartMs: undefined, resets: 0 };
    if (limit === "hour") return [{ ...rest, untilMs: hour + 1 }];
    if (limit === "day") return [{ ...rest, untilMs: (day + 1) * 24 }];
    if (limit === "session")
      return [{ ...rest, untilMs: Number.POSITIVE_INFINITY, windowStartMs: Math.floor(hour / 5) }];
    return [];
  });
  return pins.length === 0 ? PLAIN_TICKET : { ...PLAIN_TICKET, pins };
}

const anyTake = fc.record({
  hour: fc.nat(100),
  limits: fc.subarray([...LIMITS], { minLength: 1 }),
  milli: fc.integer({ min: 0, max: 9 }),
});

function sums(holdings: readonly Holding[]): Record<string, number> {
  const all: Record<string, number> = {};
  for (const { held } of holdings) for (const { limit, milli } of held) all[limit] = (all[limit] ?? 0) + milli;
  return all;
}

/** What is held of a limit in the period of an hour. */
function ofPeriod(holdings: readonly Holding[], limit: string, pin: PeriodPin | undefined): number {
  return holdings.reduce((sum, { ticket, held }) => {
    const own = ticket.pins.find((one) => one.limit === limit);
    const isSame = JSON.stringify(own) === JSON.stringify(pin);
    return sum + (isSame ? (held.find((one) => one.limit === limit)?.milli ?? 0) : 0);
  }, 0);
}

test("however often a lease takes, it has two holdings a bucket at most, and what is of the present period stays so", () => {
  fc.assert(
    fc.property(fc.array(anyTake, { maxLength: 60 }), (takes) => {
      let holdings: readonly Holding[] = [];
      const due: Record<string, number> = {};
      const latest = new Map<string, { readonly pin: PeriodPin | undefined; milli: number }>();
      for (const { hour, limits, milli } of takes.toSorted((a, b) => a.hour - b.hour)) {
        const ticket = ticketAt(hour, limits);
        holdings = withTaken(
          holdings,
          limits.map((limit) => ({ limit, milli })),
          ticket,
        );
        for (const limit of limits) {
          due[limit] = (due[limit] ?? 0) + milli;
          const pin = ticket.pins.find((one) => one.limit === limit);
          const before = latest.get(limit);
          const isSame = before !== undefined && JSON.stringify(before.pin) === JSON.stringify(pin);
          latest.set(limit, { pin, milli: (isSame ? before.milli : 0) + milli });
        }
      }
      assert.deepEqual(sums(holdings), due);
      assert.ok(holdings.length <= 2, `${holdings.length} holdings`);
      for (const [limit, { pin, milli }] of latest) assert.equal(ofPeriod(holdings, limit, pin), milli, limit);
    }),
  );
});

test("a lease whose limits only drip has one holding, with the plain ticket", () => {
  let holdings: readonly Holding[] = [];
  for (let i = 0; i < 1_000; i++) holdings = withTaken(holdings, [{ limit: "tpm", milli: 5 }], PLAIN_TICKET);
  assert.deepEqual(holdings, [{ ticket: PLAIN_TICKET, held: [{ limit: "tpm", milli: 5_000 }] }]);
  assert.equal(holdings[0]?.ticket, PLAIN_TICKET);
});

test("what is released comes off the latest period first, never more than is held, and the rest stays held", () => {
  fc.assert(
    fc.property(fc.array(anyTake, { minLength: 1, maxLength: 20 }), fc.nat(60), (takes, wanted) => {
      let holdings: readonly Holding[] = [];
      for (const { hour, limits, milli } of takes.toSorted((a, b) => a.hour - b.hour)) {
        const amounts = limits.map((limit) => ({ limit, milli }));
        holdings = withTaken(holdings, amounts, ticketAt(hour, limits));
      }
      const before = sums(holdings);
      const asked = LIMITS.map((limit): Amount => ({ limit, milli: wanted }));
      const returns = returnsOf(holdings, asked);
      const given = sums(returns);
      const after = without(holdings, returns);
      for (const limit of LIMITS) {
        assert.equal(given[limit] ?? 0, Math.min(wanted, before[limit] ?? 0));
        assert.equal((sums(after)[limit] ?? 0) + (given[limit] ?? 0), before[limit] ?? 0);
      }
      for (const { held } of after) for (const { milli } of held) assert.ok(milli >= 0);
    }),
  );
});

test("a take of several periods of one limit is held by period, and each gives back what it gave", () => {
  const pin = (resets: number): PeriodPin => ({
    ...{ limit: "month", reset: { cron: "0 0 1 * *" }, untilMs: 99, windowStartMs: undefined },
    resets,
  });
  const part = (resets: number, milli: number) => ({
    ticket: { ...PLAIN_TICKET, pins: [pin(resets)] },
    amounts: [{ limit: "month", milli }],
  });
  const same = joinedTicket([part(1, 50), part(1, 30)]);
  assert.deepEqual(same.pins, [pin(1)], "one period: nothing to tell apart");
  const ticket = joinedTicket([part(1, 50), part(2, 30), part(1, 5)]);
  assert.deepEqual(ticket.pins, [
    { ...pin(1), milli: 55 },
    { ...pin(2), milli: 30 },
  ]);
  const amounts = [
    { limit: "month", milli: 85 },
    { limit: "tpm", milli: 7 },
  ];
  assert.deepEqual(
    byPeriod(ticket, amounts).map((share) => [share.ticket.pins, share.amounts]),
    [
      [
        [pin(1)],
        [
          { limit: "month", milli: 55 },
          { limit: "tpm", milli: 7 },
        ],
      ],
      [[pin(2)], [{ limit: "month", milli: 30 }]],
    ],
  );
  const holdings = withTaken([], amounts, ticket);
  assert.deepEqual(sums(holdings), { month: 85, tpm: 7 });
  assert.equal(ofPeriod(holdings, "month", pin(1)), 55);
  assert.equal(ofPeriod(holdings, "month", pin(2)), 30);
});
