import assert from "node:assert/strict";
import type { Access, ConfigScope, LevelConfig } from "../../src/domain/config/config.ts";
import { levelAt } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { claimNow, deleteAt, drained, held, perSecond, setAt } from "./contract-change-kit.ts";
import {
  amountsOf,
  Kinds,
  MINUTE_MS,
  SECOND_MS,
  type Suite,
  samePaged,
  T0,
  type TestedNamespace,
} from "./contract-kit.ts";

const SYSTEM: ConfigScope = { level: "system" };
const API: ConfigScope = { level: "resource", resource: "api" };
const A: ConfigScope = { level: "entityDefault", entityId: "a" };
const A_ON_API: ConfigScope = { level: "entity", entityId: "a", resource: "api" };
const GOLD: ConfigScope = { level: "planDefault", planId: "gold" };

/** When the override of most stories ends, and how long before it was set. */
const END_MS = T0 + 100 * SECOND_MS;
/** When bases were set: two changes of a level in one millisecond would be a millisecond apart. */
const BEFORE = T0 - SECOND_MS;
const until = (untilMs: number = END_MS) => ({ untilMs });

/** Limits and access with an end: a level is its base again, by itself, whenever the next request comes. */
export function endsContract(suite: Suite): void {
  setContract(suite);
  endContract(suite);
  heldContract(suite);
}

const inForce = async (place: TestedNamespace, atMs: number): Promise<LevelConfig> =>
  levelAt(await place.resolve("a", "api"), atMs);

const ratesAt = async (place: TestedNamespace, atMs: number) =>
  (await inForce(place, atMs)).limits.map(({ refillAmount }) => refillAmount);

function setContract(suite: Suite): void {
  suite.test(
    "an override hides its base whole until its end, and the base has its options back then",
    async (place) => {
      await setAt(place, SYSTEM, [Limit.perSecond("other", 7)], T0);
      await setAt(place, API, perSecond(1), T0, { inherit: true });
      assert.equal(await setAt(place, API, perSecond(5), T0, { ...until(), appliesTo: "callers" }), "written");
      const names = async (atMs: number) => (await inForce(place, atMs)).limits.map(({ name }) => name);
      assert.deepEqual(await names(END_MS - 1), ["r"]);
      assert.deepEqual((await inForce(place, END_MS - 1)).forEveryone, []);
      assert.deepEqual((await names(END_MS)).toSorted(), ["other", "r"]);
      assert.equal((await inForce(place, END_MS)).forEveryone, undefined);
    },
  );

  suite.test("a set replaces the override, or the base, by its options", async (place) => {
    await setAt(place, API, perSecond(1), T0);
    await setAt(place, API, perSecond(5), T0, until());
    assert.equal(await setAt(place, API, perSecond(5), T0, until()), "unchanged");
    assert.equal(await setAt(place, API, perSecond(5), T0, until(END_MS + 1)), "written");
    assert.equal(await setAt(place, API, perSecond(6), T0 + 1, until()), "written");
    assert.deepEqual(await ratesAt(place, END_MS), [1], "the base is not the override of before");
    assert.equal(await setAt(place, API, perSecond(1), T0 + 2, { keepOverride: true }), "unchanged");
    assert.equal(await setAt(place, API, perSecond(2), T0 + 2, { keepOverride: true }), "written");
    assert.equal(await setAt(place, API, perSecond(9), T0 + 2, { ifAbsent: true }), "unchanged");
    assert.deepEqual([await ratesAt(place, T0 + 3), await ratesAt(place, END_MS)], [[6], [2]]);
    assert.equal(await setAt(place, API, perSecond(6), T0 + 3), "written", "equal limits without an end are the base");
    assert.deepEqual(await ratesAt(place, END_MS), [6]);
    assert.equal(await setAt(place, API, perSecond(6), T0 + 4), "unchanged");
  });

  suite.test("where only an override is, the base is absent", async (place) => {
    assert.equal(await setAt(place, A, perSecond(5), T0, { ...until(), ifAbsent: true }), "written");
    assert.equal(await setAt(place, A, perSecond(9), T0, { ...until(), ifAbsent: true }), "unchanged");
    assert.equal(await setAt(place, A, perSecond(1), T0, { ifAbsent: true }), "written");
    assert.deepEqual([await ratesAt(place, T0), await ratesAt(place, END_MS)], [[5], [1]]);
    assert.equal(await setAt(place, A, perSecond(9), END_MS, { ...until(END_MS + 1), ifAbsent: true }), "unchanged");
  });

  suite.test("lists go by what is in force: an override over nothing that is over is in none", async (place) => {
    const { config } = place.scope;
    const inLists = async (atMs: number) => {
      const all = { limit: 10 };
      const ofEntity = await config.listForEntity("a", atMs, all);
      const lists = [await config.listResources(atMs, all), await config.listEntityResources(atMs, all)];
      const entities = await config.listEntities("web", atMs, all);
      return [...lists.map(({ items }) => items), entities.items, ofEntity.items.map(({ scope }) => scope)];
    };
    const onWeb = (entityId: string): ConfigScope => ({ level: "entity", entityId, resource: "web" });
    await setAt(place, { level: "resource", resource: "web" }, perSecond(5), T0, until());
    await setAt(place, API, perSecond(1), T0);
    await setAt(place, API, perSecond(5), T0, until());
    await setAt(place, A, perSecond(5), T0, until());
    await setAt(place, A_ON_API, perSecond(5), T0, until());
    await setAt(place, onWeb("a"), perSecond(5), T0, until());
    await setAt(place, onWeb("b"), perSecond(1), T0);
    assert.deepEqual(await inLists(END_MS - 1), [
      ["api", "web"],
      ["api", "web"],
      ["a", "b"],
      [A, A_ON_API, onWeb("a")],
    ]);
    assert.deepEqual(await inLists(END_MS), [["api"], ["web"], ["b"], []]);
    await samePaged((page) => config.listEntities("web", END_MS, page), ["b"]);
    await samePaged((page) => config.listResources(END_MS, page), ["api"]);
    await setAt(place, onWeb("a"), perSecond(2), END_MS + 1);
    assert.deepEqual((await inLists(END_MS + 1)).slice(1), [["web"], ["a", "b"], [onWeb("a")]]);
  });

  suite.test("an override is ended early alone, and deleted with its base", async (place) => {
    const ended = (scope: ConfigScope, atMs: number) =>
      place.scope.config.delete(scope, place.event("limits_deleted", "a", atMs), "override");
    await setAt(place, A_ON_API, perSecond(1), T0);
    assert.equal(await ended(A_ON_API, T0), false);
    await setAt(place, A_ON_API, perSecond(5), T0, until());
    assert.equal(await ended(A_ON_API, T0 + 1), true);
    assert.deepEqual([await ratesAt(place, T0 + 2), await ended(A_ON_API, T0 + 2)], [[1], false]);
    await setAt(place, A_ON_API, perSecond(5), T0 + 3, until());
    assert.equal(await ended(A_ON_API, END_MS), false, "it is over");
    await deleteAt(place, A_ON_API, T0 + 4);
    assert.deepEqual([await ratesAt(place, T0 + 5), await ratesAt(place, END_MS)], [[], []]);
  });

  suite.test("what runs under an override is written down with a set of its base", async (place) => {
    await setAt(place, API, perSecond(5), T0, until());
    await setAt(place, API, perSecond(1), T0 + 1, { keepOverride: true });
    const { items } = await place.scope.audit.list({}, { limit: 1 });
    assert.equal(items[0]?.details.underUntilMs, END_MS);
  });

  suite.test("access has an end, and is then what the scope said before", async (place) => {
    const set = (access: Access | null, atMs: number, options = {}) =>
      place.scope.config.setPolicy(A, { access, ...options }, place.event("access_set", "a", atMs));
    await place.create({ id: "a" });
    assert.equal(await set("disabled", T0, until()), true);
    assert.equal(await set("disabled", T0, until()), false);
    const accessAt = async (atMs: number) => (await inForce(place, atMs)).access;
    assert.deepEqual([await accessAt(END_MS - 1), await accessAt(END_MS)], ["disabled", "enforce"]);
    await set("disabled", T0 + 1);
    await set("enforce", T0 + 1, until());
    assert.deepEqual([await accessAt(END_MS - 1), await accessAt(END_MS)], ["enforce", "disabled"]);
    await set("bypass", T0 + 1, { keepOverride: true });
    assert.deepEqual([await accessAt(END_MS - 1), await accessAt(END_MS)], ["enforce", "bypass"]);
    const { items } = await place.scope.audit.list({ entityId: "a" }, { limit: 10 });
    const under = items.filter(({ details }) => details.underUntilMs !== undefined);
    assert.deepEqual(
      under.map(({ details }) => details.underUntilMs),
      [END_MS],
      "the base, under what runs",
    );
    await set(null, T0 + 2);
    assert.deepEqual([await accessAt(T0 + 3), await accessAt(END_MS)], ["enforce", "enforce"]);
  });
}

function endContract(suite: Suite): void {
  suite.test("an end that passes while nobody asks counts from its instant", async (place) => {
    await setAt(place, API, perSecond(1), BEFORE);
    await drained(place, T0);
    await setAt(place, API, perSecond(10), T0, until());
    assert.equal(await held(place, END_MS + 50 * SECOND_MS), 100 * 10 + 50);
    // It has gone through the end: from here on there is only the base.
    assert.equal(await held(place, END_MS + 51 * SECOND_MS), 1_051);
  });

  suite.test("an override over nothing leaves the next level", async (place) => {
    await setAt(place, SYSTEM, perSecond(1), BEFORE);
    await drained(place, T0);
    await setAt(place, A_ON_API, perSecond(10), T0, until());
    assert.equal(await held(place, END_MS + 50 * SECOND_MS), 100 * 10 + 50);
  });

  suite.test("a rate is clipped to its base at the end, and a quota keeps what was used", async (place) => {
    const day = (amount: number) => Kinds.quota("r", amount, { reset: { cron: "0 0 * * *" } });
    await setAt(place, API, [day(1_000)], T0);
    const claim = await claimNow(place, { r: 900 }, T0);
    assert.equal(await place.grants(claim, T0), true);
    await setAt(place, API, [day(5_000)], T0 + 1, until());
    assert.equal(await held(place, T0 + SECOND_MS), 4_100);
    assert.equal(await place.grants(await claimNow(place, { r: 1_100 }, T0 + SECOND_MS), T0 + SECOND_MS), true);
    assert.equal(await held(place, END_MS), -1_000);
  });

  suite.test("an end at the instant of another change, and two ends at one instant, count both", async (place) => {
    await setAt(place, SYSTEM, perSecond(1), BEFORE);
    await setAt(place, API, perSecond(3), BEFORE);
    await drained(place, T0);
    await setAt(place, API, perSecond(10), T0, until());
    await setAt(place, A, perSecond(20), T0, until());
    // The end of the level that is in the way, the end of the one below, and a change there, in one millisecond.
    await setAt(place, API, perSecond(2), END_MS);
    assert.equal(Math.round(await held(place, END_MS + 10 * SECOND_MS)), 100 * 20 + 10 * 2);
  });

  suite.test("a bucket that met an end meets a change of the same instant all the same", async (place) => {
    await setAt(place, API, perSecond(3), BEFORE);
    await drained(place, T0);
    await setAt(place, API, perSecond(10), T0, until());
    assert.equal(await held(place, END_MS), 1_000);
    await setAt(place, A, perSecond(1), END_MS);
    assert.equal(await held(place, END_MS + 10 * SECOND_MS), 1_010);
  });

  suite.test("an override that is replaced, ended early, or set under counts for its own time only", async (place) => {
    await setAt(place, API, perSecond(1), BEFORE);
    await drained(place, T0);
    await setAt(place, API, perSecond(10), T0 + 10 * SECOND_MS, until());
    await setAt(place, API, perSecond(20), T0 + 20 * SECOND_MS, until(T0 + 30 * SECOND_MS));
    await setAt(place, API, perSecond(2), T0 + 25 * SECOND_MS, { keepOverride: true });
    // 10 by 1, 10 by 10, 10 by 20, then by the base of now.
    const before = 10 + 100 + 200;
    assert.equal(await held(place, T0 + 40 * SECOND_MS), before + 10 * 2);
    await setAt(place, API, perSecond(50), T0 + 40 * SECOND_MS, until(T0 + 90 * SECOND_MS));
    const event = place.event("limits_deleted", "somebody", T0 + 50 * SECOND_MS);
    await place.scope.config.delete(API, event, "override");
    assert.equal(await held(place, T0 + 100 * SECOND_MS), before + 20 + 10 * 50 + 50 * 2);
  });

  suite.test("ends of overrides that are over stay in the history, also under another change", async (place) => {
    await setAt(place, API, perSecond(1), BEFORE);
    await drained(place, T0);
    await setAt(place, API, perSecond(10), T0, until());
    await setAt(place, API, perSecond(2), END_MS + 10 * SECOND_MS);
    await setAt(place, A, perSecond(3), END_MS + 20 * SECOND_MS);
    assert.equal(await held(place, END_MS + 30 * SECOND_MS), 100 * 10 + 10 + 10 * 2 + 10 * 3);
  });

  suite.test("an override that a clock which is ahead found over has ended for all", async (place) => {
    await setAt(place, API, perSecond(1), BEFORE);
    await drained(place, T0);
    await setAt(place, API, perSecond(10), T0, until());
    await setAt(place, API, perSecond(2), END_MS + 10 * SECOND_MS);
    // Made later, by a clock that does not show the end yet.
    await setAt(place, API, perSecond(3), END_MS - 20 * SECOND_MS);
    assert.equal(Math.round(await held(place, END_MS + 20 * SECOND_MS)), 100 * 10 + 10 * 1 + 10 * 3);
  });

  suite.test(
    "limits of a plan have an end, and one that came while an entity had the plan counts later",
    async (place) => {
      await place.createPlan({ id: "gold" });
      await place.create({ id: "a", planId: "gold" });
      await setAt(place, GOLD, perSecond(1), BEFORE);
      await setAt(place, SYSTEM, perSecond(2), BEFORE);
      await drained(place, T0);
      await setAt(place, GOLD, perSecond(10), T0, until());
      const left = place.event("entity_updated", "a", END_MS + 10 * SECOND_MS);
      const change = { patch: { planId: null }, version: undefined, nowMs: left.atMs };
      await place.scope.entities.update("a", change, left);
      assert.equal(await held(place, END_MS + 20 * SECOND_MS), 100 * 10 + 10 + 10 * 2);
    },
  );

  suite.test("who is behind finds the end done", async (place) => {
    await setAt(place, API, perSecond(1, 1_000), BEFORE);
    await drainedOf(place, 1_000);
    await setAt(place, API, perSecond(10, 10), T0, until());
    assert.equal(await held(place, END_MS + 500 * SECOND_MS), 510);
    const late = await claimNow(place, { r: 0 }, END_MS - 1);
    await place.take([late], END_MS + 500 * SECOND_MS);
    assert.equal(await held(place, END_MS + 500 * SECOND_MS), 510, "the override does not cut it again");
  });
}

async function drainedOf(place: TestedNamespace, tokens: number): Promise<void> {
  assert.equal(await place.grants(await claimNow(place, { r: tokens }), T0), true);
}

function heldContract(suite: Suite): void {
  // A store that computes finds an end that its bucket has not met with any write; another one with the next request.
  const isCounted = ({ scope }: TestedNamespace) => scope.config.generation() !== undefined;

  suite.test("what comes back after the end of an override meets the rules in force", async (place) => {
    await setAt(place, API, perSecond(1, 100), BEFORE);
    await setAt(place, API, perSecond(10, 1_000), T0, until());
    const claim = await claimNow(place, { r: 1_000 });
    assert.equal(await place.grants(claim, T0), true);
    // By the end the override holds 1,000 again, of which the base has room for 100.
    await place.credit(claim, { r: 1_000 }, END_MS + MINUTE_MS);
    assert.equal(await held(place, END_MS + MINUTE_MS), 100);
  });

  suite.test(
    "a take by the limits of a lease does not pass over the end: what comes back later meets it",
    async (place) => {
      await setAt(place, API, perSecond(1, 5_000), BEFORE);
      await setAt(place, API, perSecond(10, 1_000), T0, until());
      const claim = await claimNow(place, { r: 1_000 });
      assert.equal(await place.grants(claim, T0), true);
      const afterMs = END_MS + 10 * SECOND_MS;
      assert.equal(await place.grants({ ...claim, take: amountsOf({ r: 5 }) }, afterMs), true);
      await place.credit(claim, { r: 500 }, afterMs);
      // At the end it holds 1,000, which the base goes on from.
      const found = await held(place, afterMs);
      assert.equal(isCounted(place) ? found : 1_505, 1_505);
    },
  );

  suite.test("what a lease takes on top after the end comes after it", async (place) => {
    await setAt(place, API, perSecond(1, 100), BEFORE);
    await setAt(place, API, perSecond(10, 1_000), T0, until());
    const claim = await claimNow(place, { r: 1_000 });
    assert.equal(await place.grants(claim, T0), true);
    await place.debit(claim, { r: 30 }, END_MS + 10 * SECOND_MS);
    const found = await held(place, END_MS + 20 * SECOND_MS);
    // At the end it is cut to 100, and full; 30 go, 10 come.
    assert.equal(isCounted(place) ? found : Math.min(found, 80), 80);
  });
}
