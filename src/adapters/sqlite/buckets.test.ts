import assert from "node:assert/strict";
import { test } from "node:test";
import {
  amounts,
  claim,
  context,
  event,
  held,
  kinds,
  NOON,
  oneTime,
  openOn,
  openTemp,
  stateOf,
  tempFile,
  tokensMilli,
} from "../../../test/sqlite/temp-store.ts";
import { Limit } from "../../domain/limits/limit.ts";
import { COLUMNS } from "./bucket-rows.ts";

const RPM = Limit.perMinute("rpm", 10);

test("a claim that does not fit spares the others, and nothing is taken anywhere", async (t) => {
  const { buckets } = openTemp(t);
  const child = claim("child", [oneTime("rpm", 10)], { rpm: 4 });
  const parent = claim("parent", [oneTime("rpm", 5)], { rpm: 4 });
  assert.deepEqual(kinds(await buckets.take([child, parent], context(NOON))), ["taken", "taken"]);
  assert.deepEqual(kinds(await buckets.take([child, parent], context(NOON))), ["skipped", "short"]);
  const states = await buckets.read([child.bucket, parent.bucket]);
  assert.deepEqual([tokensMilli(states[0], "rpm"), tokensMilli(states[1], "rpm")], [6_000, 1_000]);
});

test("a refused claim on a bucket that does not exist leaves none behind", async (t) => {
  const { buckets } = openTemp(t);
  const tooMuch = claim("key", [RPM], { rpm: 11 });
  assert.deepEqual(kinds(await buckets.take([tooMuch], context(NOON))), ["short"]);
  assert.deepEqual(await buckets.read([tooMuch.bucket]), [undefined]);
});

test("changed limits reach the bucket even when the claim that brings them is refused", async (t) => {
  const file = tempFile(t);
  const { buckets } = openOn(t, file);
  await buckets.take([claim("key", [oneTime("rpm", 10)], { rpm: 8 })], context(NOON));
  const lowered = claim("key", [oneTime("rpm", 1)], { rpm: 2 }, { asOfMs: 1, generation: null });
  assert.deepEqual(kinds(await buckets.take([lowered], context(NOON))), ["short"]);
  const [state] = await openOn(t, file).buckets.read([lowered.bucket]);
  assert.equal(state?.signature, lowered.set.signature);
  assert.equal(tokensMilli(state, "rpm"), 1_000);
});

test("the largest capacity keeps every millitoken, in memory and in the file", async (t) => {
  const file = tempFile(t);
  const { buckets } = openOn(t, file);
  const huge = Limit.custom("tokens", { capacity: 9e12, refillAmount: 9e12, refillPeriodMs: 1_000 });
  const one = claim("key", [huge], { tokens: 1 });
  await buckets.take([one], context(NOON));
  const reply = await buckets.debit(held(one), [{ limit: "tokens", milli: 8_999_999_999_998_999 }], context(NOON));
  assert.equal(tokensMilli(stateOf(reply), "tokens"), 1);
  const deep = await buckets.debit(held(one), amounts({ tokens: 9e12 }), context(NOON));
  assert.equal(tokensMilli(stateOf(deep), "tokens"), -8_999_999_999_999_999);
  const [state] = await openOn(t, file).buckets.read([one.bucket]);
  assert.equal(tokensMilli(state, "tokens"), -8_999_999_999_999_999);
});

test("two connections that take in turns see each other's takes at once", async (t) => {
  const file = tempFile(t);
  const both = [openOn(t, file), openOn(t, file)];
  const one = claim("key", [oneTime("rpm", 9)], { rpm: 1 });
  const granted: string[] = [];
  for (let i = 0; i < 12; i++) granted.push(...kinds(await both[i % 2]!.buckets.take([one], context(NOON))));
  assert.deepEqual(granted, [...Array(9).fill("taken"), "short", "short", "short"]);
});

test("a change made through another connection makes a claim planned before it stale", async (t) => {
  const file = tempFile(t);
  const here = openOn(t, file);
  const there = openOn(t, file);
  const generation = here.config.generation();
  const one = claim("key", [RPM], { rpm: 1 });
  assert.deepEqual(kinds(await here.buckets.take([one], context(NOON, { generation }))), ["taken"]);
  await there.config.set({ level: "system" }, { limits: [RPM] }, event("limits_set", "$SYSTEM"));
  assert.deepEqual(kinds(await here.buckets.take([one], context(NOON, { generation }))), ["stale"]);
  const [state] = await here.buckets.read([one.bucket]);
  assert.equal(tokensMilli(state, "rpm"), 9_000);
  const next = here.config.generation();
  assert.equal(next, there.config.generation());
  assert.ok(Number(next) > Number(generation));
  assert.deepEqual(kinds(await here.buckets.take([one], context(NOON, { generation: next }))), ["taken"]);
});

test("a call queued before another connection's change is stale too, though it saw the old generation", async (t) => {
  const file = tempFile(t);
  const here = openOn(t, file);
  const there = openOn(t, file);
  const generation = here.config.generation();
  const queued = here.buckets.take([claim("key", [RPM], { rpm: 1 })], context(NOON, { generation }));
  await there.entities.create(
    { id: "key", name: "key", cascade: false, metadata: {}, version: 1, createdAtMs: 0, updatedAtMs: 0 },
    event("entity_created", "key"),
  );
  assert.deepEqual(kinds(await queued), ["stale"]);
});

test("takes of others do not count as changes", async (t) => {
  const file = tempFile(t);
  const here = openOn(t, file);
  const there = openOn(t, file);
  const generation = here.config.generation();
  await there.buckets.take([claim("key", [RPM], { rpm: 1 })], context(NOON));
  assert.equal(here.config.generation(), generation);
});

test("a give-back to a bucket that is gone says so, a debit makes the bucket anew", async (t) => {
  const { buckets } = openTemp(t);
  const one = claim("key", [RPM], { rpm: 1 });
  assert.deepEqual(await buckets.credit(held(one), one.take, context(NOON)), { kind: "gone" });
  const reply = await buckets.debit(held(one), amounts({ rpm: 12 }), context(NOON));
  assert.equal(tokensMilli(stateOf(reply), "rpm"), -2_000);
});

test("two claims of one call on the same bucket take twice or not at all", async (t) => {
  const { buckets } = openTemp(t);
  const three = claim("key", [oneTime("rpm", 10)], { rpm: 3 });
  assert.deepEqual(kinds(await buckets.take([three, three], context(NOON))), ["taken", "taken"]);
  assert.deepEqual(kinds(await buckets.take([three, three], context(NOON))), ["skipped", "short"]);
  const [state] = await buckets.read([three.bucket]);
  assert.equal(tokensMilli(state, "rpm"), 4_000);
});

test("buckets of a resource are listed by entity, page by page", async (t) => {
  const { buckets } = openTemp(t);
  for (const id of ["b", "d", "a", "c"]) await buckets.take([claim(id, [RPM], { rpm: 1 })], context(NOON));
  const first = await buckets.listByResource("gpt-4", { limit: 3 });
  assert.deepEqual(
    first.items.map(({ key }) => key.entityId),
    ["a", "b", "c"],
  );
  const second = await buckets.listByResource("gpt-4", { limit: 3, cursor: first.cursor! });
  assert.deepEqual(
    second.items.map(({ key, state }) => [key.entityId, tokensMilli(state, "rpm")]),
    [["d", 9_000]],
  );
  assert.equal(second.cursor, undefined);
  assert.throws(() => buckets.listByResource("gpt-4", { limit: 3, cursor: "?" }), { code: "cursor_invalid" });
});

test("of 20,000 buckets in use, each row is read once", async (t) => {
  const { buckets, connection } = openTemp(t);
  const select = connection.prepare(
    `SELECT ${COLUMNS} FROM bucket WHERE namespace = ? AND entity = ? AND resource = ?`,
  );
  const { mock } = t.mock.method(select, "get");
  const claims = Array.from({ length: 20_000 }, (_, i) => claim(`key-${i}`, [RPM], { rpm: 1 }));
  for (let round = 0; round < 2; round++) {
    await Promise.all(claims.map((one) => buckets.take([one], context(NOON, { timeoutMs: 60_000 }))));
  }
  assert.equal(mock.callCount(), 20_000);
});
