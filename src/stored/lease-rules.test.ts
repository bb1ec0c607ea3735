import assert from "node:assert/strict";
import { test } from "node:test";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import { LEASE_REMEMBERED_MS } from "../domain/lease/lease-record.ts";
import {
  beginKey,
  createLease,
  isKeyOurs,
  moveLease,
  onChange,
  renewKey,
  type StoredKey,
  writesOf,
} from "./lease-rules.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const stored = { kind: "stored" };
const conflict = { kind: "conflict" };
const keyLost = { kind: "keyLost" };
const third = { leaseId: "l", version: 3, writer: "w3" } as unknown as LeaseRecord;
const second = { version: 2, writer: "w2" };

const begin = { key: "k", mark: "m", fingerprint: "f", nowMs: T0, untilMs: T0 + 5_000 };
const begun = beginKey(begin, undefined).key as StoredKey;
const finish = { key: "k", mark: "m", answer: "yes", nowMs: T0 + 100 };
const answered = writesOf(undefined, finish, begun).key as StoredKey;
/** One that another has begun meanwhile. */
const lost = { ...begun, mark: "other" };

test("a new record is written once; its own writer's repeat is stored, another's is a conflict", () => {
  const write = { record: third, finish };
  assert.deepEqual(createLease(write, undefined, begun), { reply: stored, lease: third, key: answered });
  assert.deepEqual(createLease(write, third, lost), { reply: stored }, "a repeat is one whatever became of its key");
  assert.deepEqual(createLease(write, { version: 1, writer: "other" }, begun), { reply: conflict });
  assert.deepEqual(createLease(write, undefined, lost), { reply: keyLost });
  assert.deepEqual(createLease({ record: third, finish: undefined }, undefined, undefined).lease, third);
});

test("a version replaces the one before it, and nothing else", () => {
  assert.deepEqual(moveLease(third, finish, second, begun), { reply: stored, lease: third, key: answered });
  assert.deepEqual(moveLease(third, undefined, { version: 1, writer: "w1" }, undefined), { reply: conflict });
  assert.deepEqual(moveLease(third, undefined, { version: 3, writer: "other" }, undefined), { reply: conflict });
  assert.deepEqual(moveLease(third, undefined, undefined, undefined), { reply: conflict });
  assert.deepEqual(moveLease(third, undefined, third, undefined), { reply: stored });
  assert.deepEqual(moveLease(third, finish, second, lost), { reply: keyLost });
});

test("what a version owes is said afterwards by its own writer, while its key is its own", () => {
  const owing = { ...third, owed: [] };
  assert.deepEqual(moveLease(owing, undefined, third, undefined), { reply: stored, lease: owing });
  assert.deepEqual(moveLease(owing, undefined, { ...third, writer: "other" }, undefined), { reply: conflict });
  assert.deepEqual(moveLease(owing, finish, third, lost), { reply: keyLost });
});

test("a change that was applied unseen is repeated, and one that comes late is a conflict", () => {
  const change = { version: 2, writer: "w3", key: finish };
  assert.equal(onChange(second, change, begun), "write");
  assert.deepEqual(onChange(third, change, lost), { kind: "repeated" });
  assert.deepEqual(onChange({ version: 3, writer: "other" }, change, begun), conflict);
  assert.deepEqual(onChange(undefined, change, begun), conflict);
  assert.deepEqual(onChange(second, change, lost), keyLost);
});

test("a key is taken while its work gives signs of life, and then while its answer is remembered", () => {
  const isTaken = (known: StoredKey, nowMs: number) =>
    beginKey({ ...begin, mark: "next", nowMs }, known).reply.kind === "known";
  assert.equal(isTaken(begun, T0 + 4_999), true);
  assert.equal(isTaken(begun, T0 + 5_000), false, "the work has died");
  assert.equal(isTaken(answered, T0 + 5_000), true);
  assert.equal(isTaken(answered, finish.nowMs + LEASE_REMEMBERED_MS - 1), true);
  assert.equal(isTaken(answered, finish.nowMs + LEASE_REMEMBERED_MS), false);
  assert.equal(beginKey(begin, begun).reply.kind, "begun", "the answer to the same beginning was lost");
});

test("a key is ours by its mark, and after the answer only for who repeats it", () => {
  assert.equal(isKeyOurs(begun, finish), true);
  assert.equal(isKeyOurs(lost, finish), false);
  assert.equal(isKeyOurs(undefined, finish), false);
  assert.equal(isKeyOurs(answered, finish), true);
  assert.equal(isKeyOurs(answered, { ...finish, answer: "no" }), false);
  assert.equal(isKeyOurs(answered, { key: "k", mark: "m" }), false, "what is answered is not begun any more");
  assert.deepEqual(renewKey(finish, T0 + 9_000, begun), { reply: true, key: { ...begun, untilMs: T0 + 9_000 } });
  assert.deepEqual(renewKey(finish, T0 + 9_000, answered), { reply: false });
});
