import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../entry/index.ts";
import { checkAdmission, SCENARIOS, type Scenario, scenarioOf, seededRandom } from "./scenarios.ts";

const scenario: Scenario = {
  summary: "",
  entities: [{ id: "a", limits: [Limit.perSecond("rps", 10, { burst: 30 }), Limit.perMinute("tpm", 60)] }],
  adjustMax: { tpm: 5 },
  next: () => ({ pauseMs: 0, holdMs: 0, entityId: "a", consume: { rps: 1 } }),
};

test("the bound is capacity and refill; one token more is an excess of one", () => {
  const corrected = { a: { tpm: 1_000 } };
  const checks = (rps: number, tpm: number, stores: number) =>
    checkAdmission({ scenario, granted: { a: { rps, tpm } }, corrected, elapsedMs: 1_999, callers: 4, stores });
  const [rps, tpm] = checks(50, 82, 1);
  assert.deepEqual(rps, { entityId: "a", limit: "rps", grantedTokens: 50, boundTokens: 50, excessTokens: 0 });
  // 60 and 2 of refill, and four calls that may each charge five more afterwards.
  assert.deepEqual(tpm, { entityId: "a", limit: "tpm", grantedTokens: 82, boundTokens: 82, excessTokens: 0 });
  assert.deepEqual(
    checks(51, 92, 1).map(({ excessTokens }) => excessTokens),
    [1, 10],
  );
  // Fewer corrections than could have been.
  const few = { scenario, granted: {}, corrected: { a: { tpm: 3 } }, elapsedMs: 1_999, callers: 4, stores: 1 };
  assert.equal(checkAdmission(few)[1]?.boundTokens, 65);
  // Two stores that know nothing of each other.
  assert.equal(checks(100, 0, 2)[0]?.excessTokens, 0);
});

test("a seed tells every request, and each asks for what its entity has", () => {
  for (const name of Object.keys(SCENARIOS) as (keyof typeof SCENARIOS)[]) {
    const { entities, adjustMax, next } = scenarioOf(name);
    const steps = (seed: number) => {
      const random = seededRandom(seed, 3);
      return Array.from({ length: 200 }, (_, index) => next({ random, index, elapsedMs: index * 7 }));
    };
    assert.deepEqual(steps(1), steps(1));
    assert.notDeepEqual(steps(1), steps(2));
    for (const { entityId, consume, adjust = {}, pauseMs } of steps(1)) {
      const names = entities.find(({ id }) => id === entityId)?.limits.map((limit) => limit.name) ?? [];
      for (const limit of Object.keys(consume)) assert.ok(names.includes(limit), `${name}: ${entityId} has ${limit}`);
      for (const [limit, more] of Object.entries(adjust)) assert.ok(more <= (adjustMax[limit] ?? 0));
      assert.ok(pauseMs >= 0 && pauseMs <= 500);
    }
  }
});
