import assert from "node:assert/strict";
import { test } from "node:test";
import { nextState, RETRY_MS, type TenantState } from "./tenants.ts";

const T0 = 1_800_000_000_000;
const unknown: TenantState = { kind: "unknown" };
const asked = (nowMs: number) => ({ kind: "asked", nowMs }) as const;

test("a lookup that failed is asked again when its time has come, and not before", () => {
  const looking = nextState(unknown, asked(T0));
  assert.deepEqual(looking, { kind: "looking", sinceMs: T0 });
  assert.equal(nextState(looking, asked(T0 + 5)), looking, "it is asked once at a time");
  const cause = new Error("down");
  const failed = nextState(looking, { kind: "unanswered", cause, nowMs: T0 + 10, isOutage: false });
  assert.deepEqual(failed, { kind: "failed", cause, retryAtMs: T0 + 10 + RETRY_MS });
  assert.equal(nextState(failed, asked(T0 + 9 + RETRY_MS)), failed);
  assert.equal(nextState(failed, asked(T0 + 10 + RETRY_MS)).kind, "looking");
  const outage = nextState(looking, { kind: "unanswered", cause, nowMs: T0 + 10, isOutage: true });
  assert.equal(nextState(outage, asked(T0 + 10)).kind, "looking", "an outage may be over with the next request");
});

test("what is known stays known in an outage, and what is gone stays gone", () => {
  const ready = nextState({ kind: "looking", sinceMs: T0 }, { kind: "found", id: "id-1" });
  assert.deepEqual(ready, { kind: "ready", id: "id-1" });
  assert.equal(nextState(ready, asked(T0 + 1e9)), ready);
  assert.equal(nextState(ready, { kind: "unanswered", cause: undefined, nowMs: T0, isOutage: true }), ready);
  const gone = nextState(ready, { kind: "missing" });
  assert.deepEqual(gone, { kind: "gone" });
  assert.equal(nextState(gone, { kind: "found", id: "id-2" }), gone);
  assert.equal(nextState(gone, asked(T0)), gone);
});
