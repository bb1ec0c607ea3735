import assert from "node:assert/strict";
import { test } from "node:test";
import { LEASE_REMEMBERED_MS } from "../domain/lease/lease-record.ts";
import { begunKey, finishedKey, isOurs, isTaken, onChange, onCreate, onMove, type StoredKey } from "./lease-rules.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const ours = () => true;
const lost = () => false;
const stored = { kind: "stored" };
const conflict = { kind: "conflict" };
const keyLost = { kind: "keyLost" };
const third = { version: 3, writer: "w3" };

test("a new record is written once; its own writer's repeat is stored, another's is a conflict", () => {
  assert.equal(onCreate(undefined, third, ours), "write");
  assert.deepEqual(onCreate(third, third, lost), stored, "a repeat is one whatever became of its key");
  assert.deepEqual(onCreate({ version: 1, writer: "other" }, third, ours), conflict);
  assert.deepEqual(onCreate(undefined, third, lost), keyLost);
});

test("a version replaces the one before it, and nothing else", () => {
  assert.equal(onMove({ version: 2, writer: "w2" }, third, ours), "write");
  assert.deepEqual(onMove({ version: 1, writer: "w1" }, third, ours), conflict);
  assert.deepEqual(onMove({ version: 3, writer: "other" }, third, ours), conflict);
  assert.deepEqual(onMove(undefined, third, ours), conflict);
  assert.deepEqual(onMove(third, third, ours), stored);
  assert.deepEqual(onMove({ version: 2, writer: "w2" }, third, lost), keyLost);
});

test("what a version owes is said afterwards by its own writer, while its key is its own", () => {
  const owing = { ...third, owed: [] };
  assert.equal(onMove(third, owing, ours), "write");
  assert.deepEqual(onMove({ ...third, writer: "other" }, owing, ours), conflict);
  assert.deepEqual(onMove(third, owing, lost), keyLost);
});

test("a change that was applied unseen is repeated, and one that comes late is a conflict", () => {
  const change = { version: 2, writer: "w3" };
  assert.equal(onChange({ version: 2, writer: "w2" }, change, ours), "write");
  assert.deepEqual(onChange(third, change, lost), { kind: "repeated" });
  assert.deepEqual(onChange({ version: 3, writer: "other" }, change, ours), conflict);
  assert.deepEqual(onChange(undefined, change, ours), conflict);
  assert.deepEqual(onChange({ version: 2, writer: "w2" }, change, lost), keyLost);
});

const begun = begunKey({ key: "k", mark: "m", fingerprint: "f", nowMs: T0, untilMs: T0 + 5_000 });
const finish = { key: "k", mark: "m", answer: "yes", nowMs: T0 + 100 };

test("a key is taken while its work gives signs of life, and then while its answer is remembered", () => {
  assert.equal(isTaken(begun, T0 + 4_999), true);
  assert.equal(isTaken(begun, T0 + 5_000), false, "the work has died");
  const answered: StoredKey = { ...begun, ...finishedKey(finish) };
  assert.equal(isTaken(answered, T0 + 5_000), true);
  assert.equal(isTaken(answered, finish.nowMs + LEASE_REMEMBERED_MS - 1), true);
  assert.equal(isTaken(answered, finish.nowMs + LEASE_REMEMBERED_MS), false);
});

test("a key is ours by its mark, and after the answer only for who repeats it", () => {
  const answered: StoredKey = { ...begun, ...finishedKey(finish) };
  assert.equal(isOurs(begun, finish), true);
  assert.equal(isOurs({ ...begun, mark: "other" }, finish), false);
  assert.equal(isOurs(undefined, finish), false);
  assert.equal(isOurs(answered, finish), true);
  assert.equal(isOurs(answered, { ...finish, answer: "no" }), false);
  assert.equal(isOurs(answered, { key: "k", mark: "m" }), false, "what is answered is not begun any more");
});
