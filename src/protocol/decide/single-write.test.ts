import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY } from "../../../test/protocol/kit.ts";
import { shardWrite } from "../config/apply.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import type { Event } from "../process/machine.ts";
import { type SingleWrite, singleWrite } from "./single-write.ts";

// A write that one shard must get: every event, and what comes of it. No store, no clock.

const WRITE = new WriteBuilder().update(KEY, "exists", undefined);
const stamp = shardWrite(0, true, () => WRITE);
const install = shardWrite(0, false, () => WRITE);
const SEEN = { image: undefined, eventuallyConsistent: false, atMs: 0, order: 1 };
const machineOf = <Result>(plan: SingleWrite<Result>) => singleWrite(plan, () => undefined, 1_000);

test("what an answer means for a write that a shard must get", async (t) => {
  const action = { do: "write", write: WRITE, atMs: 0, set: undefined } as const;
  const lost: Event = { kind: "unknown", cause: "lost" };
  const failed: Event = { kind: "failed", seen: SEEN };
  const refused: Event = { kind: "refused", why: "throttled", cause: "busy" };
  const table: readonly (readonly [string, typeof stamp, Event, string])[] = [
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
      assert.equal(machineOf(plan).on(undefined, action, event)?.result ?? "sending", expected);
    });
  }
});

test("it ends when there is nothing to write, or no attempt left", () => {
  const turn = { nowMs: 0, over: undefined };
  const machine = machineOf(stamp);
  assert.equal(machine.next(undefined, turn).do, "write");
  const silent = shardWrite(0, false, () => ({ result: "nothing" }));
  assert.deepEqual(machineOf(silent).next(undefined, turn), { do: "end", result: "nothing" });
  const over = { ...turn, over: "attempts" } as const;
  assert.deepEqual(machine.next(undefined, over), { do: "end", result: "not written" });
  assert.equal(machine.ended({ result: "written" })?.result, "written");
  assert.equal(machine.ended(undefined), undefined);
});
