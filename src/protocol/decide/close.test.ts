import assert from "node:assert/strict";
import { test } from "node:test";
import { ENV, imageOf, itemOf, KEY } from "../../../test/protocol/kit.ts";
import { freshBucket } from "../../domain/bucket/bucket-state.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Item } from "../../ports/item-store.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import type { Event } from "../process/machine.ts";
import { type CloseAction, type CloseProgress, closeEnded, nextClose, onClose } from "../usage/close-hours.ts";

// The hours of a shard: what each item calls for, every event, and what comes of it. No store, no clock.

const T0 = Date.UTC(2026, 0, 1);
const HOUR = T0 / 3_600_000;
const HOUR_MS = 3_600_000;
const limits = limitSet([limitMakers(ENV.calendar).perMinute("rpm", 10)]);
const STATE = freshBucket(limits, { asOfMs: T0, generation: null }, T0, ENV.calendar);
const OPTIONS = { nowMs: T0 + 3 * HOUR_MS, afterHours: 1 };
const TURN = { nowMs: OPTIONS.nowMs, over: undefined, sheeted: undefined };

const seen = (attributes: Item): Extract<CloseProgress, { at: "seen" }> => ({
  at: "seen",
  image: imageOf({ ...itemOf(STATE), uh: HOUR, b_rq: 0, ...attributes }),
  hours: 0,
});
const told = (action: ReturnType<typeof nextClose>) => (action.do === "end" ? action.result.kind : action.do);

test("what an item calls for", async (t) => {
  const COUNTED = { b_rq: 2, b_rpm_tc: 2_000 };
  const BESIDE = { up: HOUR - 1, b_rqp: 1, b_rpm_tp: 1_000 };
  const LONG = { ttl: T0 / 1000 + 90 * 24 * 3_600 };
  const table: readonly (readonly [string, Item, Partial<typeof OPTIONS>, number | undefined, string])[] = [
    ["an hour beside the open one goes on its sheet", { ...COUNTED, ...BESIDE }, {}, undefined, "sheet"],
    ["the open one is over and is rolled", COUNTED, {}, undefined, "write"],
    ["with the hour beside it on its sheet, too", { ...COUNTED, ...BESIDE }, {}, HOUR - 1, "write"],
    ["the open one is not over for long", COUNTED, { afterHours: 3 }, undefined, "open"],
    ["nothing was counted: it need not be kept so long", LONG, {}, undefined, "write"],
    ["nothing was counted, and it is kept for ever", {}, {}, undefined, "closed"],
  ];
  for (const [what, item, options, sheeted, expected] of table) {
    await t.test(what, () => {
      const action = nextClose(seen(item), { ...TURN, sheeted }, { ...OPTIONS, ...options }, ENV);
      assert.equal(told(action), expected);
    });
  }
  await t.test("no attempt is left for a write", () => {
    const action = nextClose(seen(COUNTED), { ...TURN, over: "attempts" }, OPTIONS, ENV);
    assert.equal(told(action), "failed");
  });
});

test("what an answer means for the hours of a shard", async (t) => {
  const from = seen({});
  const WRITE = new WriteBuilder().update(KEY, "exists", undefined);
  const SEND: CloseAction = { do: "write", write: WRITE, atMs: 0, set: undefined };
  const SHEET: CloseAction = { do: "sheet", write: WRITE };
  const about = { eventuallyConsistent: false, atMs: 0, order: 1 };
  const table: readonly (readonly [string, CloseAction, Event, string])[] = [
    ["a write", SEND, { kind: "applied", seen: { image: from.image, ...about } }, "seen"],
    ["a write", SEND, { kind: "failed", seen: { image: from.image, ...about } }, "seen"],
    ["a write to a shard that is gone", SEND, { kind: "failed", seen: { image: undefined, ...about } }, "gone"],
    ["a write", SEND, { kind: "unknown", cause: "lost" }, "failed"],
    ["a write", SEND, { kind: "refused", why: "throttled", cause: "busy" }, "failed"],
    ["a sheet", SHEET, { kind: "there" }, "seen"],
    ["a sheet", SHEET, { kind: "unknown", cause: "lost" }, "failed"],
  ];
  for (const [what, action, event, expected] of table) {
    await t.test(`${what}, ${event.kind}: ${expected}`, () => {
      const after = onClose(from, action, event);
      assert.equal(closeEnded(after)?.result.kind ?? after.at, expected);
      if (event.kind === "there") assert.equal(after.at === "seen" && after.hours, 1);
    });
  }
});
