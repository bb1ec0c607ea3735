import assert from "node:assert/strict";
import { test } from "node:test";
import { joinedTicket, type PeriodPin, PLAIN_TICKET } from "../../domain/bucket/give-back.ts";
import { withTaken } from "../../domain/lease/holding.ts";
import type { TakenAnswer } from "../../ports/bucket-store.ts";
import { leaseParts, type Plan } from "./plan.ts";

test("resources that share one take of several periods give back, together, what each period gave", () => {
  const pin = (resets: number): PeriodPin => ({
    ...{ limit: "month", reset: { cron: "0 0 1 * *" }, untilMs: 99, windowStartMs: undefined },
    resets,
  });
  const part = (resets: number, milli: number) => ({
    ticket: { ...PLAIN_TICKET, pins: [pin(resets)] },
    amounts: [{ limit: "month", milli }],
  });
  const answer = { kind: "taken", shadowed: [], ticket: joinedTicket([part(1, 50), part(2, 35)]) };
  const demands = [60, 25].map((milli) => ({ bucket: { id: "total" }, take: [{ limit: "month", milli }] }));
  const plan = { request: { entityId: "a", resource: "r" }, demands, claims: [demands[0]], parts: [1], nowMs: 0 };
  const given: Record<number, number> = {};
  for (const { demands, taken } of leaseParts(plan as unknown as Plan, [answer as unknown as TakenAnswer])) {
    for (const { ticket, held } of withTaken([], demands[0]?.take ?? [], taken[0]?.ticket ?? PLAIN_TICKET)) {
      const { resets } = ticket.pins[0] as PeriodPin;
      given[resets] = (given[resets] ?? 0) + (held[0]?.milli ?? 0);
    }
  }
  assert.deepEqual(given, { 1: 50, 2: 35 });
});
