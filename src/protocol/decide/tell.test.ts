import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY } from "../../../test/protocol-kit.ts";
import type { Event } from "../drive.ts";
import { WriteBuilder } from "../write-builder.ts";
import { nextTell, onTell, type TellAction, type TellPlan, tellEnded } from "./tell.ts";

// What one shard is told of, every event, and what comes of it. No store, no clock.

const WRITE = new WriteBuilder().update(KEY, "exists", undefined);
const stamp: TellPlan = { readingMs: 0, isIdempotent: true, writeFor: () => WRITE };
const install: TellPlan = { readingMs: 0, isIdempotent: false, writeFor: () => WRITE };
const SEEN = { image: undefined, eventuallyConsistent: false, atMs: 0, order: 1 };

test("what an answer means for something that a shard is told", async (t) => {
  const action: TellAction = { do: "write", write: WRITE, atMs: 0, set: undefined };
  const lost: Event = { kind: "unknown", cause: "lost" };
  const failed: Event = { kind: "failed", seen: SEEN };
  const refused: Event = { kind: "refused", why: "throttled", cause: "busy" };
  const table: readonly (readonly [string, TellPlan, Event, string])[] = [
    ["a stamp", stamp, { kind: "applied", seen: SEEN }, "told"],
    ["a stamp", stamp, failed, "nothing"],
    ["a stamp", stamp, lost, "telling"],
    ["a stamp", stamp, refused, "not told"],
    ["limits", install, { kind: "applied", seen: SEEN }, "told"],
    ["limits", install, failed, "telling"],
    ["limits", install, lost, "not told"],
    ["limits", install, refused, "not told"],
  ];
  for (const [what, plan, event, expected] of table) {
    await t.test(`${what}, ${event.kind}: ${expected}`, () => {
      const after = onTell({ at: "telling" }, action, event, plan);
      assert.equal(after.at === "settled" ? after.result : after.at, expected);
    });
  }
});

test("what is to be told ends when there is nothing to say, or no attempt left", () => {
  const turn = { nowMs: 0, over: undefined, cached: undefined };
  assert.equal(nextTell({ at: "telling" }, turn, stamp).do, "write");
  const silent: TellPlan = { ...install, writeFor: () => "nothing" };
  assert.deepEqual(nextTell({ at: "telling" }, turn, silent), { do: "settle", result: "nothing" });
  const over = { ...turn, over: "attempts" } as const;
  assert.deepEqual(nextTell({ at: "telling" }, over, stamp), { do: "settle", result: "not told" });
  assert.equal(tellEnded({ at: "settled", result: "told" })?.result, "told");
  assert.equal(tellEnded({ at: "telling" }), undefined);
});
