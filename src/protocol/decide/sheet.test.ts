import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY } from "../../../test/protocol/kit.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import type { Event } from "../process/machine.ts";
import { SENDING_SHEET, type SheetProgress, sheetWriting } from "./sheet.ts";

// A sheet of usage: every event, and what comes of it. No store, no clock.

const WRITE = new WriteBuilder().update({ ...KEY, sheet: "2026-03-15" }, "either", undefined);
const writing = sheetWriting(WRITE, 1_000);
const SEND = { do: "write", write: WRITE, atMs: 0, set: undefined } as const;
const LOST = { kind: "unknown", cause: "lost" } as const;

test("what an answer means for a sheet", async (t) => {
  const table: readonly (readonly [Event, SheetProgress["at"]])[] = [
    [{ kind: "there" }, "there"],
    [LOST, "pausing"],
    [{ kind: "refused", why: "throttled", cause: "busy" }, "pausing"],
    [{ kind: "refused", why: "conflict", cause: "busy" }, "pausing"],
  ];
  for (const [event, at] of table) {
    await t.test(`${event.kind}: ${at}`, () => assert.equal(writing.on(SENDING_SHEET, SEND, event).at, at));
  }
});

test("a sheet is tried once however little time there is, and ends with what the store said last", () => {
  const turn = { nowMs: 0, over: undefined };
  assert.equal(writing.next(SENDING_SHEET, { ...turn, over: "time" }).do, "write");
  const lost = writing.on(SENDING_SHEET, SEND, LOST);
  assert.equal(writing.next(lost, turn).do, "pause");
  const again = writing.on(lost, { do: "pause" }, { kind: "moved on" });
  assert.equal(writing.next(again, turn).do, "write");
  assert.deepEqual(writing.next(again, { ...turn, over: "attempts" }), { do: "end", result: LOST });
  assert.equal(writing.ended(again), undefined);
  assert.equal(writing.ended(writing.on(again, SEND, { kind: "there" }))?.result, "there");
});
