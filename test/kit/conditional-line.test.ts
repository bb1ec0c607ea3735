import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import type { ItemAnswer, ItemWrite, TransactionAnswer } from "../../src/ports/item-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { at, atOnce, CALL, count, tableAt, update } from "./conditional-kit.ts";
import type { ConditionalLine, DateSeen, LineCall, LineFault, LineMishap, LineOptions } from "./conditional-line.ts";

const [a, b] = [at("a"), at("b")];
const FAULTS: readonly LineFault[] = ["refused", "lostBefore", "lostAfter", "late"];

/** Writes or transacts, whichever it is told. */
function sent(line: ConditionalLine, call: "write" | "transact", write: ItemWrite, token = "t") {
  const reply = call === "write" ? line.write(write, CALL) : line.transact([write], { token, event: undefined }, CALL);
  return reply as ItemAnswer | TransactionAnswer | Promise<ItemAnswer | TransactionAnswer>;
}

/** Stages at which a call waits until the test lets it go on. */
function gates() {
  const waiting: { readonly stage: string; open(): void }[] = [];
  const pause: NonNullable<LineOptions["pause"]> = (call, before) =>
    new Promise((resolve) => waiting.push({ stage: `${call} ${before}`, open: resolve }));
  /** Lets the first call go on that waits there, and all that follows from it be done. */
  const open = async (stage: string): Promise<void> => {
    const index = waiting.findIndex((each) => each.stage === stage);
    assert.ok(index >= 0, `nobody waits at "${stage}", only at: ${waiting.map((each) => each.stage).join(", ")}`);
    waiting.splice(index, 1)[0]?.open();
    await settled();
  };
  return { pause, open, stages: () => waiting.map(({ stage }) => stage) };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** What has become of a promise by now. */
async function answered<Value>(reply: Value | Promise<Value>): Promise<Value | "nothing"> {
  const nothing = settled().then(() => "nothing" as const);
  return Promise.race([reply, nothing]);
}

test("without a pause every call is answered at once, not with a promise", () => {
  const { table } = tableAt(0, {});
  const line = table.lineTo("ns", { rates: { write: 0 }, conflicts: 1 });
  assert.deepEqual(atOnce(line.write(count(a), CALL)), { kind: "applied", item: { n: 1 } });
  assert.equal(atOnce(line.transact([count(a)], { token: "t", event: undefined }, CALL)).kind, "refused");
  assert.deepEqual(atOnce(line.read([a], { consistent: true }, CALL)), [{ n: 1 }]);
  assert.equal(atOnce(line.listBuckets("api", { limit: 1 })).items.length, 1);
});

test("a refused call says that nothing was written, a lost one that nobody knows, and only lostAfter wrote", () => {
  for (const call of ["write", "transact"] as const) {
    for (const fault of ["refused", "lostBefore", "lostAfter"] as const) {
      const { table, item } = tableAt(0, {});
      const faults: unknown[] = [];
      const line = table.lineTo("ns", { onFault: (...told) => faults.push(told) });
      line.failNext(call, fault);
      const answer = atOnce(sent(line, call, count(a)));
      assert.equal(answer.kind, fault === "refused" ? "refused" : "unknown");
      assert.ok("cause" in answer && answer.cause instanceof Error);
      assert.equal(answer.cause.message, `simulated fault: ${call} ${fault}`);
      assert.deepEqual(item("a"), fault === "lostAfter" ? { n: 1 } : undefined);
      assert.deepEqual(faults, [[call, fault]]);
      assert.equal(atOnce(sent(line, call, count(a), "t2")).kind, "applied");
    }
  }
});

test("a refused call was throttled or never sent, one as well as the other", () => {
  const { table } = tableAt(0, {});
  const line = table.lineTo("ns", {});
  const reasons = new Set<string>();
  for (let i = 0; i < 50; i++) {
    line.failNext("write", "refused");
    const answer = atOnce(line.write(count(a), CALL));
    assert.equal(answer.kind, "refused");
    reasons.add(answer.why);
  }
  assert.deepEqual([...reasons].sort(), ["throttled", "unreachable"]);
});

test("a transaction of which the answer was lost is not done twice when it is repeated", () => {
  const { table, item } = tableAt(0, {});
  const line = table.lineTo("ns", {});
  line.failNext("transact", "lostAfter");
  assert.equal(atOnce(sent(line, "transact", count(a))).kind, "unknown");
  assert.equal(atOnce(sent(line, "transact", count(a))).kind, "applied");
  assert.deepEqual(item("a"), { n: 1 });
});

test("a read that fails throws, whatever the fault, and so does a list", () => {
  const { table } = tableAt(0, {});
  const line = table.lineTo("ns", {});
  for (const fault of FAULTS) {
    line.failNext("read", fault);
    assert.throws(() => line.read([a], { consistent: true }, CALL), RateLimiterUnavailable);
    line.failNext("read", fault);
    assert.throws(() => line.listBuckets("api", { limit: 1 }), RateLimiterUnavailable);
  }
  assert.deepEqual(atOnce(line.read([a], { consistent: true }, CALL)), [undefined]);
});

test("an ordered fault waits until as many calls of its kind have passed", () => {
  const { table } = tableAt(0, {});
  const line = table.lineTo("ns", {});
  line.failNext("write", "refused", 2);
  line.failNext("write", "lostBefore");
  const kinds = Array.from({ length: 5 }, () => {
    line.read([a], { consistent: true }, CALL);
    return atOnce(line.write(count(a), CALL)).kind;
  });
  assert.deepEqual(kinds, ["applied", "applied", "refused", "unknown", "applied"]);
});

test("a late write lands after the next call on its line, not before, and on the item as it is then", () => {
  const { table, item, write } = tableAt(0, {});
  const line = table.lineTo("ns", {});
  line.failNext("write", "late");
  assert.equal(atOnce(line.write(update(a, { item: "missing", set: { by: "late" } }), CALL)).kind, "unknown");
  write(count(b));
  assert.equal(item("a"), undefined, "another line's calls do not bring it");
  assert.deepEqual(atOnce(line.read([a], { consistent: true }, CALL)), [undefined]);
  assert.deepEqual(item("a"), { by: "late" });

  line.failNext("write", "late");
  line.write(update(b, { when: [[{ name: "n", is: "=", value: 1 }]], set: { by: "late" } }), CALL);
  assert.deepEqual(atOnce(line.write(count(b), CALL)), { kind: "applied", item: { n: 2 } });
  assert.deepEqual(item("b"), { n: 2 }, "its condition held when it was sent, and not when it landed");
});

test("late calls land in turn, each once, also when the next one is late or fails", () => {
  const { table, item } = tableAt(0, {});
  const line = table.lineTo("ns", {});
  for (let i = 0; i < 3; i++) line.failNext("write", "late");
  const landed: unknown[] = [];
  for (let i = 0; i < 3; i++) {
    line.write(count(a), CALL);
    landed.push(item("a")?.n);
  }
  line.failNext("read", "lostBefore");
  assert.throws(() => line.read([a], { consistent: true }, CALL), RateLimiterUnavailable);
  line.listBuckets("api", { limit: 1 });
  landed.push(item("a")?.n);
  assert.deepEqual(landed, [undefined, 1, 2, 3]);
});

test("with a pause a late call is answered at once and lands when the pause ends", async () => {
  for (const call of ["write", "transact"] as const) {
    const { table, item } = tableAt(0, {});
    const { pause, open, stages } = gates();
    const line = table.lineTo("ns", { pause });
    line.failNext(call, "late");
    const reply = sent(line, call, count(a));
    await open(`${call} applying`);
    assert.equal((await reply).kind, "unknown");
    assert.deepEqual(stages(), [`${call} landing late`]);
    assert.equal(item("a"), undefined);
    line.crash();
    await open(`${call} landing late`);
    assert.deepEqual(item("a"), { n: 1 }, "it had left the client before that died");
  }
});

test("a late transaction that was repeated meanwhile lands to no effect", async () => {
  const { table, item, transact } = tableAt(0, {});
  const { pause, open } = gates();
  const line = table.lineTo("ns", { pause });
  line.failNext("transact", "late");
  const reply = sent(line, "transact", count(a));
  await open("transact applying");
  assert.equal((await reply).kind, "unknown");
  assert.equal(transact("t", count(a)).kind, "applied");
  await open("transact landing late");
  assert.deepEqual(item("a"), { n: 1 });
});

test("others act between the stages of a call, and its answer shows the item as it was at that moment", async () => {
  const { table, write } = tableAt(0, {});
  const { pause, open } = gates();
  const line = table.lineTo("ns", { pause });
  const reply = line.write(count(a), CALL);
  write(count(a));
  await open("write applying");
  write(count(a));
  assert.equal(await answered(reply), "nothing");
  await open("write answering");
  assert.deepEqual(await reply, { kind: "applied", item: { n: 2 } });
  assert.deepEqual(table.get("ns", a), { n: 3 });
});

test("after a crash no call reaches the table and no open one is answered", async () => {
  const { table, item } = tableAt(0, {});
  const { pause, open } = gates();
  const line = table.lineTo("ns", { pause });
  const other = table.lineTo("ns", {});
  const applied = line.write(count(a), CALL);
  await open("write applying");
  const unsent = [line.write(count(b), CALL), line.read([a], { consistent: true }, CALL)];
  line.crash();
  for (const stage of ["write answering", "write applying", "read applying"]) await open(stage);
  const after = [line.write(count(b), CALL), line.listBuckets("api", { limit: 1 })];
  for (const reply of [applied, ...unsent, ...after]) assert.equal(await answered<unknown>(reply), "nothing");
  assert.deepEqual([item("a"), item("b")], [{ n: 1 }, undefined]);
  assert.equal(table.counts.reads, 0);
  assert.equal(atOnce(other.write(count(a), CALL)).kind, "applied", "the other clients live on");
});

test("a crashed line without a pause answers nothing either, and what is late may still land", async () => {
  const { table, item } = tableAt(0, {});
  const line = table.lineTo("ns", {});
  line.failNext("write", "late");
  line.write(count(a), CALL);
  line.crash();
  assert.equal(await answered<unknown>(line.write(count(b), CALL)), "nothing");
  assert.deepEqual([item("a"), item("b")], [{ n: 1 }, undefined]);
});

test("a transaction is refused as often as conflicts are likely, and then has written nothing", () => {
  const { table, item } = tableAt(0, {});
  const line = table.lineTo("ns", { conflicts: 0.3, random: new SeededRandom(5) });
  const answers = Array.from({ length: 300 }, (_, i) => atOnce(sent(line, "transact", count(a), `t${i}`)));
  const refused = answers.filter((answer) => answer.kind === "refused" && answer.why === "conflict").length;
  assert.ok(refused > 60 && refused < 120, `${refused} of 300`);
  assert.deepEqual(item("a"), { n: 300 - refused });
  assert.equal(table.counts.conflicts, refused);
});

test("a transaction that was done is not in conflict when it is repeated: refused would say it was not written", () => {
  const { table, transact } = tableAt(0, {});
  transact("t", count(a));
  const line = table.lineTo("ns", { conflicts: 1 });
  assert.equal(atOnce(sent(line, "transact", count(a))).kind, "applied");
});

test("a write is in conflict only while a transaction on its item waits to be applied", async () => {
  const { table } = tableAt(0, {});
  const { pause, open } = gates();
  const slow = table.lineTo("ns", { pause });
  const line = table.lineTo("ns", { conflicts: 1 });
  const calm = table.lineTo("ns", {});
  const tried = (key = a) => atOnce(line.write(count(key), CALL)).kind;
  assert.equal(tried(), "applied");
  const reply = sent(slow, "transact", count(a));
  assert.deepEqual([tried(), tried(b)], ["refused", "applied"]);
  assert.equal(atOnce(calm.write(count(a), CALL)).kind, "applied", "by chance, and this line has none");
  await open("transact applying");
  assert.equal(tried(), "applied", "although it was not answered yet");
  await open("transact answering");
  assert.equal((await reply).kind, "applied");
});

test("a write under way is in nobody's way", () => {
  const { table } = tableAt(0, {});
  const { pause } = gates();
  table.lineTo("ns", { pause }).write(count(a), CALL);
  assert.equal(atOnce(table.lineTo("ns", { conflicts: 1 }).write(count(a), CALL)).kind, "applied");
});

test("a client that dies in a transaction leaves nothing in the way", async () => {
  const { table, item } = tableAt(0, {});
  const { pause, open } = gates();
  const slow = table.lineTo("ns", { pause });
  const line = table.lineTo("ns", { conflicts: 1 });
  sent(slow, "transact", count(a));
  sent(slow, "transact", count(a), "t2");
  assert.equal(atOnce(line.write(count(a), CALL)).kind, "refused");
  slow.crash();
  assert.equal(atOnce(line.write(count(a), CALL)).kind, "applied");
  await open("transact applying");
  // Were it ended twice, this one would find the item free.
  sent(table.lineTo("ns", { pause }), "transact", count(a), "t3");
  assert.equal(atOnce(line.write(count(a), CALL)).kind, "refused");
  assert.deepEqual(item("a"), { n: 1 });
});

test("every answer tells the store's date with the client's time of sending", async () => {
  const { clock, table } = tableAt(10_400, {});
  const { pause, open } = gates();
  const seen: DateSeen[] = [];
  const skewed = clock.skewed(-7_000);
  const stamp = () => ({ localMs: skewed.now(), steadyMs: clock.now() - 10_000 });
  const line = table.lineTo("ns", { pause, stamp, onDate: (date) => seen.push(date) });
  const reply = line.write(update(a, { item: "exists" }), CALL);
  clock.set(11_700);
  await open("write applying");
  clock.set(13_000);
  assert.deepEqual(seen, []);
  await open("write answering");
  assert.equal((await reply).kind, "failed");
  assert.deepEqual(seen, [{ dateMs: 11_000, sent: { localMs: 3_400, steadyMs: 400 } }]);
});

test("what was not answered by the store tells no date", () => {
  const { table } = tableAt(1_500, { writesPerSecond: 2 });
  const seen: DateSeen[] = [];
  const line = table.lineTo("ns", { onDate: (date) => seen.push(date) });
  const dates = (act: () => unknown): number => {
    const before = seen.length;
    act();
    return seen.length - before;
  };
  for (const fault of ["lostBefore", "lostAfter", "late"] as const) {
    line.failNext("write", fault);
    assert.equal(
      dates(() => line.write(count(a), CALL)),
      0,
      fault,
    );
    line.failNext("read", fault);
    assert.equal(
      dates(() => assert.throws(() => line.read([a], { consistent: true }, CALL))),
      0,
      fault,
    );
  }
  assert.equal(
    dates(() => line.read([a], { consistent: true }, CALL)),
    1,
  );
  assert.equal(
    dates(() => line.listBuckets("api", { limit: 1 })),
    1,
  );
  assert.equal(
    dates(() => assert.equal(atOnce(line.write(count(a), CALL)).kind, "refused")),
    1,
    "that it throttles is an answer too",
  );
  for (let i = 0; i < 20; i++) {
    line.failNext("write", "refused");
    let why = "";
    const told = dates(() => {
      const answer = atOnce(line.write(count(b), CALL));
      if (answer.kind === "refused") why = answer.why;
    });
    assert.equal(told, why === "throttled" ? 1 : 0, why);
  }
  assert.deepEqual(
    seen[0],
    { dateMs: 1_000, sent: { localMs: 1_500, steadyMs: 1_500 } },
    "by the table's clock, without another",
  );
});

test("by seed, calls fail about as often as asked, in every way, and the same ones again", () => {
  const run = (seed: number) => {
    const { table, item } = tableAt(0, {});
    const told: string[] = [];
    const onFault = (call: LineCall, fault: LineMishap) => told.push(`${call} ${fault}`);
    const line = table.lineTo("ns", { random: new SeededRandom(seed), rates: { write: 0.2, read: 0.5 }, onFault });
    for (let i = 0; i < 400; i++) {
      told.push(atOnce(line.write(count(a), CALL)).kind);
      assert.notEqual(atOnce(sent(line, "transact", count(b), `t${i}`)).kind, "unknown", "it has no rate");
      try {
        line.read([a], { consistent: true }, CALL);
      } catch {
        told.push("thrown");
      }
    }
    return [...told, JSON.stringify(item("a"))];
  };
  const told = run(3);
  for (const fault of FAULTS) {
    const times = told.filter((each) => each === `write ${fault}`).length;
    assert.ok(times > 8 && times < 35, `${fault}: ${times} of 400`);
  }
  const thrown = told.filter((each) => each === "thrown").length;
  assert.ok(thrown > 160 && thrown < 240, `${thrown} of 400`);
  assert.deepEqual(run(3), told);
  assert.notDeepEqual(run(4), told);
});

test("a line without chance of its own follows from the table's, and two lines do not fail alike", () => {
  const run = () => {
    const { table } = tableAt(0, {});
    return [1, 2].map(() => {
      const line = table.lineTo("ns", { rates: { write: 0.5 } });
      return Array.from({ length: 50 }, () => atOnce(line.write(count(a), CALL)).kind).join();
    });
  };
  const [first, second] = run();
  assert.notEqual(first, second);
  assert.deepEqual(run(), [first, second]);
});
