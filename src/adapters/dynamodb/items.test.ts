import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { NotFoundError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { ItemKey } from "../../ports/item-store.ts";
import type { DynamoAnswer, DynamoClient } from "./client.ts";
import type { Attributes } from "./codec.ts";
import { DynamoItems } from "./items.ts";

interface BatchGet {
  readonly RequestItems: { readonly limits: { readonly Keys: readonly Attributes[] } };
}

/** A client that answers each call with the next of the answers, over and over with the last; its clock is moved by waiting. */
function itemsOver(answers: readonly ((input: BatchGet) => DynamoAnswer)[]) {
  const calls: { readonly atMs: number; readonly keys: number; readonly timeoutMs: number }[] = [];
  let nowMs = 0;
  const client: DynamoClient = {
    async send(_operation, body, { timeoutMs }) {
      const input = JSON.parse(body);
      calls.push({ atMs: nowMs, keys: input.RequestItems?.limits.Keys.length ?? 0, timeoutMs });
      return answers[Math.min(calls.length, answers.length) - 1]!(input);
    },
    close: async () => {},
  };
  const clock = {
    now: () => nowMs,
    sleep: async (ms: number) => {
      nowMs += ms;
    },
  };
  const items = new DynamoItems({
    client,
    tableName: "limits",
    namespaceId: "ns",
    clock,
    random: () => 0.5,
    listTimeoutMs: 1_000,
    auditIdOf: ({ eventId }) => eventId,
    auditKeptS: 1,
  });
  return { items, calls };
}

const keys = (count: number): ItemKey[] =>
  Array.from({ length: count }, (_, i) => ({ bucket: bucketKey(`e${i}`, "api"), shard: 0 }));
const CALL = { timeoutMs: 1_000 };
const throttled = (): DynamoAnswer => ({
  kind: "failed",
  status: 400,
  code: "ThrottlingException",
  message: "",
  body: {},
});

/** The first so many keys as items, all others left over. */
function some(count: number): (input: BatchGet) => DynamoAnswer {
  return ({ RequestItems: { limits } }) => {
    const done = limits.Keys.slice(0, count).map((key) => ({ ...key, n: { N: "1" } }));
    const left = limits.Keys.slice(count);
    const UnprocessedKeys = left.length === 0 ? {} : { limits: { Keys: left } };
    return { kind: "answered", body: { Responses: { limits: done }, UnprocessedKeys } };
  };
}

test("keys that were left over are asked for again until all are answered", async () => {
  const { items, calls } = itemsOver([some(40), some(0), some(100)]);
  const found = await items.read(keys(100), { consistent: true }, CALL);
  assert.equal(found.filter((item) => item?.n === 1).length, 100);
  assert.deepEqual(
    calls.map((call) => call.keys),
    [100, 60, 60],
  );
  assert.ok(calls[2]!.atMs > calls[1]!.atMs, "it waited in between");
});

test("a key that was never answered is not missing: the read ends as unavailable, in its time", async () => {
  const { items, calls } = itemsOver([some(1), some(0)]);
  await assert.rejects(items.read(keys(3), { consistent: true }, CALL), RateLimiterUnavailable);
  assert.ok(calls.at(-1)!.atMs < 1_000);
  assert.ok(calls.length < 20, "it backs off");
});

test("a read that is throttled, fails or cannot be sent is repeated, and never waits longer than it may", async () => {
  const faults: readonly DynamoAnswer[] = [
    throttled(),
    { kind: "failed", status: 500, code: "InternalServerError", message: "", body: {} },
    { kind: "unsent", cause: new Error("refused") },
    { kind: "lost", cause: new Error("reset") },
  ];
  for (const fault of faults) {
    const { items } = itemsOver([() => fault, () => fault, some(100)]);
    assert.deepEqual(await items.read(keys(1), { consistent: false }, CALL), [{ n: 1 }]);
    const never = itemsOver([() => fault]);
    await assert.rejects(never.items.read(keys(1), { consistent: false }, CALL), RateLimiterUnavailable);
    for (const { atMs, timeoutMs } of never.calls) assert.ok(atMs + timeoutMs <= 1_000);
  }
});

test("a table that is not there is said at once", async () => {
  const { items, calls } = itemsOver([
    () => ({ kind: "failed", status: 400, code: "ResourceNotFoundException", message: "", body: {} }),
  ]);
  await assert.rejects(items.read(keys(1), { consistent: true }, CALL), NotFoundError);
  await assert.rejects(items.listBuckets("api", { limit: 5 }), NotFoundError);
  const write = { key: keys(1)[0]!, kind: "delete", item: "exists", when: [], set: {}, add: {}, remove: [] } as const;
  await assert.rejects(items.write({ ...write, trace: undefined }, CALL), NotFoundError);
  assert.equal(calls.length, 3);
});

test("a write is sent once, whatever becomes of it", async () => {
  const { items, calls } = itemsOver([throttled]);
  const write = {
    key: keys(1)[0]!,
    kind: "update",
    item: "exists",
    when: [],
    set: {},
    add: { n: 1 },
    remove: [],
  } as const;
  const answer = await items.write({ ...write, trace: undefined }, { timeoutMs: 300 });
  assert.ok(answer.kind === "refused" && answer.why === "throttled");
  assert.deepEqual(
    calls.map(({ timeoutMs }) => timeoutMs),
    [300],
  );
});

test("250 keys are three calls, and a key given twice is asked for once", async () => {
  const { items, calls } = itemsOver([some(100)]);
  const wanted = keys(250);
  const found = await items.read([...wanted, ...wanted], { consistent: true }, CALL);
  assert.equal(found.length, 500);
  assert.deepEqual(
    calls.map((call) => call.keys),
    [100, 100, 50],
  );
});
