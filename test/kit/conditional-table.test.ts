import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import type { Item, ItemKey, WriteTrace } from "../../src/ports/item-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { at, atOnce, CALL, count, tableAt, update } from "./conditional-kit.ts";
import type { AppliedChange } from "./conditional-table.ts";

const [a, b, c] = [at("a"), at("b"), at("c")];
const event: AuditEvent = { eventId: "e1", atMs: 0, action: "bucket_topped_up", entityId: "a", details: {} };
const present = { item: "exists" } as const;

test("shards, operations and namespaces are items of their own", () => {
  const { table, write, line } = tableAt(0, {});
  const keys: ItemKey[] = [a, { ...a, shard: 1 }, { ...a, operation: "1" }, { ...a, operation: "" }];
  for (const key of keys) write(count(key));
  write(count({ bucket: bucketKey("a", "other"), shard: 0 }));
  assert.equal(table.entries("ns").length, 5);
  for (const key of keys) assert.deepEqual(table.get("ns", key), { n: 1 });
  assert.equal(table.get("elsewhere", a), undefined);
  assert.deepEqual(atOnce(table.lineTo("elsewhere", {}).write(count(a), CALL)), { kind: "applied", item: { n: 1 } });
  assert.deepEqual(atOnce(line.write(count({ bucket: bucketKey("a", "api"), shard: 0 }), CALL)), {
    kind: "applied",
    item: { n: 2 },
  });
});

test("a transaction writes all of it or nothing, and shows no item", () => {
  const { table, transact, item } = tableAt(0, {});
  table.put("ns", a, { n: 5 });
  assert.deepEqual(transact("t1", count(a), count(b), update(c, present)), { kind: "failed" });
  assert.deepEqual([item("a"), item("b")], [{ n: 5 }, undefined]);
  assert.deepEqual(transact("t2", count(a), count(b), update(c, { kind: "check", item: "missing" })), {
    kind: "applied",
  });
  assert.deepEqual([item("a"), item("b"), item("c")], [{ n: 6 }, { n: 1 }, undefined]);
});

test("a transaction in which one write throws has written none", () => {
  const { table, transact, item } = tableAt(0, {});
  table.put("ns", b, { n: "text" });
  assert.throws(() => transact("t", count(a), count(b)), /only to a number can be added/);
  assert.equal(item("a"), undefined);
  assert.equal(table.counts.units, 0);
});

test("a token makes a transaction happen once within ten minutes, and again after them", () => {
  const { clock, transact, item } = tableAt(0, {});
  const tries = [0, 1, 599_999, 600_000, 1_199_999, 1_200_000];
  const seen = tries.map((ms) => {
    clock.set(ms);
    assert.deepEqual(transact("t", count(a)), { kind: "applied" });
    return item("a")?.n;
  });
  assert.deepEqual(seen, [1, 1, 1, 2, 2, 3]);
});

test("a repeated token is answered as applied although its condition holds no more", () => {
  const { transact } = tableAt(0, {});
  const create = update(a, { item: "missing" });
  assert.equal(transact("t", create).kind, "applied");
  assert.equal(transact("t", create).kind, "applied");
  assert.equal(transact("another", create).kind, "failed");
});

test("a token that failed is not remembered: the same transaction may be applied later", () => {
  const { table, transact, item } = tableAt(0, {});
  const counted = update(a, { ...present, add: { n: 1 } });
  assert.equal(transact("t", counted).kind, "failed");
  table.put("ns", a, { n: 0 });
  assert.equal(transact("t", counted).kind, "applied");
  assert.equal(transact("t", counted).kind, "applied");
  assert.deepEqual(item("a"), { n: 1 });
});

test("a token stands for one transaction: for another it is an error, but a trace makes no other", () => {
  const { table, transact } = tableAt(0, {});
  const trace: WriteTrace = { form: "take", readingMs: 5, parts: [], spare: [] };
  transact("t", count(a));
  assert.equal(transact("t", { ...count(a), trace }).kind, "applied");
  assert.throws(() => transact("t", count(b)), /The token "t" stood for another transaction 0 ms ago/);
  const elsewhere = table.lineTo("elsewhere", {});
  assert.throws(() => elsewhere.transact([count(a)], { token: "t", event: undefined }, CALL), /another transaction/);
});

test("a transaction has 100 items and not 101, its event among them, and none twice", () => {
  const { line, transact } = tableAt(0, {});
  const many = Array.from({ length: 101 }, (_, i) => count(at(`e${i}`)));
  assert.equal(transact("t1", ...many.slice(0, 100)).kind, "applied");
  assert.throws(() => transact("t2", ...many), /101 items/);
  assert.throws(() => line.transact(many.slice(0, 100), { token: "t3", event }, CALL), /101 items/);
  assert.throws(() => transact("t4"), /of 0 items/);
  assert.throws(() => transact("t5", count(a), update(a, { kind: "check" })), /a on api, shard 0 twice/);
  assert.equal(transact("t6", count(a), count({ ...a, shard: 1 })).kind, "applied");
  assert.throws(() => transact("", count(a)), /0 characters/);
  assert.throws(() => transact("t".repeat(37), count(a)), /37 characters/);
});

test("an event is told once, and only of a transaction that was applied", () => {
  const told: [string, AuditEvent][] = [];
  const { table, line } = tableAt(0, { onEvent: (namespaceId, each) => told.push([namespaceId, each]) });
  const counted = [update(a, { ...present, add: { n: 1 } })];
  line.transact(counted, { token: "t", event }, CALL);
  assert.deepEqual(told, []);
  table.put("ns", a, { n: 0 });
  line.transact(counted, { token: "t", event }, CALL);
  line.transact(counted, { token: "t", event }, CALL);
  assert.deepEqual(told, [["ns", event]]);
});

test("no second, wherever it begins, has more writes of one item than the ceiling", () => {
  const { clock, table, write } = tableAt(0, { writesPerSecond: 3 });
  const tried = (ms: number, key = a) => {
    clock.set(ms);
    const answer = write(count(key));
    return answer.kind === "refused" ? answer.why : answer.kind;
  };
  assert.deepEqual([tried(0), tried(600), tried(600), tried(999)], ["applied", "applied", "applied", "throttled"]);
  assert.equal(tried(999, b), "applied", "another item has a ceiling of its own");
  assert.deepEqual([tried(1000), tried(1000)], ["applied", "throttled"], "only the first has left the second");
  assert.deepEqual([tried(1599), tried(1600), tried(1600), tried(1600)].join(), "throttled,applied,applied,throttled");
  assert.deepEqual(table.get("ns", a), { n: 6 });
  assert.equal(table.counts.throttled, 4);
});

test("a write that failed counts towards the ceiling, and one that was refused does not", () => {
  const { clock, write } = tableAt(0, { writesPerSecond: 2 });
  const failing = update(a, present);
  assert.deepEqual([write(failing).kind, write(failing).kind], ["failed", "failed"]);
  clock.set(999);
  for (let i = 0; i < 10; i++) assert.equal(write(count(a)).kind, "refused");
  clock.set(1000);
  assert.deepEqual(
    [write(count(a)).kind, write(count(a)).kind, write(count(a)).kind].join(),
    "applied,applied,refused",
  );
});

test("each write of a transaction counts twice, a check too, and one item in the way refuses all", () => {
  const { table, write, transact, item } = tableAt(0, { writesPerSecond: 4 });
  transact("t1", count(a), update(b, { kind: "check" }));
  for (const key of [a, b]) {
    assert.deepEqual([write(count(key)).kind, write(count(key)).kind], ["applied", "applied"]);
    assert.equal(write(count(key)).kind, "refused");
  }
  write(count(c));
  const answer = transact("t2", count(c), count(a));
  assert.equal(answer.kind === "refused" && answer.why, "throttled");
  assert.deepEqual(item("c"), { n: 1 });
  assert.equal(transact("t3", count(c)).kind, "applied", "what was refused has not counted");
  assert.equal(transact("t4", count(c)).kind, "refused", "there is room for one, and it counts two");
  assert.equal(write(count(c)).kind, "applied");
  assert.equal(write(count(c)).kind, "refused");
  assert.equal(table.counts.throttled, 5);
});

test("counts tell the calls that came to the table and what they cost", () => {
  const { table, line, write, transact, read } = tableAt(0, { writesPerSecond: 5 });
  write(count(a));
  write(update(b, present));
  transact("t1", count(a), count(c));
  transact("t1", count(a), count(c));
  transact("t2", count(c), update(b, present));
  line.transact([count(at("d"))], { token: "t3", event }, CALL);
  for (let i = 0; i < 3; i++) write(count(a));
  read(true, a, b);
  line.listBuckets("api", { limit: 1 });
  table.put("ns", a, {});
  assert.deepEqual(table.counts, {
    writes: 5,
    transactions: 4,
    reads: 2,
    failed: 2,
    throttled: 1,
    conflicts: 0,
    units: 2 + 4 + 4 + 4 + 2,
  });
});

/** Everything that many inconsistent reads of an item see. */
function sights(read: () => Item | undefined): (unknown | undefined)[] {
  const seen = new Set(Array.from({ length: 200 }, () => read()?.n));
  return [...seen].sort();
}

test("an inconsistent read sees any version of the last while and none older, a consistent one the last", () => {
  const { clock, write, read } = tableAt(0, { staleMs: 100 });
  for (const ms of [0, 10, 20]) {
    clock.set(ms);
    write(count(a));
  }
  const stale = () => sights(() => read(false, a)[0]);
  clock.set(99);
  assert.deepEqual(stale(), [1, 2, 3, undefined]);
  clock.set(100);
  assert.deepEqual(stale(), [1, 2, 3], "at 0 it was made: a read as of 0 finds it");
  clock.set(119);
  assert.deepEqual(stale(), [2, 3]);
  assert.deepEqual(
    sights(() => read(true, a)[0]),
    [3],
  );
  clock.set(120);
  assert.deepEqual(stale(), [3]);
});

test("without staleness every read sees what was written last, also in the same millisecond", () => {
  const { write, read } = tableAt(0, {});
  for (let i = 1; i <= 5; i++) {
    write(count(a));
    assert.deepEqual(read(false, a, b), [{ n: i }, undefined]);
  }
});

test("items of one read are of different ages, and a removed one may still be seen", () => {
  const { clock, transact, read, table } = tableAt(0, { staleMs: 100 });
  transact("t", count(a), count(b));
  clock.set(1_000);
  transact("t2", count(a), count(b));
  const pairs = new Set(Array.from({ length: 100 }, () => read(false, a, b).map((item) => item?.n)).map(String));
  assert.deepEqual([...pairs].sort(), ["1,1", "1,2", "2,1", "2,2"]);
  clock.set(2_000);
  table.removeWhere("ns", ({ bucket }) => bucket.entityId === "a");
  assert.deepEqual(
    sights(() => read(false, a)[0]),
    [2, undefined],
  );
});

test("buckets are listed by entity id, page by page, where they have a shard 0", () => {
  const { table, line, write } = tableAt(0, {});
  const list = (limit: number, cursor?: string) =>
    atOnce(line.listBuckets("api", cursor === undefined ? { limit } : { limit, cursor }));
  assert.deepEqual(list(10), { items: [] });
  for (const id of ["b", "B", "a", "\uFFEE", "\u{1F600}", "gone"]) write(count(at(id)));
  write(count({ ...a, shard: 1 }));
  write(count({ ...a, operation: "o" }));
  write(count({ ...at("only a shard"), shard: 1 }));
  write(count({ ...at("only an operation"), operation: "o" }));
  write(count({ bucket: bucketKey("c", "other"), shard: 0 }));
  write(update(at("gone"), { kind: "delete" }));
  write(update(at("never"), present));
  assert.deepEqual(list(2), { items: ["B", "a"].map((id) => bucketKey(id, "api")), cursor: "a" });
  assert.deepEqual(list(3, "a"), { items: ["b", "\u{1F600}", "\uFFEE"].map((id) => bucketKey(id, "api")) });
  assert.deepEqual(list(2, "a").cursor, "\u{1F600}");
  table.removeWhere("ns", ({ bucket }) => bucket.entityId === "a");
  assert.deepEqual(list(2, "B").items[0], bucketKey("b", "api"));
});

test("a list may be as old as any inconsistent read", () => {
  const { clock, line, write } = tableAt(0, { staleMs: 100 });
  write(count(a));
  const lengths = () =>
    new Set(Array.from({ length: 50 }, () => atOnce(line.listBuckets("api", { limit: 9 })).items.length));
  assert.deepEqual(lengths(), new Set([0, 1]));
  clock.set(100);
  assert.deepEqual(lengths(), new Set([1]));
});

test("an item expires with the second of its ttl, stays until it is swept, and some stay longer", () => {
  const { clock, table, write, item } = tableAt(0, {});
  table.put("ns", a, { ttl: 10 });
  table.put("ns", b, { ttl: "10" });
  table.put("ns", c, {});
  clock.set(9_999);
  assert.equal(table.sweep(1), 0);
  clock.set(10_000);
  assert.equal(table.sweep(0), 0);
  assert.equal(write(update(a, present)).kind, "applied", "until then it is an item like others");
  assert.equal(table.sweep(1), 1);
  assert.deepEqual([item("a"), item("b"), item("c")], [undefined, { ttl: "10" }, {}]);

  for (let i = 0; i < 200; i++) table.put(`ns${i % 2}`, at(`e${i}`), { ttl: 10 });
  const swept = table.sweep(0.5);
  assert.ok(swept > 60 && swept < 140, `${swept} of 200`);
  assert.equal(table.entries("ns0").length + table.entries("ns1").length, 200 - swept);
});

test("whoever watches is told of every change and of nothing else, in order, with the whole item", () => {
  const { clock, table, write, transact } = tableAt(5_000, {});
  const told: AppliedChange[] = [];
  table.watch((change) => told.push(change));
  const trace: WriteTrace = { form: "take", readingMs: 5, parts: [], spare: [] };
  write({ ...count(a), trace });
  write(update(a, { item: "missing" }));
  write(update(a, { kind: "check" }));
  write(update(b, { kind: "delete" }));
  transact("t1", count(b), update(a, { kind: "check" }), { ...count(c), trace });
  transact("t1", count(b), update(a, { kind: "check" }), { ...count(c), trace });
  transact("t2", update(a, { kind: "delete" }));
  clock.set(6_000);
  table.put("ns", a, { ttl: 6 });
  table.sweep(1);
  table.removeWhere("ns", ({ bucket }) => bucket.entityId === "b");
  const one = { n: 1 };
  const expected: [ItemKey, Item | undefined, Item | undefined, AppliedChange["by"], object][] = [
    [a, undefined, one, "write", { trace, atMs: 5_000, order: 1, transaction: undefined }],
    [b, undefined, one, "transaction", { trace: undefined, atMs: 5_000, order: 2, transaction: 1 }],
    [c, undefined, one, "transaction", { trace, atMs: 5_000, order: 3, transaction: 1 }],
    [a, one, undefined, "transaction", { trace: undefined, atMs: 5_000, order: 4, transaction: 2 }],
    [a, undefined, { ttl: 6 }, "write", { trace: undefined, atMs: 6_000, order: 5, transaction: undefined }],
    [a, { ttl: 6 }, undefined, "ttl", { trace: undefined, atMs: 6_000, order: 6, transaction: undefined }],
    [b, one, undefined, "removed", { trace: undefined, atMs: 6_000, order: 7, transaction: undefined }],
  ];
  assert.deepEqual(
    told,
    expected.map(([key, before, after, by, rest]) => ({ namespaceId: "ns", key, before, after, by, ...rest })),
  );
});

test("whoever watches a transaction finds all of it done at its first change", () => {
  const { table, transact, item } = tableAt(0, {});
  const found: unknown[] = [];
  table.watch(() => found.push([item("a"), item("b")]));
  transact("t", count(a), count(b));
  assert.deepEqual(found, [
    [{ n: 1 }, { n: 1 }],
    [{ n: 1 }, { n: 1 }],
  ]);
});

test("the store tells its time in whole seconds, rounded down", () => {
  const { clock, table } = tableAt(1_999, {});
  assert.equal(table.dateMs(), 1_000);
  clock.set(2_000);
  assert.equal(table.dateMs(), 2_000);
});

test("the same seed sees and sweeps the same", () => {
  const run = (seed: number) => {
    const { clock, table, write, read } = tableAt(0, { staleMs: 50, random: new SeededRandom(seed) });
    const seen: unknown[] = [];
    for (let ms = 0; ms < 500; ms += 10) {
      clock.set(ms);
      write(count(a));
      table.put("ns", at(`e${ms}`), { ttl: 0 });
      seen.push(read(false, a)[0]?.n, table.sweep(0.3));
    }
    return seen;
  };
  assert.deepEqual(run(7), run(7));
  assert.notDeepEqual(run(7), run(8));
});
