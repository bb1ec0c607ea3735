import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Limit, LimiterError, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EVERY_STORE } from "./every-store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const on = { entityId: "key-1", resource: "gpt-4" } as const;

for (const [name, openStore] of EVERY_STORE) {
  describe(`a problem body does not tell a key's holder about its organisation, on ${name}`, () => {
    /** A key, its project and its organisation, each with less than the one below. */
    async function open(t: TestContext) {
      const clock = new SimulatedClock(T0);
      const { store, options } = openStore(clock, t);
      const limiter = await RateLimiter.open({ store, clock, ...options });
      await limiter.createEntity({ id: "acme-org" });
      await limiter.createEntity({ id: "acme-project", parentId: "acme-org", cascade: true });
      await limiter.createEntity({ id: "key-1", parentId: "acme-project", cascade: true });
      await limiter.setLimits("key-1", [Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 90_000)]);
      await limiter.setLimits("acme-project", [Limit.perMinute("tpm", 7_331)]);
      await limiter.setLimits("acme-org", [Limit.perMinute("tpm", 5_113)]);
      return { limiter, clock };
    }

    /** The body of what the work throws, which shows neither ids nor capacities of parents. */
    async function problemOf(work: () => Promise<unknown>) {
      const error = await work().then(
        () => assert.fail("nothing was thrown"),
        (thrown: unknown) => thrown,
      );
      assert.ok(error instanceof LimiterError, String(error));
      const problem = error.toProblem();
      assert.doesNotMatch(JSON.stringify(problem), /acme|7331|5113|\b613\b/);
      assert.equal(problem.status, error.httpStatus);
      assert.match(JSON.stringify(error), /acme/);
      assert.match(JSON.stringify(error.toProblem({ levels: "all" })), /acme/);
      return problem as { status: number; detail: string; statuses: { limit: string; available?: number }[] };
    }

    test("when the organisation stood in the way it says so as tpm^2, and nothing of it", async (t) => {
      const { limiter } = await open(t);
      const lease = await limiter.acquire({ ...on, consume: { rpm: 1, tpm: 4_500 } });
      const refused = () => limiter.acquire({ ...on, consume: { rpm: 1, tpm: 700 } });
      const problem = await problemOf(refused);
      assert.equal(problem.status, 429);
      assert.match(problem.detail, /^Rate limit exceeded for key-1 on gpt-4: tpm\^2; retry in \d+ seconds?\.$/);
      assert.deepEqual(
        problem.statuses.map(({ limit, available }) => [limit, available]),
        [
          ["rpm", 9],
          ["tpm", 85_500],
          ["tpm^2", undefined],
        ],
      );
      // The second time the refusal may come from memory: the same, and when it was seen.
      const again = (await problemOf(refused)).statuses.map((status) => ({ ...status, asOfMs: undefined }));
      assert.deepEqual(
        again,
        problem.statuses.map((status) => ({ ...status, asOfMs: undefined })),
      );
      assert.equal((await problemOf(() => lease.consume({ tpm: 700 }))).status, 429);
    });

    test("when the amount is more than the organisation can ever hold it is 413 without the capacity", async (t) => {
      const { limiter } = await open(t);
      const { status, detail } = await problemOf(() => limiter.acquire({ ...on, consume: { tpm: 6_000 } }));
      assert.equal(status, 413);
      assert.equal(detail, '6000 of "tpm" for key-1 on gpt-4 can never be granted. Ask for less.');
    });

    test("when the organisation is switched off it is 403 without saying who", async (t) => {
      const { limiter } = await open(t);
      await limiter.setAccess({ entityId: "acme-org" }, "disabled");
      const { status, detail } = await problemOf(() => limiter.acquire({ ...on, consume: { rpm: 1, tpm: 1 } }));
      assert.deepEqual([status, detail], [403, "gpt-4 is disabled."]);
    });
  });
}
