import assert from "node:assert/strict";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { allPages, claim, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const SYSTEM: ConfigScope = { level: "system" };

const rpm = [Limit.perMinute("rpm", 10)];

/** A namespace at rest: a setting of the system level that every level is told with its configuration. */
export function freezeContract(suite: Suite): void {
  suite.test("every level is told that its namespace is frozen, and no other namespace is", async (place) => {
    const other = await place.register("other");
    assert.equal("frozen" in (await place.resolve("a", "api")), false);
    assert.equal(await place.setPolicy(SYSTEM, { frozen: { reason: "moving" } }), true);
    assert.equal(await place.setPolicy(SYSTEM, { frozen: { reason: "moving" } }), false, "it is already");
    assert.deepEqual((await place.resolve("a", "api")).frozen, { reason: "moving" });
    assert.deepEqual((await place.resolve("a", "*")).frozen, { reason: "moving" });
    assert.deepEqual((await place.scope.config.get(SYSTEM))?.frozen, { reason: "moving" });
    assert.equal("frozen" in (await other.resolve("a", "api")), false);
    assert.equal(await place.setPolicy(SYSTEM, { frozen: {} }), true, "without a reason");
    assert.deepEqual((await place.resolve("a", "api")).frozen, {});
    assert.equal(await place.setPolicy(SYSTEM, { frozen: null }), true);
    assert.equal(await place.setPolicy(SYSTEM, { frozen: null }), false);
    assert.equal("frozen" in (await place.resolve("a", "api")), false);
    assert.equal(await place.scope.config.get(SYSTEM), undefined, "nothing is left");
    const events = await allPages((page) => place.scope.audit.list({}, page), 100);
    assert.equal(events.filter(({ action }) => action === "access_set").length, 3);
  });

  suite.test("limits and settings of the system change under a freeze, and leave it as it is", async (place) => {
    await place.setPolicy(SYSTEM, { frozen: { reason: "moving" } });
    await place.set(SYSTEM, rpm);
    const event = place.event("limits_set", "$SYSTEM");
    await place.scope.config.set(SYSTEM, { limits: rpm, onUnavailable: "allow" }, event);
    const said = { limits: rpm, onUnavailable: "allow" as const };
    assert.deepEqual(await place.scope.config.get(SYSTEM), { ...said, frozen: { reason: "moving" } });
    const expected = place.event("limits_set", "$SYSTEM");
    // Whoever changes limits only where they are what was read, has not read of the freeze.
    assert.equal(
      await place.scope.config.set(SYSTEM, { limits: [], onUnavailable: null, expected: said }, expected),
      "written",
    );
    assert.deepEqual(await place.scope.config.get(SYSTEM), { limits: [], frozen: { reason: "moving" } });
    assert.equal(await place.scope.config.delete(SYSTEM, place.event("limits_deleted", "$SYSTEM"), "all"), false);
    await place.set(SYSTEM, rpm);
    assert.equal(await place.scope.config.delete(SYSTEM, place.event("limits_deleted", "$SYSTEM"), "all"), true);
    assert.deepEqual((await place.resolve("a", "api")).frozen, { reason: "moving" });
    await place.set(SYSTEM, rpm);
    await place.setPolicy(SYSTEM, { frozen: null });
    assert.deepEqual(await place.scope.config.get(SYSTEM), { limits: rpm });
  });

  if (suite.gaps.has("generation")) return;

  for (const limitsOf of ["config", "lease"] as const) {
    suite.test(
      `what was planned before a freeze takes nothing after it, by limits of the ${limitsOf}`,
      async (place) => {
        const worker = await place.another();
        await place.set(SYSTEM, rpm);
        const generation = await generationOf(worker);
        const take = (known: number) => {
          const options = { generation: known, ...(limitsOf === "lease" ? { limitsOf } : {}) };
          return worker.takeReply(
            [claim("a", rpm, { rpm: 1 }, { origin: { asOfMs: T0, generation: known } })],
            T0,
            options,
          );
        };
        assert.notEqual(await take(generation), "stale");
        await place.setPolicy(SYSTEM, { frozen: {} });
        assert.equal(await take(generation), "stale");
        assert.deepEqual((await worker.resolve("a", "api")).frozen, {});
        assert.notEqual(await take(await generationOf(worker)), "stale", "whether it is frozen, the engine decides");
        assert.equal(await place.level("a", "rpm", T0), 8_000);
      },
    );
  }
}

/** The generation of configuration, as a process knows it that has just read. */
async function generationOf(place: TestedNamespace): Promise<number> {
  await place.scope.config.resolve("a", "api");
  const generation = place.scope.config.generation();
  assert.ok(generation !== undefined);
  return generation;
}
