import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { newGround, optionsFor } from "./store-kit.ts";
import { Meter, type Units } from "./units.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const DOCUMENT = "docs/reference/dynamodb-costs.md";
const two = [Limit.perMinute("rpm", 100), Limit.perMinute("tpm", 10_000)];
const key = { entityId: "key", resource: "gpt-4" } as const;
const child = { entityId: "child", resource: "gpt-4" } as const;
const consume = { rpm: 1, tpm: 500 } as const;

/** Every public operation in one story, in the order of the document: its name there, and what it cost. */
async function story(dynamodb: DynamodbLocal, t: TestContext): Promise<ReadonlyMap<string, Units>> {
  const ground = await newGround(dynamodb, t);
  const costs = new Map<string, Units>();
  const opened: RateLimiter[] = [];
  t.after(() => Promise.all(opened.map((limiter) => limiter.close())));
  const process = async (clock: SimulatedClock) => {
    const meter = new Meter(dynamodb.client);
    const store = dynamoOver(optionsFor(meter, ground.table, { clock, denyMemoryMs: 1_000 }));
    const limiter = await RateLimiter.open({ store, clock });
    opened.push(limiter);
    /** Several ways to say a name cost the same, each. */
    const cost = async <Answer>(name: string, ...works: (() => PromiseLike<Answer>)[]): Promise<Answer> => {
      let answer: Answer | undefined;
      assert.ok(!costs.has(name), name);
      for (const work of works) {
        const units = await meter.of(async () => {
          answer = await work();
        });
        assert.deepEqual(units, costs.get(name) ?? units, `${name}: ${work}`);
        costs.set(name, units);
      }
      return answer as Answer;
    };
    return { limiter, cost };
  };
  const clock = new SimulatedClock(T0);
  const { limiter, cost } = await process(clock);

  await cost("`setSystemDefaults`", () => limiter.setSystemDefaults(two));
  await cost("`setResourceDefaults`, the first time", () => limiter.setResourceDefaults("gpt-4", two.slice(0, 1)));
  await cost("`setResourceDefaults`, others", () => limiter.setResourceDefaults("gpt-4", two));
  await cost("`setResourceDefaults`, what is there already", () => limiter.setResourceDefaults("gpt-4", two));
  await cost("`createEntity`", () => limiter.createEntity({ id: "project" }));
  await cost("`createEntity` below a parent", () =>
    limiter.createEntity({ id: "child", parentId: "project", cascade: true }),
  );
  // So long after, nobody need look twice whether a copy of the table knows of the changes.
  await clock.advance(10_000);

  await cost("`acquire`, first contact, nothing taken before", () => limiter.acquire({ ...key, consume }));
  const lease = await cost("`acquire`", () => limiter.acquire({ ...key, consume }));
  const remaining = await cost("`lease.remaining`", async () => lease.remaining);
  assert.deepEqual(remaining, [
    { ...key, limit: "rpm", counts: "rpm", available: 98, capacity: 100 },
    { ...key, limit: "tpm", counts: "tpm", available: 9_000, capacity: 10_000 },
  ]);
  const other = await limiter.acquire({ ...key, consume });
  await cost<unknown>(
    "`lease.adjust`, `lease.consume`",
    () => lease.adjust({ tpm: 20 }),
    () => lease.consume({ tpm: 20 }),
  );
  await cost<unknown>(
    "`lease.release`, `lease.rollback`",
    () => lease.release({ tpm: 20 }),
    () => other.rollback(),
  );
  await cost("`lease.settle`", () => lease.settle());
  const later = await process(clock);
  await later.cost("`acquire`, first contact, a live bucket", () => later.limiter.acquire({ ...key, consume }));
  await clock.advance(50_000);
  await cost("`acquire`, when remembered configuration has expired", async () => {
    await clock.advance(10_000);
    await limiter.acquire({ ...key, consume });
  });
  await limiter.acquire({ ...child, consume });
  await cost("`acquire`, child and parent", () => limiter.acquire({ ...child, consume }));
  await cost("`acquire` with `atomic`, child and parent", () => limiter.acquire({ ...child, consume, atomic: true }));
  // After a transaction the buckets are looked at once.
  await limiter.acquire({ ...child, consume });
  await limiter.acquire({ entityId: "project", resource: "gpt-4", consume: { rpm: 95 } });
  const much = { ...child, consume: { rpm: 50 } } as const;
  await cost("`tryAcquire`, child and parent, refused by the parent", () => limiter.tryAcquire(much));
  // Until the refusal is forgotten, nobody is asked at all.
  await clock.advance(2_000);
  await cost("`tryAcquire`, child and parent, refused by a parent that refused lately", () => limiter.tryAcquire(much));
  await limiter.acquire({ ...key, consume: { rpm: 90 } });
  await cost("`tryAcquire`, refused by the bucket", () => limiter.tryAcquire({ ...key, consume: { rpm: 50 } }));
  await cost("`tryAcquire`, refused from memory", () => limiter.tryAcquire({ ...key, consume: { rpm: 50 } }));
  await cost("`tryAcquire`, more than a limit can hold", () =>
    assert.rejects(limiter.tryAcquire({ ...key, consume: { rpm: 500 } }), { code: "amount_above_capacity" }),
  );
  await cost<unknown>(
    "`available`, `timeUntilAvailable`",
    () => limiter.available(key),
    () => limiter.timeUntilAvailable({ ...key, consume }),
  );
  await cost("`explain`", () => limiter.explain({ ...key, consume }));

  await cost("`resolveLimits`", () => limiter.resolveLimits("key", "gpt-4"));
  await cost("`setLimits`, no bucket yet", () => limiter.setLimits("new", two, { resource: "gpt-4" }));
  await cost("`setLimits`, a live bucket", () => limiter.setLimits("key", two, { resource: "gpt-4" }));
  await cost("`getLimits`", () => limiter.getLimits("key", { resource: "gpt-4" }));
  await cost<unknown>(
    "`getResourceDefaults`, `getSystemDefaults`",
    () => limiter.getResourceDefaults("gpt-4"),
    () => limiter.getSystemDefaults(),
  );
  await cost("`listLimits`, a page", () => limiter.listLimits("key"));
  await cost("`listEntitiesWithLimits`, a page of two", () => limiter.listEntitiesWithLimits("gpt-4"));
  await cost("`listResources`, a page of one", () => limiter.listResources());
  await cost("`deleteLimits`, a live bucket", () => limiter.deleteLimits("key", { resource: "gpt-4" }));
  await cost("`setAccess` of an entity, a live bucket", () => limiter.setAccess({ entityId: "key" }, "disabled"));
  await limiter.setAccess({ entityId: "key" }, "inherit");
  await cost("`setCascade` of an entity, a live bucket", () => limiter.setCascade({ entityId: "key" }, true));
  await cost("`topUp`", () => limiter.topUp({ ...key, amounts: { rpm: 5 }, idempotencyKey: "paid-1" }));
  await cost("`resetBucket`", () => limiter.resetBucket({ ...key, idempotencyKey: "reset-1" }));

  await cost("`getEntity`", () => limiter.getEntity("child"));
  await cost("`updateEntity`, its name", () => limiter.updateEntity("child", { name: "Renamed" }));
  await cost("`getChildren`, a page", () => limiter.getChildren("project"));
  await cost("`listEntities`, a page of two", () => limiter.listEntities());
  await cost("`deleteEntity`, a live bucket", () => limiter.deleteEntity("child"));
  await cost("`deleteResourceDefaults`", () => limiter.deleteResourceDefaults("gpt-4"));
  await cost("`deleteSystemDefaults`", () => limiter.deleteSystemDefaults());

  await cost("`registerNamespace`", () => limiter.registerNamespace("tenant"));
  const { id } = await cost("`getNamespace`", () => limiter.getNamespace("tenant"));
  await cost("`freezeNamespace`", () => limiter.freezeNamespace("default"));
  await cost("`unfreezeNamespace`", () => limiter.unfreezeNamespace("default"));
  await cost("`listNamespaces`, a page", () => limiter.listNamespaces());
  await cost("`deleteNamespace`", () => limiter.deleteNamespace("tenant"));
  await cost("`listOrphanNamespaces`, a page", () => limiter.listOrphanNamespaces());
  await cost("`recoverNamespace`", () => limiter.recoverNamespace(id));
  await limiter.deleteNamespace("tenant");
  await cost("`purgeNamespace`, nothing in it but its log", () => limiter.purgeNamespace(id));

  await cost("`auditEvents`, a page", () => limiter.auditEvents({ entityId: "key" }));
  await cost<unknown>(
    "`usage`, `usageSummary` of an entity, one bucket",
    () => limiter.usage({ entityId: "key", window: "hourly" }),
    () => limiter.usageSummary({ entityId: "key", window: "hourly" }),
  );
  await cost("`usage` of an entity on a resource", () => limiter.usage({ ...key, window: "monthly" }));
  await cost("`resourceCapacity`, two buckets whose configuration just changed", () =>
    limiter.resourceCapacity("gpt-4", "rpm"),
  );
  await cost("`isAvailable`", () => limiter.isAvailable());
  // Only the parent counts what is used: no bucket tells of the child, so it is looked up.
  await limiter.createEntity({ id: "payer" });
  await limiter.createEntity({ id: "bare", parentId: "payer" });
  await limiter.setLimits("payer", [Limit.perMinute("usd", 100)]);
  await clock.advance(60_000);
  const paid = { entityId: "bare", resource: "images", consume: { usd: 1 } };
  for (let i = 0; i < 2; i++) await limiter.acquire(paid);
  await cost("`acquire`, a child that is charged nothing, and its parent", () => limiter.acquire(paid));

  await cost("`createPlan`", () => limiter.createPlan({ id: "gold" }));
  await cost("`setPlanLimits`", () => limiter.setPlanLimits("gold", two));
  await cost("`createEntity` with a plan", () => limiter.createEntity({ id: "member", planId: "gold" }));
  await cost("`setTotals`, no bucket yet", () => limiter.setTotals("member", two));
  await clock.advance(10_000);
  await cost("`resolveLimits`, a plan that this process has not seen", () => limiter.resolveLimits("member", "gpt-4"));
  await cost("`resolveLimits`, a plan that it has seen", () => limiter.resolveLimits("member", "gpt-4"));
  await cost("`updateEntity`, its plan", () => limiter.updateEntity("member", { planId: null }));
  await cost("`deletePlan`", () => limiter.deletePlan("gold"));

  const usd = [Limit.perDay("usd", 1_000)];
  await limiter.createPlan({ id: "silver" });
  await limiter.setPlanLimits("silver", two);
  await limiter.createEntity({ id: "planned", planId: "silver" });
  for (const id of ["spender", "purse"]) {
    await limiter.createEntity({ id });
    await limiter.setTotals(id, usd);
  }
  await limiter.createEntity({ id: "heir", parentId: "spender", cascade: true });
  await limiter.setTotals("heir", usd);
  for (const id of ["spender", "heir"]) await limiter.setLimits(id, two);
  await clock.advance(60_000);
  const asking = (entityId: string, more: object) => ({
    entityId,
    resource: "gpt-4",
    consume: { ...consume, ...more },
  });
  const only = { entityId: "purse", resource: "gpt-4", consume: { usd: 1 } };
  const steady = [asking("planned", {}), asking("spender", { usd: 1 }), asking("heir", { usd: 1 }), only];
  for (const request of steady) for (let i = 0; i < 2; i++) await limiter.acquire(request);
  await cost("`acquire`, an entity with a plan", () => limiter.acquire(steady[0]!));
  await cost("`acquire`, an entity with totals", () => limiter.acquire(steady[1]!));
  await cost("`acquire`, child and parent, both with totals", () => limiter.acquire(steady[2]!));
  await cost("`acquire` with `atomic`, an entity with totals", () => limiter.acquire({ ...steady[1]!, atomic: true }));
  await cost("`acquire`, only totals count what is used", () => limiter.acquire(only));
  await cost("`refusals` of an entity, a page", () => limiter.refusals({ window: "hourly", entityId: "key" }));
  await cost<unknown>(
    "`refusals`, `refusalTotals`, a page",
    () => limiter.refusals({ window: "monthly" }),
    () => limiter.refusalTotals({ by: "entity", top: 10 }),
  );
  await cost("`refusalLog` of an entity, a page", () => limiter.refusalLog({ entityId: "key" }));
  await cost("`refusalLog`, a page", () => limiter.refusalLog());
  // Those of before were written when a minute had passed.
  for (const entityId of ["late-1", "late-2"]) {
    const all = { entityId, resource: "gpt-4", consume: { rpm: 100 }, limits: two };
    await limiter.acquire(all);
    const late = await limiter.tryAcquire(all);
    assert.equal(late.ok, false);
  }
  await cost("`close`, refusals of two buckets to be written", () => limiter.close());
  return costs;
}

function documented(): readonly string[] {
  const text = readFileSync(new URL(`../../${DOCUMENT}`, import.meta.url), "utf8");
  return text.split("\n").filter((line) => line.startsWith("| `"));
}

await describeDynamo("what every operation costs", (dynamodb) => {
  test(`the table in ${DOCUMENT} is what the dynamodb counts`, async (t) => {
    const rows = [...(await story(dynamodb, t))].map(
      ([name, { calls, writes, indexWrites, reads }]) =>
        `| ${name} | ${calls} | ${writes} | ${indexWrites} | ${reads} |`,
    );
    assert.deepEqual(documented(), rows);
  });
});
