import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { findLimit } from "../../src/domain/bucket/bucket-state.ts";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { claim, HOUR_MS, Kinds, SECOND_MS, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const limits = [
  Limit.perMinute("rpm", 100, { counts: "requests" }),
  Limit.perMinute("tpm", 1_000),
  Kinds.quota("month", 5_000, { counts: "tpm", reset: { cron: "0 0 1 * *", tz: "UTC" } }),
  Kinds.quota("burst", 500, { counts: "tpm", resetAfterMs: HOUR_MS, soft: true }),
];

/** What a limit counts is kept wherever the limit is: in configuration, on buckets, with leases. */
export function measuresContract(suite: Suite): void {
  suite.test("what limits count is stored with them, at every level, and goes with them", async (place) => {
    const scopes: readonly ConfigScope[] = [
      { level: "entity", entityId: "a", resource: "api" },
      { level: "entityDefault", entityId: "a" },
      { level: "resource", resource: "api" },
      { level: "system" },
    ];
    for (const scope of scopes) {
      await place.set(scope, limits);
      assert.deepEqual((await place.scope.config.get(scope))?.limits, limits, scope.level);
    }
    assert.deepEqual((await place.resolve("a", "api")).limits, limits);
    const other = await place.another();
    assert.deepEqual((await other.resolve("b", "api")).limits, limits);
    const plain = limits.map(({ counts: _, ...rest }) => rest);
    await place.set({ level: "entity", entityId: "a", resource: "api" }, plain);
    assert.deepEqual((await place.resolve("a", "api")).limits, plain);
  });

  suite.test(
    "a bucket knows what its limits count, also to those that have not read its configuration",
    async (place) => {
      await place.take([claim("a", limits, { rpm: 1, tpm: 500, month: 500, burst: 500 })], T0);
      assert.deepEqual(await countsOn(place), { rpm: "requests", tpm: undefined, month: "tpm", burst: "tpm" });
      assert.deepEqual(await countsOn(await place.another()), {
        ...{ rpm: "requests", tpm: undefined, month: "tpm", burst: "tpm" },
      });
    },
  );

  suite.test("a limit that counts something else keeps what it holds", async (place) => {
    await place.take([claim("a", limits, { rpm: 40, tpm: 500, month: 500, burst: 600 })], T0);
    const changed = limits.map((limit) => ({ ...limit, counts: limit.name === "month" ? "usd" : "tokens" }));
    const then = claim("a", changed, { month: 1 }, { origin: { asOfMs: T0 + 1, generation: 2 } });
    await place.take([then], T0 + 1);
    assert.deepEqual(await countsOn(place), { rpm: "tokens", tpm: "tokens", month: "usd", burst: "tokens" });
    assert.equal(await place.level("a", "month", T0 + 1), 4_499_000);
    assert.equal(await place.level("a", "burst", T0 + 1), -100_000);
    assert.equal(await place.level("a", "rpm", T0 + 1), 60_001);
    const plain = limits.map(({ counts: _, ...rest }) => rest);
    const later = { origin: { asOfMs: T0 + SECOND_MS, generation: 3 } };
    await place.take([claim("a", plain, { month: 1 }, later)], T0 + SECOND_MS);
    assert.deepEqual(await countsOn(place), { rpm: undefined, tpm: undefined, month: undefined, burst: undefined });
    assert.equal(await place.level("a", "month", T0 + SECOND_MS), 4_498_000);
  });

  suite.test("a lease is given back by the limits of its take, whatever they count now", async (place) => {
    const before = claim("a", limits, { month: 500 });
    const ticket = await place.ticket(before, T0);
    const changed = limits.map((limit) => ({ ...limit, counts: "usd" }));
    await place.take([claim("a", changed, { month: 1 }, { origin: { asOfMs: T0 + 1, generation: 2 } })], T0 + 1);
    await place.giveBack(before, ticket, { month: 500 }, T0 + 2);
    assert.equal(await place.level("a", "month", T0 + 2), 4_999_000);
  });

  suite.test("a stored lease keeps what its limits count", async (place) => {
    const origin = { asOfMs: T0, generation: 1 };
    const record: LeaseRecord = {
      ...{ leaseId: "l_1", version: 1, writer: "w", status: "open", entityId: "a" },
      resources: [
        { resource: "api", overdrawn: [], levels: [{ entityId: "a", limits, origin, bypass: false, seen: [] }] },
      ],
      holdings: [{ at: [0, 0], ticket: PLAIN_TICKET, held: [{ limit: "tpm", milli: 5_000 }] }],
      ...{ openedAtMs: T0, expiresAtMs: T0 + HOUR_MS, onExpiry: "charge", closing: undefined },
      ...{ requestId: undefined, idempotencyKey: undefined },
    };
    assert.equal((await place.scope.leases.create({ record, finish: undefined }, T0)).kind, "stored");
    assert.deepEqual((await place.scope.leases.get("l_1"))?.resources, record.resources);
  });
}

/** What each limit of the bucket counts, where that is not its name. */
async function countsOn(place: TestedNamespace): Promise<Record<string, string | undefined>> {
  const [state] = await place.scope.buckets.read([bucketKey("a", "api")]);
  assert.ok(state !== undefined);
  return Object.fromEntries(limits.map(({ name }) => [name, findLimit(state, name)?.limit.counts]));
}
