import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditEvent } from "../../domain/config/audit.ts";
import { AuditIds } from "./audit.ts";

const event = (): AuditEvent => ({ eventId: "e", atMs: 5, action: "limits_set", entityId: "a", details: {} });

test("ids of one process grow, in one millisecond and when its clock is put back (W35)", () => {
  let nowMs = 1_700_000_000_000;
  let drawn = 0;
  const ids = new AuditIds({ now: () => nowMs, sleep: async () => {} }, { id: () => String(++drawn) });
  const given: string[] = [];
  for (const stepMs of [0, 0, 1, 0, -3_600_000, 0, 3_600_001, 1]) {
    nowMs += stepMs;
    given.push(ids.of(event()));
  }
  assert.deepEqual(given, given.toSorted());
  assert.equal(new Set(given).size, given.length);
  for (const id of given) assert.match(id, /^[0-9A-HJKMNP-TV-Z]{26}$/);
});

test("an id begins with the time in the original's way, so that both programs' ids sort together", () => {
  // From the ULID specification: 1469918176385 is 01ARYZ6S41.
  const ids = new AuditIds({ now: () => 1_469_918_176_385, sleep: async () => {} }, { id: () => "x" });
  assert.equal(ids.of(event()).slice(0, 10), "01ARYZ6S41");
});

test("an event that is written again keeps its id", () => {
  let nowMs = 1;
  const ids = new AuditIds({ now: () => nowMs++, sleep: async () => {} }, { id: () => "x" });
  const one = event();
  const first = ids.of(one);
  assert.notEqual(ids.of(event()), first);
  assert.equal(ids.of(one), first);
});
