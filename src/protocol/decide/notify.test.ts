import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY } from "../../../test/protocol/kit.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import type { Event } from "../process/machine.ts";
import { type NotifyAction, type NotifyPlan, nextNotify, notifyEnded, onNotify } from "./notify.ts";

// A write that one shard must get: every event, and what comes of it. No store, no clock.

const WRITE = new WriteBuilder().update(KEY, "exists", undefined);
const stamp: NotifyPlan = { readingMs: 0, isIdempotent: true, writeFor: () => WRITE };
const install: NotifyPlan = { readingMs: 0, isIdempotent: false, writeFor: () => WRITE };
const SEEN = { image: undefined, eventuallyConsistent: false, atMs: 0, order: 1 };

test("what an answer means for a write that a shard must get", async (t) => {
  const action: NotifyAction = { do: "write", write: WRITE, atMs: 0, set: undefined };
  const lost: Event = { kind: "unknown", cause: "lost" };
  const failed: Event = { kind: "failed", seen: SEEN };
  const refused: Event = { kind: "refused", why: "throttled", cause: "busy" };
  const table: readonly (readonly [string, NotifyPlan, Event, string])[] = [
    ["a stamp", stamp, { kind: "applied", seen: SEEN }, "written"],
    ["a stamp", stamp, failed, "nothing"],
    ["a stamp", stamp, lost, "sending"],
    ["a stamp", stamp, refused, "not written"],
    ["limits", install, { kind: "applied", seen: SEEN }, "written"],
    ["limits", install, failed, "sending"],
    ["limits", install, lost, "not written"],
    ["limits", install, refused, "not written"],
  ];
  for (const [what, plan, event, expected] of table) {
    await t.test(`${what}, ${event.kind}: ${expected}`, () => {
      const after = onNotify({ at: "sending" }, action, event, plan);
      assert.equal(after.at === "settled" ? after.result : after.at, expected);
    });
  }
});

test("it ends when there is nothing to write, or no attempt left", () => {
  const turn = { nowMs: 0, over: undefined, cached: undefined };
  assert.equal(nextNotify({ at: "sending" }, turn, stamp).do, "write");
  const silent: NotifyPlan = { ...install, writeFor: () => "nothing" };
  assert.deepEqual(nextNotify({ at: "sending" }, turn, silent), { do: "settle", result: "nothing" });
  const over = { ...turn, over: "attempts" } as const;
  assert.deepEqual(nextNotify({ at: "sending" }, over, stamp), { do: "settle", result: "not written" });
  assert.equal(notifyEnded({ at: "settled", result: "written" })?.result, "written");
  assert.equal(notifyEnded({ at: "sending" }), undefined);
});
