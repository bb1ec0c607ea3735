import assert from "node:assert/strict";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { claimNow, deleteAt, drained, held, perSecond, setAt } from "./contract-change-kit.ts";
import { DAY_MS, HOUR_MS, Kinds, MINUTE_MS, SECOND_MS, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const SYSTEM: ConfigScope = { level: "system" };
const API: ConfigScope = { level: "resource", resource: "api" };
const A: ConfigScope = { level: "entityDefault", entityId: "a" };
/** Whether the store counts changes: then a write that is no request finds those that its bucket has not met. */
const isCounted = ({ scope }: TestedNamespace) => scope.config.generation() !== undefined;

const A_ON_API: ConfigScope = { level: "entity", entityId: "a", resource: "api" };

/** Changes of stored limits: each counts from its own instant, whenever the next request comes. */
export function changeInstantsContract(suite: Suite): void {
  suite.test("a rate that is lowered while nobody asks counts from the change on", async (place) => {
    await setAt(place, API, perSecond(10), T0);
    await drained(place, T0);
    await setAt(place, API, perSecond(1), T0 + 100 * SECOND_MS);
    assert.equal(await held(place, T0 + 1_100 * SECOND_MS), 100 * 10 + 1_000);
  });

  suite.test("a rate that is raised while nobody asks counts from the change on", async (place) => {
    await setAt(place, A, perSecond(1), T0);
    await drained(place, T0);
    await setAt(place, A, perSecond(5), T0 + 100 * SECOND_MS);
    assert.equal(await held(place, T0 + 200 * SECOND_MS), 100 + 100 * 5);
    // It has gone through the change: from here on there is only the new rate.
    assert.equal(await held(place, T0 + 201 * SECOND_MS), 605);
  });

  suite.test(
    "limits that were others for a while count as such for that while, and keep what they held",
    async (place) => {
      await setAt(place, API, perSecond(10), T0);
      await drained(place, T0);
      await setAt(place, API, perSecond(1, 50), T0 + 2 * SECOND_MS);
      await setAt(place, API, perSecond(10), T0 + 12 * SECOND_MS);
      assert.equal(await held(place, T0 + 13 * SECOND_MS), 2 * 10 + 10 + 10);
      await setAt(place, API, perSecond(1, 5), T0 + 14 * SECOND_MS);
      await setAt(place, API, perSecond(10), T0 + 15 * SECOND_MS);
      assert.equal(await held(place, T0 + 15 * SECOND_MS), 5, "cut to what the bucket held meanwhile");
    },
  );

  suite.test("levels that were set and deleted at different instants count each from its own", async (place) => {
    await setAt(place, SYSTEM, perSecond(1), T0);
    await drained(place, T0);
    await setAt(place, API, perSecond(2), T0 + 10 * SECOND_MS);
    await setAt(place, A_ON_API, perSecond(100), T0 + 20 * SECOND_MS);
    // It says nothing here: a nearer level has limits.
    await setAt(place, SYSTEM, perSecond(1_000), T0 + 25 * SECOND_MS);
    await deleteAt(place, A_ON_API, T0 + 30 * SECOND_MS);
    await deleteAt(place, API, T0 + 40 * SECOND_MS);
    assert.equal(await held(place, T0 + 50 * SECOND_MS), 10 + 10 * 2 + 10 * 100 + 10 * 2 + 10 * 1_000);
  });

  suite.test("a limit that was taken away goes on by its last rule until it comes back", async (place) => {
    await setAt(place, API, [...perSecond(1), Limit.perDay("other", 5)], T0);
    await drained(place, T0);
    await setAt(place, API, [Limit.perDay("other", 5)], T0 + 10 * SECOND_MS);
    await setAt(place, API, [...perSecond(100), Limit.perDay("other", 5)], T0 + 20 * SECOND_MS);
    assert.equal(await held(place, T0 + 21 * SECOND_MS), 20 + 100);
  });

  suite.test(
    "a calendar quota goes on in its period, and is full by the new amount at its next reset",
    async (place) => {
      const quota = (amount: number) => [Kinds.quota("r", amount, { reset: { cron: "0 0 * * *" } })];
      await setAt(place, A, quota(100), T0);
      await place.take([await claimNow(place, { r: 30 })], T0);
      await setAt(place, A, quota(50), T0 + HOUR_MS);
      await setAt(place, A, quota(80), T0 + 2 * HOUR_MS);
      assert.equal(await held(place, T0 + 3 * HOUR_MS), 50);
      await setAt(place, A, quota(60), T0 + 4 * HOUR_MS);
      assert.equal(await held(place, T0 + DAY_MS), 60);
    },
  );

  suite.test("a quota that was made a limit that drips does so from the change on", async (place) => {
    await setAt(place, API, [Kinds.quota("r", 100, { reset: { cron: "0 0 * * *" } })], T0);
    await place.take([await claimNow(place, { r: 100 })], T0);
    await setAt(place, API, perSecond(1), T0 + HOUR_MS);
    assert.equal(await held(place, T0 + HOUR_MS + MINUTE_MS), 60);
  });

  suite.test("an open session that was shortened is full from the change on where its time is over", async (place) => {
    const session = (hours: number) => [Kinds.quota("r", 10, { resetAfterMs: hours * HOUR_MS })];
    await setAt(place, A, session(10), T0);
    await place.take([await claimNow(place, { r: 10 })], T0);
    await setAt(place, A, session(4), T0 + HOUR_MS);
    assert.equal(await held(place, T0 + 3 * HOUR_MS), 0);
    await setAt(place, A, session(2), T0 + 3 * HOUR_MS);
    assert.equal(await held(place, T0 + 3 * HOUR_MS + 1), 10);
  });

  suite.test("the debt of a soft limit that was made hard is forgiven at the change", async (place) => {
    await setAt(place, API, [Limit.perSecond("r", 1, { burst: 10, soft: true })], T0);
    await place.take([await claimNow(place, { r: 500 })], T0);
    await setAt(place, API, [Limit.perSecond("r", 1, { burst: 10 })], T0 + 10 * SECOND_MS);
    assert.equal(await held(place, T0 + 15 * SECOND_MS), 5);
  });

  suite.test(
    "a bucket that nobody has taken from is full by the limits in force when it is first used",
    async (place) => {
      await setAt(place, API, perSecond(1, 10), T0);
      await setAt(place, API, perSecond(1, 50), T0 + MINUTE_MS);
      assert.equal(await held(place, T0 + MINUTE_MS), 50);
    },
  );

  suite.test("a take by limits of before the change makes the change count from that take on", async (place) => {
    await setAt(place, API, perSecond(1), T0);
    await drained(place, T0);
    const before = await claimNow(place, { r: 5 });
    await setAt(place, API, perSecond(100), T0 + 10 * SECOND_MS);
    await place.take([before], T0 + 20 * SECOND_MS);
    assert.equal(await held(place, T0 + 21 * SECOND_MS), 20 - 5 + 100);
  });

  suite.test("a debit of a lease does not put a change before it off", async (place) => {
    await setAt(place, API, perSecond(1), T0);
    await drained(place, T0);
    const before = await claimNow(place, { r: 0 });
    await setAt(place, API, perSecond(100), T0 + 10 * SECOND_MS);
    await place.debit(before, { r: 5 }, T0 + 20 * SECOND_MS);
    // Where a write cannot look up what is stored, the change counts from the debit on.
    const atDebit = isCounted(place) ? 10 + 10 * 100 : 20;
    assert.equal(await held(place, T0 + 21 * SECOND_MS), atDebit - 5 + 100);
  });

  for (const [what, ended] of [
    ["an hourly quota", Kinds.quota("p", 10, { reset: { cron: "0 * * * *" } })],
    ["a session", Kinds.quota("p", 10, { resetAfterMs: MINUTE_MS })],
    ["slots", Kinds.concurrent("p", 10, { holdMs: 10_000 })],
  ] as const) {
    suite.test(`a change counts from its instant, also where ${what} that ended since is given back`, async (place) => {
      if (!isCounted(place)) return;
      const taken = async (tokens: Tokens) => {
        const claim = await claimNow(place, tokens);
        const [answer] = await place.take([claim], T0);
        assert.ok(answer?.kind === "taken");
        return { claim, ticket: answer.ticket };
      };
      await setAt(place, API, [...perSecond(100, 100), ended], T0);
      const { claim, ticket } = await taken({ p: 1 });
      await taken({ r: 100 });
      await setAt(place, API, [Kinds.perDay("r", 1, { burst: 100 }), ended], T0);
      await place.giveBack(claim, ticket, { p: 1 }, T0 + 2 * HOUR_MS);
      assert.equal(Math.floor(await held(place, T0 + 2 * HOUR_MS)), 0, "lowered");
      await taken({ r: 0 });
      await setAt(place, API, [...perSecond(100, 100), ended], T0 + 2 * HOUR_MS);
      await place.giveBack(claim, ticket, { p: 1 }, T0 + 4 * HOUR_MS);
      assert.equal(await held(place, T0 + 4 * HOUR_MS), 100, "raised");
    });
  }

  suite.test("what is given back after a raise has the room of the raised limit", async (place) => {
    if (!isCounted(place)) return;
    const perMinute = (burst: number) => [Limit.perMinute("r", 1, { burst })];
    await setAt(place, API, perMinute(10), T0);
    const claim = await claimNow(place, { r: 9 });
    await place.take([claim], T0);
    await setAt(place, API, perMinute(100), T0 + HOUR_MS);
    await place.credit(claim, { r: 9 }, T0 + HOUR_MS + 1);
    assert.equal(await held(place, T0 + HOUR_MS + 1), 19);
  });

  suite.test("what is given back after a change arrives, and the change counts from its instant", async (place) => {
    await setAt(place, API, perSecond(1), T0);
    await drained(place, T0);
    const before = await claimNow(place, { r: 0 });
    await setAt(place, API, perSecond(100), T0 + 10 * SECOND_MS);
    await place.credit(before, { r: 50 }, T0 + 11 * SECOND_MS);
    assert.equal(await held(place, T0 + 12 * SECOND_MS), 10 + 50 + 2 * 100);
  });

  suite.test(
    "a lease that ends after the limits of its entity were changed does not put the change off",
    async (place) => {
      await setAt(place, A, perSecond(10), T0);
      await drained(place, T0);
      const before = await claimNow(place, { r: 0 });
      await setAt(place, A, perSecond(1), T0 + 10 * SECOND_MS);
      await place.credit(before, { r: 50 }, T0 + 100 * SECOND_MS);
      assert.equal(await held(place, T0 + 110 * SECOND_MS), 100 + 50 + 100);
    },
  );

  suite.test("a change to what is there already, and one of access, do not begin anew", async (place) => {
    await setAt(place, API, perSecond(1), T0);
    await setAt(place, API, perSecond(2), T0 + 10 * SECOND_MS);
    const { changes } = await place.resolve("a", "api");
    await setAt(place, API, perSecond(2), T0 + 20 * SECOND_MS);
    await place.scope.config.setPolicy(API, { access: "bypass" }, place.event("access_set", "somebody", T0 + 30_000));
    assert.deepEqual((await place.resolve("a", "api")).changes, changes);
    assert.deepEqual(
      changes?.map(({ fromMs }) => fromMs - T0),
      [0, 10 * SECOND_MS],
    );
  });

  suite.test(
    "of each level the last eight changes are kept; what was there before the oldest of them counts",
    async (place) => {
      await setAt(place, API, perSecond(1), T0);
      await drained(place, T0);
      for (let i = 1; i <= 10; i++) await setAt(place, API, perSecond(10 * i), T0 + i * SECOND_MS);
      const { changes } = await place.resolve("a", "api");
      assert.deepEqual(
        changes?.map(({ fromMs }) => (fromMs - T0) / SECOND_MS),
        [3, 4, 5, 6, 7, 8, 9, 10],
      );
      // The bucket went by its own rate up to the third: the first two changes are not known any more.
      assert.equal(await held(place, T0 + 11 * SECOND_MS), 3 + 10 * (3 + 4 + 5 + 6 + 7 + 8 + 9 + 10));
    },
  );

  suite.test("a change by a clock that is behind comes after the change before it", async (place) => {
    await setAt(place, API, perSecond(1), T0 + 10 * SECOND_MS);
    await setAt(place, API, perSecond(2), T0);
    const { changes, limits } = await place.resolve("a", "api");
    assert.deepEqual(limits, perSecond(2));
    const [before, last] = changes?.slice(-2) ?? [];
    assert.deepEqual([last?.fromMs, last?.limits], [T0 + 10 * SECOND_MS + 1, perSecond(2)]);
    assert.ok((last?.number ?? 0) > (before?.number ?? 0));
  });

  suite.test("an entity that is made anew after it was deleted has no changes of before", async (place) => {
    await place.create({ id: "a" });
    await setAt(place, A, perSecond(1), T0);
    await setAt(place, A, perSecond(2), T0 + SECOND_MS);
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    assert.equal((await place.resolve("a", "api")).changes, undefined);
  });
}
