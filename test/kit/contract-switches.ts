import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { ConfigScope, LevelConfig } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { amountsOf, claim, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const ANY_OF_ORG: ConfigScope = { level: "entityDefault", entityId: "org" };
const ORG_ON_API: ConfigScope = { level: "entity", entityId: "org", resource: "api" };
const ANY_OF_KEY: ConfigScope = { level: "entityDefault", entityId: "key" };
const API: ConfigScope = { level: "resource", resource: "api" };

const rpm = [Limit.perMinute("rpm", 10)];

/** A request that was planned with configuration of then: the claim on `key`, and the generation. */
interface Planned {
  readonly claim: Claim;
  readonly generation: number | undefined;
}

/** What switched-off access means for requests that were planned before, by this process or by another. */
export function switchesContract(suite: Suite): void {
  suite.test("a request planned before its entity was switched off takes nothing after it", async (place) => {
    for (const scope of [ANY_OF_KEY, API]) {
      const other = await hierarchy(place);
      await take(other);
      const planned = await plan(other, "remembered");
      await place.setPolicy(scope, { access: "disabled" });
      assert.equal(await isTaken(other, planned), false, scope.level);
      await place.setPolicy(scope, { access: null });
    }
  });

  suite.test("the same where a parent was switched off that has no limits, and so no bucket", async (place) => {
    for (const scope of [ANY_OF_ORG, ORG_ON_API]) {
      const other = await hierarchy(place);
      await take(other);
      const planned = await plan(other, "remembered");
      await place.setPolicy(scope, { access: "disabled" });
      assert.equal(await isTaken(other, planned), false, scope.level);
      assert.equal((await other.resolve("org", "api")).access, "disabled");
      await place.setPolicy(scope, { access: null });
    }
  });

  suite.test("the same of a bucket that was not there when it was switched off", async (place) => {
    const other = await hierarchy(place);
    const planned = await plan(other, "remembered");
    await place.setPolicy(ANY_OF_ORG, { access: "disabled" });
    assert.equal(await isTaken(other, planned), false);
    // Nothing was made by it either, that a second try could take from.
    assert.equal(await isTaken(other, planned), false);
  });

  suite.test("the same of a bucket that a purchase made after it was switched off", async (place) => {
    const other = await hierarchy(place);
    const planned = await plan(other, "remembered");
    await place.setPolicy(ANY_OF_ORG, { access: "disabled" });
    await place.topUp(planned.claim, { rpm: 1 }, T0);
    assert.equal(await isTaken(other, planned), false);
  });

  suite.test("the same where the entity was moved below one that is switched off", async (place) => {
    const other = await hierarchy(place);
    await place.create({ id: "closed" });
    await place.setPolicy({ level: "entityDefault", entityId: "closed" }, { access: "disabled" });
    await take(other);
    const planned = await plan(other, "remembered");
    const change = { patch: { parentId: "closed" }, version: undefined, nowMs: T0 };
    await place.scope.entities.update("org", change, place.event("entity_updated", "org"));
    assert.equal(await isTaken(other, planned), false);
  });
}

/** `key` below `org`, which has no limits; and another process on the same store. */
async function hierarchy(place: TestedNamespace): Promise<TestedNamespace> {
  if ((await place.scope.entities.get("org")) === undefined) {
    await place.create({ id: "org" });
    await place.create({ id: "key", parentId: "org", cascade: true });
    await place.set({ level: "entity", entityId: "key", resource: "api" }, rpm);
  }
  return place.another();
}

/** As the engine does it: the levels are read, one after the other, and the request goes by the oldest of the readings. */
async function plan({ scope: { config } }: TestedNamespace, when: "just read" | "remembered"): Promise<Planned> {
  const generation = config.generation();
  const own = await config.resolve("key", "api", "consistent");
  const above = await config.resolve("org", "api", "consistent");
  const readings = [own, above].flatMap(({ reading }: LevelConfig) => reading ?? []);
  const origin = {
    asOfMs: T0,
    generation: generation ?? null,
    ...(readings.length === 0 ? {} : { reading: Math.min(...readings) }),
  };
  const one: Claim = {
    ...claim("key", rpm, { rpm: 1 }),
    ...{ bucket: bucketKey("key", "api"), set: limitSet(own.limits), origin, take: amountsOf({ rpm: 1 }) },
    isConfigJustRead: when === "just read",
  };
  return { claim: one, generation };
}

/** A request that is granted; a bucket may first send it to read configuration again. */
async function take(place: TestedNamespace): Promise<void> {
  if (await isTaken(place, await plan(place, "just read"))) return;
  assert.ok(await isTaken(place, await plan(place, "just read")), "it is not granted");
}

async function isTaken(place: TestedNamespace, { claim: one, generation }: Planned): Promise<boolean> {
  const goesBy = () => ["org"];
  const reply = await place.takeReply([one], T0, generation === undefined ? {} : { generation, goesBy });
  if (reply === "stale") return false;
  const kind = reply[0]?.kind;
  assert.ok(kind === "taken" || kind === "configSuspect", `answered with ${kind}`);
  return kind === "taken";
}
