import assert from "node:assert/strict";
import { LEASE_REMEMBERED_MS, type LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import type { KeyFinish } from "../../src/ports/bucket-store.ts";
import type { KeyBegin } from "../../src/ports/lease-store.ts";
import { SECOND_MS, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const UNTIL_MS = T0 + 15 * SECOND_MS;
const BEGUN = { kind: "begun" };

const begin = (mark: string, given: Partial<KeyBegin> = {}): KeyBegin => ({
  ...{ key: 'order "7" #~', mark, fingerprint: "print", nowMs: T0, untilMs: UNTIL_MS },
  ...given,
});
const finish = (mark: string, answer: string, nowMs = T0): KeyFinish => ({ key: begin(mark).key, mark, answer, nowMs });

const RECORD: LeaseRecord = {
  ...{ leaseId: "l_1", version: 1, writer: "w", status: "open", entityId: "a" },
  ...{ resources: [{ resource: "api", levels: [], overdrawn: [] }], holdings: [] },
  ...{ openedAtMs: T0, expiresAtMs: T0 + SECOND_MS, onExpiry: "charge", closing: undefined },
  ...{ requestId: undefined, idempotencyKey: undefined },
};

/** The answer under the key; or `underWay`, or `free`: then it is taken by asking. */
async function answerAt(place: TestedNamespace, nowMs: number): Promise<string> {
  const reply = await place.scope.leases.beginKey(begin("asks", { nowMs, untilMs: nowMs }));
  if (reply.kind === "begun") return "free";
  return reply.record.answer ?? "underWay";
}

/** Idempotency keys. */
export function keyContract(suite: Suite): void {
  suite.test(
    "a key that was begun is under way for whoever comes next, and shows what it was asked with",
    async (place) => {
      const { leases } = place.scope;
      assert.deepEqual(await leases.beginKey(begin("m1")), BEGUN);
      const reply = await leases.beginKey(begin("m2", { fingerprint: "another" }));
      const { key } = begin("m1");
      const record = { key, mark: "m1", fingerprint: "print", answer: undefined, untilMs: UNTIL_MS };
      assert.deepEqual(reply, { kind: "known", record });
      assert.deepEqual(await leases.beginKey(begin("m2", { key: "another key" })), BEGUN);
    },
  );

  suite.test("of several that begin a key at once, one does", async (place) => {
    const marks = ["a", "b", "c", "d", "e"];
    const replies = await Promise.all(marks.map((mark) => place.scope.leases.beginKey(begin(mark))));
    assert.equal(replies.filter(({ kind }) => kind === "begun").length, 1);
    const winner = marks[replies.findIndex(({ kind }) => kind === "begun")];
    for (const reply of replies) if (reply.kind === "known") assert.equal(reply.record.mark, winner);
  });

  suite.test(
    "work that shows no sign of life is dead after its time: the next takes the key, and the first cannot finish",
    async (place) => {
      const { leases } = place.scope;
      await leases.beginKey(begin("m1"));
      assert.equal((await leases.beginKey(begin("m2", { nowMs: UNTIL_MS - 1 }))).kind, "known");
      assert.equal(
        await leases.renewKey({ key: begin("m1").key, mark: "m1" }, { nowMs: T0, untilMs: UNTIL_MS + 5_000 }),
        true,
      );
      assert.equal((await leases.beginKey(begin("m2", { nowMs: UNTIL_MS + 4_999 }))).kind, "known");
      assert.deepEqual(
        await leases.beginKey(begin("m2", { nowMs: UNTIL_MS + 5_000, untilMs: UNTIL_MS + 20_000 })),
        BEGUN,
      );
      assert.equal(
        await leases.renewKey({ key: begin("m1").key, mark: "m1" }, { nowMs: T0, untilMs: UNTIL_MS * 2 }),
        false,
      );
      const late = { record: RECORD, finish: finish("m1", "late") };
      assert.deepEqual(await leases.create(late, T0), { kind: "keyLost" });
      assert.equal(await leases.get("l_1"), undefined, "neither the answer nor the lease");
      assert.deepEqual(await leases.create({ record: undefined, finish: finish("m1", "late") }, T0), {
        kind: "keyLost",
      });
      await leases.releaseKey({ key: begin("m1").key, mark: "m1" }, T0);
      assert.equal(
        (await leases.beginKey(begin("m3", { nowMs: UNTIL_MS + 5_001 }))).kind,
        "known",
        "the second's it stays",
      );
    },
  );

  suite.test("a key that was released is free, but not one that was answered", async (place) => {
    const { leases } = place.scope;
    const { key } = begin("m1");
    await leases.beginKey(begin("m1"));
    await leases.releaseKey({ key, mark: "m1" }, T0);
    assert.deepEqual(await leases.beginKey(begin("m2")), BEGUN);
    assert.deepEqual(await leases.create({ record: undefined, finish: finish("m2", "first") }, T0), { kind: "stored" });
    assert.deepEqual(
      await leases.create({ record: undefined, finish: finish("m2", "first") }, T0),
      { kind: "stored" },
      "a repeat",
    );
    assert.deepEqual(await leases.create({ record: undefined, finish: finish("m2", "other") }, T0), {
      kind: "keyLost",
    });
    await leases.releaseKey({ key, mark: "m2" }, T0);
    assert.equal(await leases.renewKey({ key, mark: "m2" }, { nowMs: T0, untilMs: T0 }), false);
    assert.equal(await answerAt(place, T0), "first");
  });

  suite.test("an answer is remembered for a day, also with the lease it came with", async (place) => {
    const { leases } = place.scope;
    await leases.beginKey(begin("m1"));
    const answer = JSON.stringify({ lease: "l_1", text: "ü".repeat(200) });
    const write = { record: RECORD, finish: finish("m1", answer, T0 + SECOND_MS) };
    assert.deepEqual(await leases.create(write, T0), { kind: "stored" });
    assert.deepEqual(await leases.create(write, T0), { kind: "stored" }, "a repeat");
    assert.deepEqual(await leases.get("l_1"), RECORD);
    assert.equal(await answerAt(place, UNTIL_MS + 1), answer);
    assert.equal(await answerAt(place, T0 + SECOND_MS + LEASE_REMEMBERED_MS - 1), answer);
    assert.equal(await answerAt(place, T0 + SECOND_MS + LEASE_REMEMBERED_MS), "free");
  });

  suite.test("a lease moves together with the answer under a key, or not at all", async (place) => {
    const { leases } = place.scope;
    assert.deepEqual(await leases.create({ record: RECORD, finish: undefined }, T0), { kind: "stored" });
    await leases.beginKey(begin("m1"));
    const next: LeaseRecord = { ...RECORD, version: 2, writer: "w2" };
    assert.deepEqual(await leases.move(next, finish("other", "x"), T0), { kind: "keyLost" });
    assert.deepEqual(await leases.get("l_1"), RECORD);
    const skipped = { ...next, version: 3 };
    assert.deepEqual(await leases.move(skipped, finish("m1", "x"), T0), { kind: "conflict" });
    assert.equal(await answerAt(place, T0), "underWay");
    assert.deepEqual(await leases.move(next, finish("m1", "moved"), T0), { kind: "stored" });
    assert.deepEqual(await leases.move(next, finish("m1", "moved"), T0), { kind: "stored" }, "a repeat");
    assert.deepEqual(await leases.get("l_1"), next);
    assert.equal(await answerAt(place, T0), "moved");
  });
}
