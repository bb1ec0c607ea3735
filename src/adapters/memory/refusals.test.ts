import assert from "node:assert/strict";
import { test } from "node:test";
import { OTHER, type RefusalCount } from "../../domain/charge/refusal-count.ts";
import { MEMORY_RETENTION } from "../../domain/config/retention.ts";
import type { Page } from "../../domain/names/paging.ts";
import type { RefusalRow } from "../../ports/usage-store.ts";
import { createCalendar } from "../system/calendar.ts";
import { systemTurns } from "../system/clock.ts";
import { dataOf, newMemoryData } from "./data.ts";
import { memoryOver } from "./store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const HOUR_MS = 3_600_000;

function open() {
  const data = newMemoryData(MEMORY_RETENTION, systemTurns);
  const { refusals } = memoryOver(data, createCalendar()).scope("default");
  const counts = async (): Promise<readonly RefusalCount[]> => {
    const all = { window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
    return (await refusals.query(all, { limit: 1_000_000 })).items;
  };
  return { refusals, counts, index: dataOf(data, "default").refusals };
}

function row(entityId: string, hourMs: number, count: number, version: number): RefusalRow {
  const counts = [{ limit: "rpm", level: entityId, total: false, count }];
  return { id: "p1", hourMs, entityId, resource: "api", version, mustExist: version > 1, counts };
}

test("however many ids are refused in two days, memory keeps a bounded number of counts and every sum", async () => {
  const { refusals, counts, index } = open();
  let written = 0;
  for (let hour = 0; hour < 28; hour++) {
    const hourMs = T0 + hour * HOUR_MS;
    const rows = Array.from({ length: 2_000 }, (_, i) => row(`id-${hour}-${i}`, hourMs, 1 + (i % 3), 1));
    await refusals.write(rows, hourMs);
    written += rows.reduce((sum, one) => sum + (one.counts[0]?.count ?? 0), 0);
    assert.ok(index.entryCount <= 50_000);
  }
  const all = await counts();
  assert.equal(
    all.reduce((sum, { count }) => sum + count, 0),
    written,
  );
  const [first] = all;
  assert.deepEqual([first?.windowStartMs, first?.entityId, first?.count], [T0, OTHER, 3_999]);
  assert.equal(all.filter(({ windowStartMs }) => windowStartMs === T0 + 27 * HOUR_MS).length, 2_000);
  // Whoever goes on with a row that lost its name begins another, with what was not stored yet.
  assert.deepEqual(await refusals.write([row("id-0-0", T0, 9, 2)], T0 + 27 * HOUR_MS), ["gone"]);
});

test("counts are dropped when they are older than usage is kept", async () => {
  const { refusals, counts } = open();
  await refusals.write([row("old", T0, 3, 1)], T0);
  const laterMs = T0 + 50 * HOUR_MS;
  await refusals.write([row("new", laterMs, 1, 1)], laterMs);
  assert.deepEqual(
    (await counts()).map(({ entityId }) => entityId),
    ["new"],
  );
});

test("counts come from window to window and by name, each once, whatever goes between two pages", async () => {
  const { refusals } = open();
  const hours = [T0 - HOUR_MS, T0];
  const ids = Array.from({ length: 300 }, (_, i) => `id-${String((i * 7) % 300).padStart(3, "0")}`);
  for (const hourMs of hours)
    await refusals.write(
      ids.map((id) => row(id, hourMs, 1, 1)),
      hourMs,
    );
  const query = { window: "hourly", fromMs: T0 - HOUR_MS, toMs: T0 + HOUR_MS } as const;
  const first = await refusals.query(query, { limit: 299 });
  assert.equal(first.cursor, `${T0 - HOUR_MS}\nid-298\napi\nrpm\nid-298\nlimit`);
  // The first of the hours is no longer kept.
  const laterMs = T0 + 48 * HOUR_MS;
  await refusals.write([row("new", laterMs, 1, 1)], laterMs);
  const found: string[] = [];
  let cursor: string | undefined = first.cursor;
  while (cursor !== undefined) {
    const page: Page<RefusalCount> = await refusals.query(query, { limit: 7, cursor });
    found.push(...page.items.map(({ entityId, windowStartMs }) => `${windowStartMs} ${entityId}`));
    cursor = page.cursor;
  }
  assert.deepEqual(found, ids.map((id) => `${T0} ${id}`).sort());
});
