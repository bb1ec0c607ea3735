import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { MEMORY_RETENTION } from "../../domain/config/retention.ts";
import { Limit } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { createCalendar } from "../system/calendar.ts";
import { systemTurns } from "../system/clock.ts";
import { openMemory } from "./store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);

test("two claims of one call on the same bucket take twice or not at all", async () => {
  const { buckets } = openMemory(createCalendar(), MEMORY_RETENTION, systemTurns).scope("default");
  const claim = {
    bucket: bucketKey("a", "api"),
    set: limitSet([Limit.perMinute("rpm", 10)]),
    origin: { asOfMs: T0, generation: 1 },
    take: [{ limit: "rpm", milli: 4_000 }],
    bypass: false,
  };
  const take = async () => {
    const reply = await buckets.take([claim, claim], { nowMs: T0, timeoutMs: 1_000, generation: 1, atomic: false });
    return reply === "stale" ? [] : reply.map(({ kind }) => kind);
  };
  assert.deepEqual(await take(), ["taken", "taken"]);
  assert.deepEqual(await take(), ["short", "short"]);
  const [state] = await buckets.read([claim.bucket]);
  assert.deepEqual(
    state?.limits.map(({ tokensMilli }) => tokensMilli),
    [2_000],
  );
});
