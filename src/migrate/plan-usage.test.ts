import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { type OldUsage, planUsage } from "./plan-usage.ts";

const context = { namespaceId: "n", startedMs: Date.UTC(2026, 2, 15, 12, 10), keptS: 0, keptUntilS: 0 };

function usage(window: string, start: string, counters: Readonly<Record<string, number>>, events = 1): OldUsage {
  const numbers = Object.entries(counters).map(([name, value]) => [name, { N: String(value) }] as const);
  const item: Attributes = {
    window: { S: window },
    total_events: { N: String(events) },
    ...Object.fromEntries(numbers),
  };
  return { resource: "r", start, item };
}

/** Hours by day, as the sheets have them. */
function sheets(...all: readonly OldUsage[]): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const planned = planUsage("e", all, context);
  return Object.fromEntries(
    planned.map(({ key, attributes }) => [
      `${key.sk.slice("#USAGE#".length)}${key.pk.endsWith("#0") ? "" : " (last shard)"}`,
      Object.fromEntries(
        Object.entries(attributes).flatMap(([name, { S }]) => (/^h\d\d$/.test(name) ? [[name, S ?? ""]] : [])),
      ),
    ]),
  );
}

test("hours are entries of their day; overdrafts stay overdrafts", () => {
  assert.deepEqual(
    sheets(
      usage("hourly", "2026-03-14T09:00:00Z", { rpm: 3, "tpm#od": 2 }, 4),
      usage("hourly", "2026-03-14T23:00:00Z", { rpm: 1 }),
      usage("hourly", "2026-03-13T00:00:00Z", { rpm: -2 }),
    ),
    { "2026-03-14": { h09: "4;rpm=3000;tpm#od=2000", h23: "1;rpm=1000" }, "2026-03-13": { h00: "1;rpm=-2000" } },
  );
});

test("a day or month without hours goes to its first; with hours only what they do not have", () => {
  assert.deepEqual(sheets(usage("daily", "2026-03-14T00:00:00Z", { rpm: 5 }, 5)), {
    "2026-03-14": { h00: "5;rpm=5000" },
  });
  assert.deepEqual(
    sheets(
      usage("daily", "2026-03-14T00:00:00Z", { rpm: 5 }, 5),
      usage("hourly", "2026-03-14T09:00:00Z", { rpm: 5 }, 5),
    ),
    { "2026-03-14": { h09: "5;rpm=5000" } },
  );
  assert.deepEqual(
    sheets(
      usage("daily", "2026-03-14T00:00:00Z", { rpm: 5 }, 5),
      usage("hourly", "2026-03-14T09:00:00Z", { rpm: 3 }, 3),
    ),
    { "2026-03-14": { h00: "2;rpm=2000", h09: "3;rpm=3000" } },
    "hours that have expired are in the day's sum still",
  );
  assert.deepEqual(
    sheets(
      usage("monthly", "2026-02-01T00:00:00Z", { rpm: 9 }, 9),
      usage("daily", "2026-02-03T00:00:00Z", { rpm: 9 }, 9),
    ),
    { "2026-02-03": { h00: "9;rpm=9000" } },
  );
});

test("the hour at midnight that holds its day, too, is taken apart (W39 of the original)", () => {
  // 10 at 00:30 and 10 at 05:30: the item of the first hour says 30, by the hour and by the day.
  assert.deepEqual(
    sheets(
      usage("hourly", "2026-03-14T00:00:00Z", { rpm: 30 }, 6),
      usage("hourly", "2026-03-14T05:00:00Z", { rpm: 10 }, 2),
      usage("daily", "2026-03-13T00:00:00Z", { rpm: 1 }),
    ),
    { "2026-03-14": { h00: "2;rpm=10000", h05: "2;rpm=10000" }, "2026-03-13": { h00: "1;rpm=1000" } },
  );
  assert.deepEqual(
    sheets(
      usage("hourly", "2026-03-14T00:00:00Z", { rpm: 30 }, 6),
      usage("hourly", "2026-03-14T05:00:00Z", { rpm: 10 }, 2),
    ),
    { "2026-03-14": { h00: "6;rpm=30000", h05: "2;rpm=10000" } },
    "where days are not counted, it is an hour",
  );
});

test("the hour in which it began stands on the last shard: on the first it would count as closed", () => {
  assert.deepEqual(
    sheets(usage("hourly", "2026-03-15T12:00:00Z", { rpm: 3 }), usage("hourly", "2026-03-15T11:00:00Z", { rpm: 2 })),
    { "2026-03-15 (last shard)": { h12: "1;rpm=3000" }, "2026-03-15": { h11: "1;rpm=2000" } },
  );
});
