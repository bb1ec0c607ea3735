import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { failAfterMaxConflicts } from "./changes.ts";
import type { DynamoAnswer, DynamoOperation } from "./client.ts";
import { StoreRefused } from "./errors.ts";
import { collected } from "./paging.ts";
import { Records } from "./records.ts";
import { all, any, checkRecord, exists, isStill, putRecord, updateRecord } from "./records-write.ts";

const KEY = { pk: "p", sk: "s" };
const THROTTLED = failed("ThrottlingException");

test("a read is asked again while the table is busy, and given up in time with a sentence", async () => {
  const twice = tableThat(
    THROTTLED,
    { kind: "unsent", cause: new Error("gone") },
    answered({ Item: { a: { S: "x" } } }),
  );
  assert.deepEqual(await twice.records.get(KEY), { a: { S: "x" } });
  assert.equal(twice.calls.length, 3);
  const never = tableThat(...Array.from({ length: 200 }, () => THROTTLED));
  await assert.rejects(never.records.get(KEY), RateLimiterUnavailable);
  assert.ok(never.elapsedMs() <= 1_000, `${never.elapsedMs()} ms`);
});

test("what asking again cannot help is not asked again", async () => {
  const denied = tableThat(failed("AccessDeniedException"));
  await assert.rejects(denied.records.get(KEY), StoreRefused);
  assert.equal(denied.calls.length, 1);
});

test("a transaction that nobody knows the outcome of is sent again with the same token, word by word", async () => {
  const conflict = failed("TransactionCanceledException", [{ Code: "TransactionConflict" }]);
  const { records, calls } = tableThat(
    { kind: "lost", cause: 1 },
    failed("InternalServerError"),
    conflict,
    answered({}),
  );
  assert.deepEqual(await records.transact([putRecord(KEY, {}, undefined)]), { kind: "applied" });
  assert.equal(calls.length, 4);
  assert.equal(new Set(calls.map(({ body }) => body)).size, 1);
});

test("conditions that did not hold are told by the number of their write", async () => {
  const reasons = [{ Code: "None" }, { Code: "ConditionalCheckFailed" }, { Code: "TransactionConflict" }];
  const { records } = tableThat(failed("TransactionCanceledException", reasons));
  const reply = await records.transact([checkRecord(KEY, exists)]);
  assert.deepEqual(reply, { kind: "failed", failed: new Set([1]) });
});

test("a list goes on to its last page, and no further than it is asked for", async () => {
  const pages = [
    answered({ Items: [{ a: { S: "1" } }], LastEvaluatedKey: { PK: { S: "k" } } }),
    answered({ Items: [], LastEvaluatedKey: { PK: { S: "l" } } }),
    answered({ Items: [{ a: { S: "2" } }] }),
  ];
  const { records, calls } = tableThat(...pages);
  const found = await collected(records.query({ partition: "p" }));
  assert.deepEqual(found, [{ a: { S: "1" } }, { a: { S: "2" } }]);
  assert.deepEqual(
    calls.map(({ body }) => JSON.parse(body).ExclusiveStartKey?.PK?.S),
    [undefined, "k", "l"],
  );
  const first = tableThat(...pages);
  for await (const _ of first.records.query({ partition: "p" })) break;
  assert.equal(first.calls.length, 1);
});

test("names and values are given by number, whatever they are called", () => {
  const write = updateRecord(
    KEY,
    {
      set: { name: { S: "x" } },
      add: { "b/c.d-e": { N: "1" } },
      remove: ["ttl"],
      without: { resources: { SS: ["r"] } },
    },
    all(exists, any(isStill("name", undefined), isStill("name", { S: "y" })), isStill("parent_id", { NULL: true })),
  );
  const { UpdateExpression, ConditionExpression, ExpressionAttributeNames } = write.input;
  assert.equal(UpdateExpression, "SET #0 = :0 ADD #1 :1 DELETE #2 :2 REMOVE #3");
  assert.equal(
    ConditionExpression,
    "(attribute_exists(#4)) AND ((attribute_not_exists(#0)) OR (#0 = :3)) AND (attribute_type(#5, :4))",
  );
  assert.deepEqual(Object.values(ExpressionAttributeNames as object), [
    "name",
    "b/c.d-e",
    "resources",
    "ttl",
    "PK",
    "parent_id",
  ]);
});

test("a change that others always overtake ends with a sentence", () => {
  failAfterMaxConflicts(49, "Entity a");
  assert.throws(() => failAfterMaxConflicts(50, "Entity a"), /Entity a was changed by others/);
});

function answered(body: Record<string, unknown>): DynamoAnswer {
  return { kind: "answered", body };
}

function failed(code: string, CancellationReasons?: readonly object[]): DynamoAnswer {
  const status = code === "InternalServerError" ? 500 : 400;
  const body = CancellationReasons === undefined ? {} : { CancellationReasons };
  return { kind: "failed", status, code, message: "no", body };
}

/** A table that gives these answers, and a clock that only sleeping moves. */
function tableThat(...answers: readonly DynamoAnswer[]) {
  const calls: { readonly operation: DynamoOperation; readonly body: string }[] = [];
  let nowMs = 0;
  const client = {
    send: async (operation: DynamoOperation, body: string) => {
      calls.push({ operation, body });
      const answer = answers[calls.length - 1];
      assert.ok(answer !== undefined, "one call more than expected");
      return answer;
    },
    close: async () => {},
  };
  const clock = {
    now: () => nowMs,
    sleep: async (ms: number) => {
      nowMs += ms;
    },
  };
  const records = new Records({
    client,
    tableName: "t",
    clock,
    random: () => 0.5,
    ids: { id: () => "id" },
    timeoutMs: 1_000,
  });
  return { records, calls, elapsedMs: () => nowMs };
}
