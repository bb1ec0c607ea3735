import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { newEntity } from "../../src/domain/config/entity.ts";
import { DEFAULT_NAMESPACE } from "../../src/domain/config/namespace.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { RateLimiterUnavailable } from "../../src/domain/names/errors.ts";
import type { CommitReply, CountStore, RecordCommit, RecordStore } from "../../src/ports/record-store.ts";
import { RecordTable } from "../kit/record-table.ts";
import { openRecords } from "./without-takes.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const event = (eventId: string): AuditEvent => ({
  ...{ eventId, atMs: T0, action: "limits_set", entityId: "$SYSTEM", details: {} },
});
const rpm = (capacity: number) => [Limit.perMinute("rpm", capacity)];

/** What becomes of the next commits, one after the other; then they are as always. */
type Fate = "answered" | "answer lost" | "never arrives" | "refused";

/** A store whose commits have these fates. `between`: what happens before each of them arrives. */
function fated(
  table: RecordTable,
  fates: Fate[],
  between: () => Promise<unknown> = async () => {},
): RecordStore & CountStore & { readonly sent: RecordCommit[] } {
  const sent: RecordCommit[] = [];
  const cause = new RateLimiterUnavailable("The store does not respond.");
  const commit = async (asked: RecordCommit): Promise<CommitReply> => {
    sent.push(asked);
    const fate = fates.shift() ?? "answered";
    if (fate === "refused") return { kind: "unavailable", applied: "no", cause };
    if (fate === "never arrives") return { kind: "unavailable", applied: "unknown", cause };
    await between();
    const reply = await table.commit(asked);
    return fate === "answered" ? reply : { kind: "unavailable", applied: "unknown", cause };
  };
  return {
    ...{ sent, commit },
    get: (scope, keys, since) => table.get(scope, keys, since),
    list: (scope, list, after, limitMax) => table.list(scope, list, after, limitMax),
    sums: (scope, query) => table.sums(scope, query),
    expire: (bounds) => table.expire(bounds),
  };
}

async function opened(fates: Fate[], between?: () => Promise<unknown>) {
  const table = new RecordTable();
  await openRecords(table);
  const store = fated(table, fates, between);
  const scope = (await openRecords(store)).scope(DEFAULT_NAMESPACE);
  return { table, store, scope };
}

test("a change whose answer was lost is made once, and its event is told once", async () => {
  const { scope } = await opened(["answer lost"]);
  assert.equal(await scope.config.set({ level: "system" }, { limits: rpm(5) }, event("e1")), "written");
  assert.equal((await scope.audit.list({}, { limit: 10 })).items.length, 1);
  await scope.config.resolve("a", "api");
  assert.equal(scope.config.generation(), 1);
});

test("a change that was lost on its way is made by the second sending", async () => {
  const { scope } = await opened(["never arrives"]);
  assert.equal(await scope.config.set({ level: "system" }, { limits: rpm(5) }, event("e1")), "written");
  assert.deepEqual((await scope.config.get({ level: "system" }))?.limits, rpm(5));
});

test("a change whose answer was lost is known although another one followed it", async () => {
  let others = 0;
  const table = new RecordTable();
  const other = (await openRecords(table)).scope(DEFAULT_NAMESPACE);
  // Before the second sending another process has changed the same.
  const store = fated(table, ["answer lost"], async () => {
    if (others++ === 1) await other.config.set({ level: "system" }, { limits: rpm(7) }, event("e2"));
  });
  const scope = (await openRecords(store)).scope(DEFAULT_NAMESPACE);
  assert.equal(await scope.config.set({ level: "system" }, { limits: rpm(5) }, event("e1")), "written");
  assert.deepEqual((await scope.config.get({ level: "system" }))?.limits, rpm(7));
  const { items } = await scope.audit.list({}, { limit: 10 });
  assert.deepEqual(
    items.map(({ eventId }) => eventId),
    ["e2", "e1"],
  );
});

test("whether a change was made that never got an answer is said not to be known", async () => {
  const { scope, store } = await opened(["never arrives", "answer lost", "never arrives"]);
  await assert.rejects(
    async () => scope.config.set({ level: "system" }, { limits: rpm(5) }, event("e1")),
    (error) =>
      error instanceof RateLimiterUnavailable && /Whether the change was made is not known/.test(error.message),
  );
  assert.equal(store.sent.length, 3);
});

test("a change whose answer was lost may have been made, also if the second sending is refused", async () => {
  const { scope } = await opened(["answer lost", "refused"]);
  await assert.rejects(
    async () => scope.config.set({ level: "system" }, { limits: rpm(5) }, event("e1")),
    /Whether the change was made is not known/,
  );
});

test("a write without an event may have been made, too, also if the second sending is refused", async () => {
  const finish = { key: "k", mark: "m", answer: "{}", nowMs: T0 };
  const begun = await opened([]);
  await begun.scope.leases.beginKey({ key: "k", mark: "m", fingerprint: "f", nowMs: T0, untilMs: T0 + 1000 });
  const late = await openRecords(fated(begun.table, ["never arrives", "refused"]));
  const reply = await late.scope(DEFAULT_NAMESPACE).leases.create({ record: undefined, finish }, T0);
  assert.equal(reply.kind === "unavailable" && reply.applied, "unknown");
});

test("a change that certainly was not made is refused at once", async () => {
  const { scope, store } = await opened(["refused"]);
  await assert.rejects(
    async () => scope.config.set({ level: "system" }, { limits: rpm(5) }, event("e1")),
    RateLimiterUnavailable,
  );
  assert.equal(store.sent.length, 1);
  assert.equal(await scope.config.get({ level: "system" }), undefined);
});

test("a key whose beginning was answered to nobody is still begun by its own mark", async () => {
  const { scope } = await opened(["answer lost"]);
  const begin = { key: "k", mark: "m1", fingerprint: "f", nowMs: T0, untilMs: T0 + 1000 };
  assert.deepEqual(await scope.leases.beginKey(begin), { kind: "begun" });
  const other = await scope.leases.beginKey({ ...begin, mark: "m2" });
  assert.equal(other.kind, "known");
});

test("a key that was released and begun by another in between is not renewed by the first", async () => {
  const table = new RecordTable();
  const other = (await openRecords(table)).scope(DEFAULT_NAMESPACE);
  let calls = 0;
  const store = fated(table, [], async () => {
    // The first call begins; before the second arrives the key changes hands. A key that is made anew must not look like the old one.
    if (++calls !== 2) return;
    await other.leases.releaseKey({ key: "k", mark: "m1" }, T0);
    await other.leases.beginKey({ key: "k", mark: "m2", fingerprint: "f", nowMs: T0, untilMs: T0 + 1000 });
  });
  const { leases } = (await openRecords(store)).scope(DEFAULT_NAMESPACE);
  await leases.beginKey({ key: "k", mark: "m1", fingerprint: "f", nowMs: T0, untilMs: T0 + 1000 });
  assert.equal(await leases.renewKey({ key: "k", mark: "m1" }, { nowMs: T0, untilMs: T0 + 9000 }), false);
  const known = await leases.beginKey({ key: "k", mark: "m3", fingerprint: "f", nowMs: T0, untilMs: T0 + 1000 });
  assert.ok(known.kind === "known" && known.record.mark === "m2");
});

test("a change that others always come before gives up after 50 times, and has changed nothing", async () => {
  const table = new RecordTable();
  const other = (await openRecords(table)).scope(DEFAULT_NAMESPACE);
  let n = 0;
  const store = fated(table, [], async () => {
    await other.config.set({ level: "system" }, { limits: rpm(100 + ++n) }, event(`other-${n}`));
  });
  const scope = (await openRecords(store)).scope(DEFAULT_NAMESPACE);
  await assert.rejects(
    async () => scope.entities.create(newEntity({ id: "a" }, T0), event("mine")),
    /50 times other processes changed the namespace default/,
  );
  assert.equal(store.sent.length, 50);
  assert.equal(await scope.entities.get("a"), undefined);
});

test("changes of one process in one namespace wait for each other instead of beginning anew", async () => {
  const { scope, store } = await opened([]);
  await Promise.all(
    Array.from({ length: 100 }, (_, i) => scope.entities.create(newEntity({ id: `e${i}` }, T0), event(`e${i}`))),
  );
  assert.equal(store.sent.length, 100);
});

test("an entity that has a plan is asked for twice the first time, and once from then on", async () => {
  const { scope, table } = await opened([]);
  let asked = 0;
  const get = table.get.bind(table);
  await scope.plans.create(
    { id: "p", name: "p", metadata: {}, version: 1, createdAtMs: T0, updatedAtMs: T0 },
    event("p"),
  );
  await scope.entities.create(newEntity({ id: "a", planId: "p" }, T0), event("a"));
  await scope.config.set({ level: "planDefault", planId: "p" }, { limits: rpm(5) }, event("l"));
  table.get = (...question) => {
    asked++;
    return get(...question);
  };
  assert.equal((await scope.config.resolve("a", "api")).source, "planDefault");
  assert.equal(asked, 2);
  assert.equal((await scope.config.resolve("a", "other")).source, "planDefault");
  assert.equal(asked, 3);
});
