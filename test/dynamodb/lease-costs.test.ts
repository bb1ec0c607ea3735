import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { newGround, optionsFor } from "./store-kit.ts";
import { Meter, type Units } from "./units.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const DOCUMENT = "docs/reference/dynamodb-costs.md";
const two = [Limit.perMinute("rpm", 1_000), Limit.perMinute("tpm", 100_000)];
const key = { entityId: "key", resource: "gpt-4", consume: { rpm: 1, tpm: 500 } } as const;

/** Everything that is done with stored leases, in the order of the document. */
async function story(dynamodb: DynamodbLocal, t: TestContext): Promise<ReadonlyMap<string, Units>> {
  const ground = await newGround(dynamodb, t);
  const clock = new SimulatedClock(T0);
  const meter = new Meter(dynamodb.client);
  const store = dynamoOver(optionsFor(meter, ground.table, { clock, denyMemoryMs: 1_000 }));
  const limiter = await RateLimiter.open({ store, clock });
  t.after(() => limiter.close());
  const holds = { holdMs: 300_000, holdMaxMs: 86_400_000, onExpiry: "refund" } as const;
  const storedLeases = new StoredLeases(limiter, { ...holds, onChange: () => {} });
  await limiter.setResourceDefaults("gpt-4", two);
  await limiter.createEntity({ id: "project" });
  await limiter.createEntity({ id: "child", parentId: "project", cascade: true });
  await clock.advance(10_000);
  await limiter.acquire(key);
  await limiter.acquire({ ...key, entityId: "child" });

  const costs = new Map<string, Units>();
  const cost = async <Answer>(name: string, work: () => Promise<Answer>): Promise<Answer> => {
    let answer: Answer | undefined;
    const units = await meter.of(async () => {
      answer = await work();
    });
    assert.ok(!costs.has(name), name);
    costs.set(name, units);
    return answer as Answer;
  };
  const held = async (more: object = {}) => (await storedLeases.acquire({ ...key, ...more })).lease.leaseId as string;

  await cost("the first of a namespace, process and hour that holds, noted before", async () => {
    await storedLeases.settle(await held());
  });
  await cost("`acquire` with `holdMs: 0`", () => storedLeases.acquire({ ...key, holdMs: 0 }));
  const one = await cost("`acquire` that holds", () => held());
  await cost("`acquire` that holds, child and parent", () => held({ entityId: "child" }));
  await cost("`settle` as estimated", () => storedLeases.settle(one));
  const other = await held();
  await cost("`settle` at more or less", () => storedLeases.settle(other, { consumed: { tpm: 700 } }));
  await cost("`settle`, repeated", () => storedLeases.settle(other, { consumed: { tpm: 700 } }));
  const three = await held();
  await cost("`adjust`, `consume`, `release`", () => storedLeases.consume(three, { amounts: { tpm: 10 } }));
  await cost("`extend`", () => storedLeases.extend(three, { holdMs: 60_000 }));
  await cost("`get`", () => storedLeases.get(three));
  await cost("`rollback`", () => storedLeases.rollback(three));
  const keyed = { ...key, idempotencyKey: "order-7" };
  await cost("`acquire` that holds, with an idempotency key", () => storedLeases.acquire(keyed));
  await cost("the same repeated", () => storedLeases.acquire(keyed));
  await cost("`acquire` with `holdMs: 0` and an idempotency key", () =>
    storedLeases.acquire({ ...key, holdMs: 0, idempotencyKey: "order-8" }),
  );
  await storedLeases.settle((await storedLeases.acquire(keyed)).lease.leaseId as string);
  await cost("looking for namespaces with something due in the next minute, and none has", async () => {
    assert.deepEqual(await store.namespaces.withDueLeases(T0 - 60_000), []);
  });
  await cost("the same, and one namespace may have", async () => {
    assert.equal((await store.namespaces.withDueLeases(T0 + 60_000)).length, 1);
  });
  await cost("looking for what is due in a namespace, and nothing is", () => storedLeases.expireDue());
  await clock.advance(300_000);
  await cost("the same, and one lease is: given back", () => storedLeases.expireDue());
  return costs;
}

function documented(): readonly string[] {
  const text = readFileSync(new URL(`../../${DOCUMENT}`, import.meta.url), "utf8");
  return text.split("\n").filter((line) => line.startsWith("| lease: "));
}

await describeDynamo("what stored leases cost", (dynamodb) => {
  test(`their table in ${DOCUMENT} is what DynamoDB counts`, async (t) => {
    const rows = [...(await story(dynamodb, t))].map(
      ([name, { calls, writes, indexWrites, reads }]) =>
        `| lease: ${name} | ${calls} | ${writes} | ${indexWrites} | ${reads} |`,
    );
    assert.deepEqual(documented(), rows);
  });
});
