import assert from "node:assert/strict";
import { test } from "node:test";
import { TOTAL_RESOURCE } from "../../src/domain/config/totals.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { RecordDeletion, RecordPut } from "../../src/ports/record-store.ts";
import { configPut, entityPut, historyOf, planPut } from "../../src/records/bodies.ts";
import { SeenGenerations, touchedBy } from "../../src/records/seen-changes.ts";
import { ANY_PLAN } from "../../src/stored/config-keys.ts";

const level = (entityId: string, planId?: string) => ({ entityId, resource: "api", planId });
const config = { limits: [Limit.perMinute("rpm", 5)] };

function seenFrom(generation: number) {
  const seen = new SeenGenerations();
  seen.note("ns", generation);
  return seen;
}

test("a level is unchanged as long as no change touched its entity, its resource or its plan", () => {
  const seen = seenFrom(10);
  seen.note("ns", 11, [[11, ["stranger"]]]);
  seen.note("ns", 13, [
    [12, ["alice"]],
    [13, ["pro", ANY_PLAN]],
  ]);
  assert.equal(seen.of("ns"), 13);
  assert.equal(seen.isUnchanged("ns", level("bob"), 10), true);
  assert.equal(seen.isUnchanged("ns", level("alice"), 11), false);
  assert.equal(seen.isUnchanged("ns", level("alice"), 12), true, "who read it in that generation has the change");
  assert.equal(seen.isUnchanged("ns", level("bob", "pro"), 12), false);
  assert.equal(seen.isUnchanged("ns", level("bob", ANY_PLAN), 12), false);
  seen.note("ns", 14, [[14, ["api"]]]);
  assert.equal(seen.isUnchanged("ns", level("bob"), 13), false);
  assert.equal(seen.isUnchanged("elsewhere", level("bob"), 13), false);
});

test("a change that is missing among those told may have been one of everything", () => {
  const seen = seenFrom(10);
  seen.note("ns", 12, [[12, ["alice"]]]);
  assert.equal(seen.isUnchanged("ns", level("bob"), 10), false);
  assert.equal(seen.isUnchanged("ns", level("bob"), 12), true);
  seen.note("ns", 13);
  assert.equal(seen.isUnchanged("ns", level("bob"), 12), false);
});

test("answers that come late, and repeat what is known, change nothing", () => {
  const seen = seenFrom(10);
  seen.note("ns", 12, [
    [11, ["alice"]],
    [12, ["bob"]],
  ]);
  seen.note("ns", 11, []);
  seen.note("ns", 13, [
    [11, ["alice"]],
    [12, ["bob"]],
    [13, []],
  ]);
  assert.equal(seen.isUnchanged("ns", level("carol"), 10), true);
  assert.equal(seen.isUnchanged("ns", level("bob"), 11), false);
  // Changes beyond the generation of the answer prove nothing about those before it.
  seen.note("ns", 15, [
    [15, []],
    [16, []],
  ]);
  assert.equal(seen.isUnchanged("ns", level("carol"), 13), false);
});

test("of very many names the oldest are forgotten, and with them what is older counts as changed", () => {
  const seen = seenFrom(0);
  for (let i = 1; i <= 15_000; i++) seen.note("ns", i, [[i, [`id-${i}`]]]);
  assert.equal(seen.isUnchanged("ns", level("bob"), 0), false);
  assert.equal(seen.isUnchanged("ns", level("bob"), 14_000), true);
  assert.equal(seen.isUnchanged("ns", level("id-14500"), 14_400), false);
  assert.equal(seen.isUnchanged("ns", level("id-14500"), 14_500), true);
});

test("a commit touches what its writes are of, and everything where the system, totals of all, or a namespace is written", () => {
  const rows: readonly [RecordPut | RecordDeletion, readonly string[] | undefined][] = [
    [entityPut({ id: "alice", createdAtMs: 0, metadata: {} } as never), ["alice"]],
    [{ kind: "everythingOf", entityId: "alice" }, ["alice"]],
    [configPut({ level: "entity", entityId: "alice", resource: "api" }, config), ["alice"]],
    [configPut({ level: "entityTotal", entityId: "alice" }, config), ["alice"]],
    [historyOf({ level: "entityDefault", entityId: "alice" }), ["alice"]],
    [{ kind: "history", key: ["stints", "alice", ""] }, ["alice"]],
    [configPut({ level: "resource", resource: "api" }, config), ["api"]],
    [configPut({ level: "plan", planId: "pro", resource: "api" }, config), ["pro", ANY_PLAN]],
    [configPut({ level: "planTotal", planId: "pro" }, config), ["pro", ANY_PLAN]],
    [planPut({ id: "pro", createdAtMs: 0, metadata: {} } as never), ["pro", ANY_PLAN]],
    [configPut({ level: "system" }, config), undefined],
    [configPut({ level: "systemTotal" }, config), undefined],
    [{ kind: "config", key: ["entity", "", TOTAL_RESOURCE] }, undefined],
    [{ kind: "namespace", key: ["ns"] }, undefined],
    [{ kind: "someIn", namespaceId: "ns", limitMax: 10 }, undefined],
    [{ kind: "owner", key: ["ci"] }, []],
  ];
  for (const [write, touched] of rows) {
    const writes = "by" in write ? touchedBy([write], []) : touchedBy([], [write]);
    assert.deepEqual(writes, touched, JSON.stringify(write));
  }
  const many = Array.from({ length: 40 }, (_, i) => ({ kind: "entity", key: [`id-${i}`] }) as const);
  assert.deepEqual(touchedBy([], many.slice(0, 3)), ["id-0", "id-1", "id-2"]);
  assert.equal(touchedBy([], many), undefined);
});
