import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/domain/limit.ts";
import { claim, T0 } from "../../src/testing/contract-kit.ts";
import { describeDynamo } from "./engine.ts";
import { newGround } from "./store-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];

interface Consumed {
  readonly CapacityUnits?: number;
}

await describeDynamo("what operations besides taking cost", (engine) => {
  test("units of the table and its indexes together, as the engine counts them", async (t) => {
    let units = 0;
    const onConsumed = (consumed: unknown) => {
      for (const each of [consumed].flat() as (Consumed | undefined)[]) units += each?.CapacityUnits ?? 0;
    };
    const { place } = await newGround(engine, t, { onConsumed });
    const cost = async (work: () => unknown): Promise<number> => {
      const before = units;
      await work();
      return units - before;
    };
    const { entities, config, audit } = place.scope;
    await place.set({ level: "system" }, rpm);
    await place.create({ id: "root" });
    const costs = {
      "configuration of one level, changed here a moment ago": await cost(() => place.resolve("a", "api")),
      "an entity below a root": await cost(() => place.create({ id: "a", parentId: "root" })),
      "an entity, read": await cost(() => entities.get("a")),
      "limits of a resource, again": await (async () => {
        await place.set({ level: "resource", resource: "api" }, rpm);
        return cost(() => place.set({ level: "resource", resource: "api" }, rpm));
      })(),
      "limits of an entity on a resource with a live bucket": await (async () => {
        await place.take([claim("a", rpm, { rpm: 1 })], T0);
        return cost(() => place.set({ level: "entity", entityId: "a", resource: "api" }, rpm));
      })(),
      "an entity's log, three events": await cost(() => audit.list({ entityId: "a" }, { limit: 3 })),
      "the limits of a scope, read": await cost(() => config.get({ level: "system" })),
    };
    // Reads and writes added up; writes of a transaction count twice, and what an index has of them is written there, too.
    assert.deepEqual(costs, {
      "configuration of one level, changed here a moment ago": 2,
      "an entity below a root": 14,
      "an entity, read": 1,
      "limits of a resource, again": 8,
      "limits of an entity on a resource with a live bucket": 16,
      "an entity's log, three events": 1,
      "the limits of a scope, read": 1,
    });
  });
});
