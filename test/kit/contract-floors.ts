import assert from "node:assert/strict";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { claim, HOUR_MS, Kinds, kinds, MINUTE_MS, SECOND_MS, type Suite, T0 } from "./contract-kit.ts";

const rpm = [Limit.perMinute("rpm", 100)];

/** A claim that must leave so many percent. */
function leaving(leavePercent: number, ...asked: Parameters<typeof claim>): Claim {
  return { ...claim(...asked), leavePercent };
}

/** What a request must leave for others: so many percent of every hard limit that it takes from. */
export function floorsContract(suite: Suite): void {
  suite.test("a take leaves its floor, to the token, and others take below it", async (place) => {
    const low = (tokens: number) => leaving(20, "a", rpm, { rpm: tokens });
    assert.equal(await place.grants(low(81), T0), false);
    assert.equal(await place.grants(low(80), T0), true);
    assert.equal(await place.grants(low(1), T0), false);
    assert.equal(await place.grants(low(0), T0), true, "nothing more is taken, and the floor is there");
    assert.equal(await place.grants(claim("a", rpm, { rpm: 20 }), T0), true);
    assert.equal(await place.grants(low(0), T0), false, "the floor is not there");
    assert.equal(await place.level("a", "rpm", T0), 0);
  });

  suite.test("what drips in counts from above the floor on", async (place) => {
    await place.take([claim("a", rpm, { rpm: 100 })], T0);
    // 20 for the floor and 1 for the request, at 100 a minute.
    const fitsMs = T0 + 12_600;
    assert.equal(await place.grants(leaving(20, "a", rpm, { rpm: 1 }), fitsMs - 1), false);
    assert.equal(await place.grants(leaving(20, "a", rpm, { rpm: 1 }), fitsMs), true);
    assert.equal(await place.level("a", "rpm", fitsMs), 20_000);
  });

  suite.test("a floor is one in millitokens", async (place) => {
    // Of 3,000 millitokens 990 must be left.
    const three = [Limit.perMinute("rpm", 3)];
    await place.take([claim("a", three, { rpm: 3 })], T0);
    // 1,990 millitokens are needed; 3 a minute are 0.05 a millisecond.
    assert.equal(await place.grants(leaving(33, "a", three, { rpm: 1 }), T0 + 39_799), false);
    assert.equal(await place.grants(leaving(33, "a", three, { rpm: 1 }), T0 + 39_800), true);
    assert.equal(await place.level("a", "rpm", T0 + 39_800), 990);
  });

  suite.test(
    "every limit that is named must be left its floor, and those that are not named need not",
    async (place) => {
      const both = [Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 1_000)];
      const low = (tokens: Tokens) => leaving(50, "a", both, tokens);
      await place.take([claim("a", both, { rpm: 6, tpm: 100 })], T0);
      assert.equal(await place.grants(low({ rpm: 1, tpm: 10 }), T0), false);
      assert.equal(await place.grants(low({ tpm: 400 }), T0), true);
      assert.equal(await place.grants(low({ tpm: 1 }), T0), false);
      assert.equal(await place.level("a", "rpm", T0), 4_000);
      assert.equal(await place.level("a", "tpm", T0), 500_000);
    },
  );

  suite.test("at every level of a request, or nothing is taken", async (place) => {
    const org = [Limit.perMinute("rpm", 1_000)];
    await place.take([claim("org", org, { rpm: 850 })], T0);
    const claims = [leaving(10, "a", rpm, { rpm: 60 }), leaving(10, "org", org, { rpm: 60 })];
    const refused = kinds(await place.take(claims, T0));
    assert.ok(!refused.every((kind) => kind === "taken") && refused.includes("short"), String(refused));
    const smaller = [leaving(10, "a", rpm, { rpm: 50 }), leaving(10, "org", org, { rpm: 50 })];
    if (refused[0] === "taken") await place.credit(claims[0] as Claim, { rpm: 60 }, T0);
    assert.deepEqual(kinds(await place.take(smaller, T0)), ["taken", "taken"]);
    assert.equal(await place.level("org", "rpm", T0), 100_000);
  });

  suite.test("a floor is one of the capacity in force: of a window, and with what was topped up", async (place) => {
    const night = [
      Kinds.perMinute("rpm", 100, { schedule: [{ cron: "* 13 * * *", tz: "UTC", capacity: 10, refillAmount: 10 }] }),
    ];
    assert.equal(await place.grants(leaving(50, "a", night, { rpm: 1 }), T0), true);
    assert.equal(await place.grants(leaving(50, "a", night, { rpm: 6 }), T0 + HOUR_MS), false);
    assert.equal(await place.grants(leaving(50, "a", night, { rpm: 5 }), T0 + HOUR_MS), true);
    const month = [Kinds.quota("month", 100, { reset: { cron: "0 0 1 * *", tz: "UTC" } })];
    assert.equal(await place.grants(leaving(50, "q", month, { month: 50 }), T0), true);
    await place.topUp(claim("q", month, {}), { month: 60 }, T0 + 1);
    // 110 of 160 are there, 80 must be left.
    assert.equal(await place.grants(leaving(50, "q", month, { month: 31 }), T0 + 2), false);
    assert.equal(await place.grants(leaving(50, "q", month, { month: 30 }), T0 + 2), true);
  });

  suite.test("soft limits have no floor, and neither has a bypass, a debit or a give-back", async (place) => {
    const soft = [Limit.perMinute("rpm", 10, { soft: true })];
    assert.equal(await place.grants(leaving(99, "a", soft, { rpm: 30 }), T0), true);
    assert.equal(await place.level("a", "rpm", T0), -20_000);
    assert.equal(await place.grants(leaving(99, "b", rpm, { rpm: 500 }, { bypass: true }), T0), true);
    assert.equal(await place.grants(leaving(50, "c", rpm, { rpm: 50 }), T0), true);
    assert.equal((await place.debit(leaving(50, "c", rpm, {}), { rpm: 30 }, T0)).kind, "applied");
    assert.equal(await place.level("c", "rpm", T0), 20_000);
    assert.equal((await place.credit(leaving(50, "c", rpm, {}), { rpm: 10 }, T0)).kind, "applied");
    assert.equal(await place.level("c", "rpm", T0), 30_000);
  });

  suite.test("a take that did not leave its floor leaves everything as it was", async (place) => {
    const session = [Kinds.quota("burst", 100, { resetAfterMs: HOUR_MS })];
    const [answer] = await place.take([leaving(50, "a", session, { burst: 51 })], T0);
    assert.equal(answer?.kind, "short");
    // The window was not opened by it: it opens with the next take, and ends an hour after that.
    assert.equal(await place.grants(leaving(50, "a", session, { burst: 50 }), T0 + MINUTE_MS), true);
    assert.equal(await place.grants(leaving(50, "a", session, { burst: 1 }), T0 + HOUR_MS + SECOND_MS), false);
    assert.equal(await place.grants(leaving(50, "a", session, { burst: 50 }), T0 + HOUR_MS + MINUTE_MS), true);
    const [usage] = (
      await place.scope.usage.query({ window: "hourly", entityId: "a", fromMs: T0, toMs: T0 + HOUR_MS }, { limit: 10 })
    ).items;
    assert.equal(usage?.requests, 1);
  });

  suite.test("takes of different floors that are under way together leave what each must leave", async (place) => {
    const floors = [0, 50, 20, 0, 50, 90, 20, 0, 99, 10];
    await place.take([claim("a", rpm, { rpm: 5 })], T0);
    const answers = await Promise.all(
      floors.map(async (leavePercent) => {
        const [answer] = await place.take([leaving(leavePercent, "a", rpm, { rpm: 9 })], T0);
        return { leavePercent, answer };
      }),
    );
    const taken = answers.filter(({ answer }) => answer?.kind === "taken").length;
    assert.ok(taken >= 4, `${taken} of them were granted`);
    assert.equal(await place.level("a", "rpm", T0), 95_000 - taken * 9_000);
    for (const { leavePercent, answer } of answers) {
      if (answer?.kind !== "taken") continue;
      const left = answer.state.limits[0]?.tokensMilli ?? 0;
      assert.ok(left >= leavePercent * 1_000, `${left} left where ${leavePercent} % must be`);
    }
  });

  suite.test("a stored lease keeps what its request had to leave", async (place) => {
    const origin = { asOfMs: T0, generation: 1 };
    const record: LeaseRecord = {
      ...{ leaseId: "l_1", version: 1, writer: "w", status: "open", entityId: "a" },
      resources: [
        { resource: "api", overdrawn: [], levels: [{ entityId: "a", limits: rpm, origin, bypass: false, seen: [] }] },
      ],
      holdings: [{ at: [0, 0], ticket: PLAIN_TICKET, held: [{ limit: "rpm", milli: 5_000 }] }],
      ...{ openedAtMs: T0, expiresAtMs: T0 + HOUR_MS, onExpiry: "charge", closing: undefined, leavePercent: 20 },
      ...{ requestId: undefined, idempotencyKey: undefined },
    };
    assert.equal((await place.scope.leases.create({ record, finish: undefined }, T0)).kind, "stored");
    assert.deepEqual(await place.scope.leases.get("l_1"), record);
    const owing: LeaseRecord = { ...record, leaseId: "l_2", owed: record.holdings };
    assert.equal((await place.scope.leases.create({ record: owing, finish: undefined }, T0)).kind, "stored");
    assert.deepEqual(await place.scope.leases.get("l_2"), owing);
  });
}
