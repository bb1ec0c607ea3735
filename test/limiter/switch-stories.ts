import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Limit, LimiterError, type RateLimiter } from "../../src/entry/index.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";

/** Two limiters on one store, each in a process of its own, on one clock. */
export interface TwoLimiters {
  /** Changes configuration. */
  readonly admin: RateLimiter;
  /** Takes, by configuration that it remembers for a minute. */
  readonly worker: RateLimiter;
  readonly clock: SimulatedClock;
  close(): Promise<void>;
}

const LLM = "llm";
const CONFIG_TTL_MS = 60_000;

type Story = (two: TwoLimiters, ask: (entityId: string, more?: Ask) => Promise<string>) => Promise<void>;
type Ask = { readonly also?: Record<string, Record<string, number>>; readonly atomic?: boolean };

/** What an operator switches off is off with the next request of every process, whatever that process remembers. */
export function tellSwitchStories(open: (t: TestContext) => Promise<TwoLimiters>): void {
  const story = (sentence: string, tell: Story) =>
    test(sentence, async (t) => {
      const two = await open(t);
      try {
        const { admin, worker } = two;
        await admin.createEntity({ id: "org" });
        await admin.createEntity({ id: "team", parentId: "org", cascade: true });
        for (const id of ["key", "other"]) await admin.createEntity({ id, parentId: "team", cascade: true });
        for (const id of ["key", "other", "new"]) {
          await admin.setLimits(id, [Limit.perMinute("rpm", 100)], { resource: LLM });
        }
        await tell(two, (entityId, more = {}) => outcomeOf(worker, entityId, more));
      } finally {
        await two.close();
      }
    });

  for (const [what, scope] of [
    ["an entity", { entityId: "key" }],
    ["an entity on a resource", { entityId: "key", resource: LLM }],
    ["a resource", { resource: LLM }],
    ["a parent without limits", { entityId: "team" }],
    ["a parent without limits, on a resource", { entityId: "team", resource: LLM }],
    ["a grandparent without limits", { entityId: "org" }],
  ] as const) {
    story(`${what} that is switched off grants nothing from the next request on`, async ({ admin, clock }, ask) => {
      assert.equal(await ask("key"), "granted");
      await clock.advance(1_000);
      await admin.setAccess(scope, "disabled");
      assert.equal(await ask("key"), "resource_disabled");
      assert.equal(await ask("key", { atomic: true }), "resource_disabled");
      await clock.advance(1_000);
      assert.equal(await ask("key"), "resource_disabled");
      await admin.setAccess(scope, "inherit");
      await clock.advance(CONFIG_TTL_MS);
      assert.equal(await ask("key"), "granted", "once what is remembered is a minute old");
    });
  }

  for (const [what, scope] of [
    ["a key", { entityId: "bare" }],
    ["a key on a resource", { entityId: "bare", resource: LLM }],
    ["the team above it, which has no limits either,", { entityId: "team" }],
    ["the organisation", { entityId: "org" }],
  ] as const) {
    story(
      `${what} is off at once also where only the organisation counts what is used`,
      async ({ admin, clock }, ask) => {
        await admin.createEntity({ id: "bare", parentId: "team", cascade: true });
        await admin.setLimits("org", [Limit.perMinute("rpm", 1_000)], { resource: LLM });
        assert.equal(await ask("bare"), "granted");
        assert.equal(await ask("bare"), "granted");
        await clock.advance(1_000);
        await admin.setAccess(scope, "disabled");
        assert.equal(await ask("bare"), "resource_disabled");
        assert.equal(await ask("bare", { atomic: true }), "resource_disabled");
        await admin.setAccess(scope, "inherit");
        await clock.advance(CONFIG_TTL_MS);
        assert.equal(await ask("bare"), "granted");
      },
    );
  }

  story("an entity nobody took from is off although its limits are remembered", async ({ admin, worker }, ask) => {
    await worker.available({ entityId: "new", resource: LLM });
    await admin.setAccess({ entityId: "new" }, "disabled");
    assert.equal(await ask("new"), "resource_disabled");
  });

  story("a key nobody took from is off below a parent that is remembered as on", async ({ admin }, ask) => {
    assert.equal(await ask("key"), "granted");
    await admin.setAccess({ entityId: "org" }, "disabled");
    assert.equal(await ask("other"), "resource_disabled");
    assert.equal(await ask("other", { atomic: true }), "resource_disabled");
  });

  story("a parent with limits and a grandparent without: each is off at once", async ({ admin, clock }, ask) => {
    await admin.setLimits("team", [Limit.perMinute("rpm", 1_000)], { resource: LLM });
    assert.equal(await ask("key"), "granted");
    for (const entityId of ["org", "team"]) {
      await admin.setAccess({ entityId }, "disabled");
      assert.equal(await ask("key"), "resource_disabled", entityId);
      assert.equal(await ask("other"), "resource_disabled", entityId);
      await admin.setAccess({ entityId }, "enforce");
      await clock.advance(CONFIG_TTL_MS);
      assert.equal(await ask("key"), "granted", entityId);
    }
  });

  for (const atomic of [false, true]) {
    const how = atomic ? ", in one transaction" : "";
    story(`a child that is exempt leaves its parent switched off${how}`, async ({ admin, clock }, ask) => {
      await admin.setLimits("org", [Limit.perMinute("rpm", 1_000)], { resource: LLM });
      assert.equal(await ask("org"), "granted");
      await clock.advance(1_000);
      await admin.setAccess({ resource: LLM }, "disabled");
      await admin.setAccess({ entityId: "key" }, "enforce");
      for (let asked = 0; asked < 3; asked++) {
        assert.equal(await outcomeOf(admin, "key", { atomic }), "granted", "it is charged to the parent, too");
      }
      assert.equal(await ask("org"), "resource_disabled");
      assert.equal(await ask("key"), "granted");
      await admin.setAccess({ resource: LLM }, "enforce");
      await clock.advance(CONFIG_TTL_MS);
      assert.equal(await ask("org"), "granted");
    });

    story(`so it does where its request makes the bucket of the parent${how}`, async ({ admin, worker }, ask) => {
      await admin.setLimits("org", [Limit.perMinute("rpm", 1_000)], { resource: LLM });
      await worker.available({ entityId: "org", resource: LLM });
      await admin.setAccess({ resource: LLM }, "disabled");
      await admin.setAccess({ entityId: "key" }, "enforce");
      assert.equal(await outcomeOf(admin, "key", { atomic }), "granted");
      assert.equal(await ask("org"), "resource_disabled");
      assert.equal(await outcomeOf(admin, "key", { atomic }), "granted");
    });
  }

  story("one resource of a request that is off refuses all of them", async ({ admin }, ask) => {
    await admin.setLimits("key", [Limit.perMinute("slots", 100)], { resource: "gpu" });
    const also = { gpu: { slots: 1 } };
    assert.equal(await ask("key", { also }), "granted");
    await admin.setAccess({ entityId: "team", resource: "gpu" }, "disabled");
    assert.equal(await ask("key", { also }), "resource_disabled");
    assert.equal(await ask("key"), "granted");
  });

  story("moved below a parent that is off, an entity and its children are off", async ({ admin }, ask) => {
    await admin.createEntity({ id: "closed" });
    await admin.setAccess({ entityId: "closed" }, "disabled");
    assert.equal(await ask("key"), "granted");
    await admin.updateEntity("team", { parentId: "closed" });
    assert.equal(await ask("key"), "resource_disabled");
  });

  story("a parent that is off counts as soon as it is charged", async ({ admin }, ask) => {
    await admin.setCascade({ entityId: "key" }, false);
    await admin.setAccess({ entityId: "org" }, "disabled");
    assert.equal(await ask("key"), "granted");
    await admin.setCascade({ entityId: "key" }, true);
    assert.equal(await ask("key"), "resource_disabled");
  });

  story("a bypass that is taken away is over with the next request", async ({ admin, worker }, ask) => {
    await admin.setAccess({ entityId: "key" }, "bypass");
    const left = async () => (await worker.available({ entityId: "key", resource: LLM }))[0]?.available;
    assert.equal(await ask("key"), "granted");
    assert.equal(await left(), 100);
    await admin.setAccess({ entityId: "key" }, "inherit");
    assert.equal(await ask("key"), "granted");
    assert.equal(await left(), 99);
  });
}

async function outcomeOf(limiter: RateLimiter, entityId: string, more: Ask): Promise<string> {
  try {
    const { ok } = await limiter.tryAcquire({ entityId, resource: LLM, consume: { rpm: 1 }, ...more });
    return ok ? "granted" : "refused";
  } catch (error) {
    if (error instanceof LimiterError) return error.code;
    throw error;
  }
}
