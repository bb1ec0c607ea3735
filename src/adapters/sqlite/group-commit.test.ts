import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import {
  amounts,
  claim,
  context,
  held,
  kinds,
  NOON,
  oneTime,
  openOn,
  openTemp,
  tempFile,
  tokensMilli,
} from "../../../test/sqlite/temp-store.ts";

const ONE = claim("key", [oneTime("tokens", 50)], { tokens: 1 });

/** Another process, as far as SQLite can tell, in the middle of a write. */
function writerOn(t: TestContext, file: string): DatabaseSync {
  const other = new DatabaseSync(file);
  t.after(() => other.close());
  other.exec("BEGIN IMMEDIATE");
  return other;
}

test("64 calls under way together are one transaction, and each is answered for itself", async (t) => {
  const { buckets, connection } = openTemp(t);
  const before = connection.commits;
  const replies = await Promise.all(Array.from({ length: 64 }, () => buckets.take([ONE], context(NOON))));
  assert.equal(connection.commits - before, 1);
  assert.equal(replies.filter((reply) => kinds(reply)[0] === "taken").length, 50);
  assert.deepEqual(kinds(replies[49]!), ["taken"]);
  assert.deepEqual(kinds(replies[50]!), ["short"]);
});

test("callers that go round and round together stay together", async (t) => {
  const { buckets, connection } = openTemp(t);
  const before = connection.commits;
  const caller = async () => {
    for (let i = 0; i < 10; i++) await buckets.take([ONE], context(NOON));
  };
  await Promise.all(Array.from({ length: 64 }, caller));
  assert.equal(connection.commits - before, 10);
});

test("with coalescing off every call is a transaction of its own", async (t) => {
  const { buckets, connection } = openOn(t, tempFile(t), { coalesce: false });
  const before = connection.commits;
  const replies = await Promise.all(Array.from({ length: 5 }, () => buckets.take([ONE], context(NOON))));
  assert.equal(connection.commits - before, 5);
  assert.ok(replies.every((reply) => kinds(reply)[0] === "taken"));
});

test("a debit that is too large fails alone: its batch goes through and nothing of it stays", async (t) => {
  const { buckets, connection } = openTemp(t);
  const both = claim("key", [oneTime("tokens", 9e12), oneTime("rpm", 50)], { rpm: 1 });
  const before = connection.commits;
  const [first, bad, last] = await Promise.allSettled([
    buckets.take([both], context(NOON)),
    buckets.debit(held(both), amounts({ rpm: 7, tokens: 2 * 9e12 + 1 }), context(NOON)),
    buckets.debit(held(both), amounts({ rpm: 2 }), context(NOON)),
  ]);
  assert.equal(first.status, "fulfilled");
  assert.ok(bad.status === "fulfilled" && bad.value.kind === "tooDeep");
  assert.equal(last.status, "fulfilled");
  assert.equal(connection.commits - before, 1);
  const [state] = await buckets.read([both.bucket]);
  assert.equal(tokensMilli(state, "rpm"), 47_000);
  assert.equal(tokensMilli(state, "tokens"), 9e15);
});

test("a connection that is lost under the queue rejects what waits, rather than leaving it", async (t) => {
  const { buckets, connection } = openTemp(t);
  const queued = buckets.take([ONE], context(NOON));
  connection.close();
  await assert.rejects(async () => queued, { code: "ERR_INVALID_STATE" });
});

test("a call that is aborted in the queue is never done", async (t) => {
  const { buckets } = openTemp(t);
  const abort = new AbortController();
  const reason = new Error("the client hung up");
  const aborted = buckets.take([ONE], context(NOON, { signal: abort.signal }));
  const kept = buckets.take([ONE], context(NOON));
  abort.abort(reason);
  await assert.rejects(async () => aborted, reason);
  assert.deepEqual(kinds(await kept), ["taken"]);
  const [state] = await buckets.read([ONE.bucket]);
  assert.equal(tokensMilli(state, "tokens"), 49_000);
});

test("a queued call runs out of time by the steady clock alone, however long the event loop was busy", async (t) => {
  let steadyMs = 5_000;
  const { buckets } = openOn(t, tempFile(t), { steadyMs: () => steadyMs });
  const inTime = buckets.take([ONE], context(NOON, { timeoutMs: 1 }));
  // Longer than its timeout, in real time.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  steadyMs += 1;
  assert.deepEqual(kinds(await inTime), ["taken"]);
  const tooLate = buckets.take([ONE], context(NOON, { timeoutMs: 1 }));
  steadyMs += 2;
  const [answer] = (await tooLate) as readonly { kind: string; applied?: string; cause?: Error }[];
  assert.equal(answer?.kind, "unavailable");
  assert.match(String(answer?.cause), /blocked for 2 ms, longer than the timeout of 1 ms/);
});

test("a call that comes at the end of a busy turn has not waited since its beginning", async (t) => {
  let steadyMs = 5_000;
  const { buckets } = openOn(t, tempFile(t), { steadyMs: () => steadyMs });
  const take = (nowMs: number) => buckets.take([ONE], context(nowMs, { timeoutMs: 1 }));
  const atFirst = [take(NOON), take(NOON)];
  steadyMs += 2;
  const atLast = [take(NOON + 2), take(NOON + 2)];
  const replies = await Promise.all([...atFirst, ...atLast]);
  assert.deepEqual(replies.flatMap(kinds), ["unavailable", "unavailable", "taken", "taken"]);
});

test("while another process writes, calls wait for their timeout and then say that nothing was done", async (t) => {
  const file = tempFile(t);
  const { buckets } = openOn(t, file);
  const writer = writerOn(t, file);
  const [take, debit, credit] = await Promise.all([
    buckets.take([ONE], context(NOON, { timeoutMs: 15 })),
    buckets.debit(held(ONE), ONE.take, context(NOON, { timeoutMs: 15 })),
    buckets.credit(held(ONE), ONE.take, context(NOON, { timeoutMs: 15 })),
  ]);
  assert.deepEqual(kinds(take), ["unavailable"]);
  assert.ok(debit.kind === "unavailable" && debit.applied === "no");
  assert.ok(credit.kind === "unavailable" && credit.applied === "no");
  assert.deepEqual(kinds(buckets.takeSync!([ONE], context(NOON, { timeoutMs: 5 }))), ["unavailable"]);
  writer.exec("COMMIT");
  assert.deepEqual(await buckets.read([ONE.bucket]), [undefined]);
});

test("calls that wait for another process go through when it is done, with those that came meanwhile", async (t) => {
  const file = tempFile(t);
  const { buckets, connection } = openOn(t, file);
  const writer = writerOn(t, file);
  const early = buckets.take([ONE], context(NOON, { timeoutMs: 60_000 }));
  await new Promise((resolve) => setImmediate(resolve));
  const late = buckets.take([ONE], context(NOON, { timeoutMs: 60_000 }));
  const before = connection.commits;
  writer.exec("COMMIT");
  assert.deepEqual([...kinds(await early), ...kinds(await late)], ["taken", "taken"]);
  assert.equal(connection.commits - before, 1);
});

test("a call that waits for another process can be aborted", async (t) => {
  const file = tempFile(t);
  const { buckets } = openOn(t, file);
  const writer = writerOn(t, file);
  const abort = new AbortController();
  const waiting = buckets.take([ONE], context(NOON, { timeoutMs: 60_000, signal: abort.signal }));
  await new Promise((resolve) => setImmediate(resolve));
  abort.abort();
  await assert.rejects(async () => waiting, { name: "AbortError" });
  writer.exec("COMMIT");
});

test("a full disk is an outage: nothing is granted, and what was remembered is still right", async (t) => {
  const { buckets, connection } = openTemp(t);
  await buckets.take([ONE], context(NOON));
  const pages = connection.prepare("PRAGMA page_count").get()?.[0];
  connection.exec(`PRAGMA max_page_count = ${pages}`);
  const many = Array.from({ length: 200 }, (_, i) => claim(`key-${i}`, [oneTime("tokens", 50)], { tokens: 1 }));
  const replies = await Promise.all([ONE, ...many].map((wanted) => buckets.take([wanted], context(NOON))));
  assert.ok(replies.every((reply) => kinds(reply)[0] === "unavailable"));
  connection.exec("PRAGMA max_page_count = 1000000");
  const [answer] = (await buckets.take([ONE], context(NOON))) as readonly { kind: string; state: never }[];
  assert.equal(answer?.kind, "taken");
  assert.equal(tokensMilli(answer?.state, "tokens"), 48_000);
});

test("a synchronous take is done at once, before what is queued", async (t) => {
  const { buckets } = openTemp(t);
  const last = claim("key", [oneTime("tokens", 1)], { tokens: 1 });
  const queued = buckets.take([last], context(NOON));
  assert.deepEqual(kinds(buckets.takeSync!([last], context(NOON))), ["taken"]);
  assert.deepEqual(kinds(await queued), ["short"]);
  const aborted = context(NOON, { signal: AbortSignal.abort() });
  assert.throws(() => buckets.takeSync!([last], aborted), { name: "AbortError" });
});

test("closing waits for what is queued", async (t) => {
  const file = tempFile(t);
  const { buckets, store } = openOn(t, file);
  const queued = buckets.take([ONE], context(NOON));
  await store.close();
  assert.deepEqual(kinds(await queued), ["taken"]);
  const [state] = await openOn(t, file).buckets.read([ONE.bucket]);
  assert.equal(tokensMilli(state, "tokens"), 49_000);
});

test("a lone caller that goes round and round does not wait for turns of the event loop, and lets them pass", async (t) => {
  const { buckets } = openTemp(t);
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    turns++;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  for (let i = 0; i < 170; i++) await buckets.take([ONE], context(NOON));
  isDone = true;
  assert.ok(turns >= 10, `${turns} turns: nobody else had one`);
  assert.ok(turns <= 30, `${turns} turns: it waited for each`);
});

test("calls that come after a lone one from callbacks of their own are one transaction", async (t) => {
  const { buckets, connection } = openTemp(t);
  for (let round = 0; round < 3; round++) {
    await buckets.take([ONE], context(NOON));
    const before = connection.commits;
    // Callbacks of one turn, each with its microtasks, as those of sockets that are ready together.
    const callback = () => new Promise((resolve) => setImmediate(() => resolve(buckets.take([ONE], context(NOON)))));
    await Promise.all(Array.from({ length: 8 }, callback));
    assert.equal(connection.commits - before, 1);
  }
});
