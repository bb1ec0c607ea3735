import assert from "node:assert/strict";
import { test } from "node:test";
import type { DynamoAnswer } from "../../src/adapters/dynamodb/client.ts";
import { Limit, RateLimitExceeded, type RateLimiter, RateLimiterUnavailable } from "../../src/entry/index.ts";
import { deepTest } from "../deep-test.ts";
import { family, held, MINUTE_MS, rpm, take } from "../defects/kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { answeredBy, failure, THROTTLED } from "./faults.ts";
import { OneTable } from "./one-table.ts";
import { answersLost, type Fault } from "./store-kit.ts";

// Defects of the original in what it makes of DynamoDB's answers: lost ones, refusals that pass, and half ones.

await describeDynamo("no defect of the original shows in what is made of DynamoDB's answers", (dynamodb) => {
  const table = new OneTable(dynamodb);

  for (const [what, isNew] of [
    ["made", true],
    ["taken from", false],
  ] as const) {
    test(`W16: a bucket that is ${what} by a write whose answer was lost is charged once, and granted`, async () => {
      const scene = await table.newScene();
      const { limiter, wire } = await scene.process();
      await limiter.setSystemDefaults(rpm(100));
      if (!isNew) await take(limiter, "a", { rpm: 1 });
      const before = (await held(limiter, "a")).rpm ?? 0;
      wire.fault = everyAnswerLost(1);
      const lease = await take(limiter, "a", { rpm: 10 });
      assert.deepEqual(lease.consumed, { rpm: 10 });
      assert.equal((await held(limiter, "a")).rpm, before - 10);
    });
  }

  test("W16: a take that brings changed limits, and whose answer was lost, is charged once", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process();
    await limiter.setLimits("a", rpm(100));
    await take(limiter, "a", { rpm: 1 });
    await scene.clock.advance(1);
    await limiter.setLimits("a", rpm(50));
    wire.fault = everyAnswerLost(1);
    await take(limiter, "a", { rpm: 10 });
    assert.deepEqual(await held(limiter, "a"), { rpm: 40 });
  });

  test("W16: a take whose answers are lost again and again counts once at most, and is nobody's grant", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process();
    await limiter.setSystemDefaults(rpm(100));
    await take(limiter, "a", { rpm: 1 });
    wire.fault = answersLost("UpdateItem", 100);
    await assert.rejects(take(limiter, "a", { rpm: 10 }), RateLimiterUnavailable);
    wire.fault = ({ send }) => send();
    assert.deepEqual(await held((await scene.process()).limiter, "a"), { rpm: 89 });
  });

  test("W16: all levels of one transaction whose answer was lost are charged once", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process();
    await family(limiter, { child: 100, parent: 100 });
    await take(limiter, "child", { rpm: 1 });
    wire.fault = answersLost("TransactWriteItems", 1);
    await limiter.acquire({ entityId: "child", resource: "api", consume: { rpm: 10 }, atomic: true });
    for (const id of ["child", "parent"]) assert.deepEqual(await held(limiter, id), { rpm: 89 }, id);
  });

  test("X13: a rollback whose answer was lost gives back once, not twice", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process();
    await limiter.setSystemDefaults(rpm(100));
    await take(limiter, "a", { rpm: 50 });
    const lease = await take(limiter, "a", { rpm: 20 });
    wire.fault = answersLost("UpdateItem", 1);
    await lease.rollback();
    await lease.rollback();
    assert.deepEqual(await held(limiter, "a"), { rpm: 50 });
  });

  test("W17: a take that meets a transaction on its item is tried again, and is no outage", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process({ onUnavailable: "block" });
    await limiter.setSystemDefaults(rpm(100));
    await take(limiter, "a", { rpm: 1 });
    wire.fault = answeredBy("UpdateItem", failure("TransactionConflictException"), 2);
    const lease = await take(limiter, "a", { rpm: 10 });
    assert.equal(lease.degraded, false);
    wire.fault = answeredBy("UpdateItem", failure("TransactionConflictException"), 1);
    await lease.rollback();
    assert.deepEqual(await held(limiter, "a"), { rpm: 99 });
  });

  test("W17: where a transaction always stands in the way, it is a refusal: nobody is let in for it", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process({ onUnavailable: "allow" });
    await limiter.setSystemDefaults(rpm(100));
    await take(limiter, "a", { rpm: 1 });
    wire.fault = answeredBy("UpdateItem", failure("TransactionConflictException"), 1_000);
    await assert.rejects(take(limiter, "a", { rpm: 10 }), RateLimitExceeded);
  });

  for (const level of ["child", "parent"]) {
    test(`W18: when the ${level} cannot be reached, the other gets back what was taken from it`, async () => {
      const scene = await table.newScene();
      const { limiter, wire } = await scene.process({ onUnavailable: "block" });
      await family(limiter, { child: 10, parent: 10 });
      await take(limiter, "child", { rpm: 1 });
      const { pk } = scene.bucketKey(level);
      wire.fault = async ({ input, send }) => (partitionOf(input) === pk ? UNSENT : send());
      await assert.rejects(take(limiter, "child", { rpm: 4 }), RateLimiterUnavailable);
      wire.fault = ({ send }) => send();
      for (const id of ["child", "parent"]) assert.deepEqual(await held(limiter, id), { rpm: 9 }, id);
    });
  }

  test("X23: what a refused request took from its child is given back, also when that is throttled at first", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process();
    await family(limiter, { child: 10, parent: 5 });
    const other = await scene.process();
    await take(limiter, "child", { rpm: 1 });
    // Behind the back of the first, whose parent still seems to have enough.
    await take(other.limiter, "parent", { rpm: 4 });
    const { pk } = scene.bucketKey("child");
    let updates = 0;
    wire.fault = async ({ operation, input, send }) => {
      const isGivenBack = operation === "UpdateItem" && partitionOf(input) === pk && ++updates === 2;
      return isGivenBack ? THROTTLED : send();
    };
    await assert.rejects(take(limiter, "child", { rpm: 3 }), RateLimitExceeded);
    assert.ok(updates >= 3, `${updates} writes on the child: none was to be given back`);
    assert.deepEqual(await held(other.limiter, "child"), { rpm: 9 });
  });

  test("W11: an outage follows onUnavailable; a refusal of access and a wrong table never let anyone in", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process({ onUnavailable: "allow" });
    await limiter.setSystemDefaults(rpm(10));
    await take(limiter, "a", { rpm: 1 });
    wire.fault = async () => UNSENT;
    const lease = await take(limiter, "a", { rpm: 1 });
    assert.match(String(lease.degraded), /unavailable/);
    for (const code of ["AccessDeniedException", "ValidationException", "ResourceNotFoundException"]) {
      for (const [operation, entityId] of [
        ["UpdateItem", "a"],
        ["BatchGetItem", `new-${code}`],
      ] as const) {
        wire.fault = answeredBy(operation, failure(code), 1_000);
        await assert.rejects(
          take(limiter, entityId, { rpm: 1 }),
          (error) => !(error instanceof RateLimiterUnavailable) && !(error instanceof RateLimitExceeded),
          `${code} at ${operation}`,
        );
      }
    }
  });

  test("W22: keys that a read left over are asked for again; a limit of 1 is not taken for the system's 1,000", async () => {
    const scene = await table.newScene();
    const admin = await scene.process();
    await admin.limiter.setSystemDefaults(rpm(1_000));
    await admin.limiter.setLimits("a", rpm(1), { resource: "api" });
    const { limiter, wire } = await scene.process({ timeoutMs: 1_000 }, { timeoutMs: 1_000 });
    let left = 3;
    wire.fault = leftOver(scene.table, () => left-- > 0);
    await take(limiter, "a", { rpm: 1 });
    await assert.rejects(take(limiter, "a", { rpm: 1 }), RateLimitExceeded);
    assert.ok(left < 1, "nothing was left over");
  });

  deepTest("W22: where keys are left over for good it is an outage, and nothing is remembered of it", async () => {
    const scene = await table.newScene();
    const admin = await scene.process();
    await admin.limiter.setSystemDefaults(rpm(1_000));
    await admin.limiter.setLimits("a", rpm(1), { resource: "api" });
    const { limiter, wire } = await scene.process({ onUnavailable: "block" });
    // By a clock that goes on with every call, so that the time there is comes to its end.
    const { fault: whole } = wire;
    wire.fault = (call) => {
      scene.clock.set(scene.clock.now() + 500);
      return leftOver(scene.table, () => true)(call);
    };
    await assert.rejects(take(limiter, "a", { rpm: 1 }), RateLimiterUnavailable);
    wire.fault = whole;
    await take(limiter, "a", { rpm: 1 });
    await assert.rejects(take(limiter, "a", { rpm: 1 }), RateLimitExceeded);
  });

  test("W21, W22: an entity that was left over is still charged to its parent", async () => {
    const scene = await table.newScene();
    const admin = await scene.process();
    await family(admin.limiter, { child: 100, parent: 5 });
    const { limiter, wire } = await scene.process();
    let left = 2;
    wire.fault = leftOver(scene.table, () => left-- > 0);
    await take(limiter, "child", { rpm: 5 });
    await assert.rejects(take(limiter, "child", { rpm: 1 }), RateLimitExceeded);
  });

  test("W32: an outage costs an acquire the time there is and no more calls than that, however many ask", async () => {
    const scene = await table.newScene();
    const { limiter, wire } = await scene.process({ onUnavailable: "allow" });
    wire.fault = async () => failure("AccessDeniedException");
    const calls = await wire.during(() => limiter.tryAcquire(asking("a")).catch(() => {}));
    assert.deepEqual(calls, ["BatchGetItem"]);
    wire.fault = async ({ send }) => {
      scene.clock.set(scene.clock.now() + 20_000);
      await send();
      return { kind: "lost", cause: new Error("lost") };
    };
    const many = await wire.during(() =>
      Promise.all(Array.from({ length: 10 }, () => limiter.tryAcquire(asking("a")).catch(() => {}))),
    );
    assert.deepEqual(many, ["BatchGetItem"]);
  });

  test("X25: after an idle hour two processes together get the capacity, not twice as much", async () => {
    const scene = await table.newScene();
    const limiters: RateLimiter[] = [];
    for (let i = 0; i < 2; i++) limiters.push((await scene.process()).limiter);
    await limiters[0]?.setSystemDefaults([Limit.perMinute("rpm", 40)]);
    for (const limiter of limiters) await take(limiter, "a", { rpm: 1 });
    await scene.clock.advance(60 * MINUTE_MS);
    let granted = 0;
    for (let i = 0; i < 60; i++) if ((await limiters[i % 2]?.tryAcquire(asking("a")))?.ok) granted++;
    assert.equal(granted, 40);
  });
});

const UNSENT: DynamoAnswer = { kind: "unsent", cause: new Error("no connection") };

function asking(entityId: string) {
  return { entityId, resource: "api", consume: { rpm: 1 } };
}

function partitionOf(input: Record<string, unknown>): string | undefined {
  const { PK } = (input.Key ?? {}) as { PK?: { S: string } };
  return PK?.S;
}

/** Done, but the answer is lost: of the first so many writes, whichever they are. */
function everyAnswerLost(count: number): Fault {
  let left = count;
  return async ({ operation, send }) => {
    const answer = await send();
    const isWrite = operation === "UpdateItem" || operation === "PutItem";
    return isWrite && left-- > 0 ? { kind: "lost", cause: new Error("the answer was lost") } : answer;
  };
}

/** Reads of several items bring none of them, while it is so: all are left over. */
function leftOver(table: string, isSo: () => boolean): Fault {
  return async ({ operation, input, send }) => {
    if (operation !== "BatchGetItem" || !isSo()) return send();
    return { kind: "answered", body: { Responses: { [table]: [] }, UnprocessedKeys: input.RequestItems } };
  };
}
