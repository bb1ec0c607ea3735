import assert from "node:assert/strict";
import { test } from "node:test";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { anyScene, imageOf, itemOf, KEY } from "../../../test/protocol/kit.ts";
import { isIdle } from "../../domain/bucket/bucket-questions.ts";
import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import { fullLimit } from "../../domain/bucket/limit-state.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Item } from "../../ports/item-store.ts";
import { SHARED } from "../shared/dialect.ts";
import { readableImage, withCallersLimitObjects } from "./codec.ts";
import { OWN } from "./dialect.ts";
import { canonicalOfSet } from "./limit-words.ts";

const Kinds = limitMakers(calendar);
const MONDAY_MS = Date.UTC(2026, 5, 1, 10);

const perMinute = (name: string, capacity: number, more: Item = {}): Item => ({
  [`b_${name}_tk`]: capacity * 1000,
  [`b_${name}_cp`]: capacity * 1000,
  [`b_${name}_ra`]: capacity * 1000,
  [`b_${name}_rp`]: 60_000,
  [`b_${name}_tc`]: 0,
  ...more,
});

test("a state of any kinds of limits comes back from its item as it was", () => {
  fc.assert(
    fc.property(anyScene(4), fc.boolean(), ({ state, set }, knowsSet) => {
      const item = itemOf(state);
      const image = readableImage(KEY, item, {
        calendar,
        dialect: OWN,
        like: undefined,
        set: knowsSet ? set : undefined,
      });
      const told = withCallersLimitObjects(image, set).state;
      assert.equal(told.epochMs, state.epochMs);
      assert.equal(told.signature, state.signature);
      assert.equal(told.validUntilMs, state.validUntilMs);
      assert.equal(told.renewAtMs, state.renewAtMs);
      assert.equal(told.plain, state.plain);
      assert.equal(told.origin.asOfMs, state.origin.asOfMs);
      assert.equal(image.canonical, canonicalOfSet(set));
      for (const [i, held] of state.limits.entries()) {
        const back = told.limits[i];
        // A quota does not drip, so it has no fraction to remember.
        assert.deepEqual({ ...back, limit: undefined }, { ...held, limit: undefined });
      }
    }),
    { numRuns: 300 },
  );
});

test("an image that is like an earlier one is the same as if it had been read anew", () => {
  fc.assert(
    fc.property(anyScene(3), fc.integer({ min: -5_000, max: 5_000 }), ({ state }, delta) => {
      const item = itemOf(state);
      const later = { ...item, b_l0_tk: Number(item.b_l0_tk) + delta, b_l0_tc: 9, b_rq: 3 };
      for (const dialect of [OWN, SHARED]) {
        const context = { calendar, dialect, set: undefined };
        const like = readableImage(KEY, item, { ...context, like: undefined });
        const quick = readableImage(KEY, later, { ...context, like });
        assert.deepEqual(quick, readableImage(KEY, later, { ...context, like: undefined }));
      }
    }),
    { numRuns: 100 },
  );
});

test("on a shared table parameters that were changed in place are not taken for those of before", () => {
  const item: Item = { rf: MONDAY_MS, ...perMinute("rpm", 100) };
  const context = { calendar, dialect: SHARED, set: undefined };
  const like = readableImage(KEY, item, { ...context, like: undefined });
  const { state } = readableImage(KEY, { ...item, b_rpm_cp: 50_000 }, { ...context, like });
  assert.equal(state.limits[0]?.terms.capacityMilli, 50_000);
});

test("an item as the original writes it is read, without any attribute of ours", () => {
  const { state, shardCount } = imageOf({
    rf: MONDAY_MS,
    shard_count: 1,
    ...perMinute("rpm", 100),
    ...perMinute("a.b-c", 7),
  });
  assert.equal(shardCount, 1);
  assert.deepEqual(
    state.limits.map(({ name, tokensMilli, configured, remainder }) => ({ name, tokensMilli, configured, remainder })),
    [
      { name: "a.b-c", tokensMilli: 7_000, configured: true, remainder: 0 },
      { name: "rpm", tokensMilli: 100_000, configured: true, remainder: 0 },
    ],
  );
  assert.equal(state.origin.asOfMs, 0, "limits read by anybody are newer");
});

test("the counter of writes is no limit, and neither is what lacks a capacity", () => {
  const { state } = imageOf({ rf: 5, ...perMinute("rpm", 1), ...perMinute("wcu", 1_000), b_ghost_tk: 5, b_rq: 3 });
  assert.deepEqual(
    state.limits.map(({ name }) => name),
    ["rpm"],
  );
});

test("without shard_count a bucket has one shard, without an epoch it is as old as can be", () => {
  const { state, shardCount } = imageOf(perMinute("rpm", 1));
  assert.equal(shardCount, 1);
  assert.equal(state.epochMs, 0);
  assert.ok(isIdle(state, 1_000, MONDAY_MS, calendar));
});

test("schedule and reset stand for all limits of the item, but where a limit says otherwise or says none", () => {
  const day = (name: string, more: Item = {}): Item => perMinute(name, 10, { [`b_${name}_ra`]: 0, ...more });
  const schedule = Kinds.perMinute("x", 10, { schedule: [{ cron: "* 9-17 * * *", scale: 2 }] });
  const sched = String(itemOf(stateOf(schedule)).b_x_sched);
  const reset = String(itemOf(stateOf(Kinds.quota("x", 10, { reset: { cron: "0 0 * * *" } }))).b_x_rsched);
  const monthly = String(itemOf(stateOf(Kinds.quota("x", 10, { reset: { cron: "0 0 1 * *" } }))).b_x_rsched);
  const { state } = imageOf({
    rf: MONDAY_MS,
    sched,
    rsched: reset,
    sched_tz: "UTC",
    ...perMinute("drips", 10),
    ...perMinute("flat", 10, { b_flat_sched: "-" }),
    ...day("daily", { b_daily_sched: "-" }),
    ...day("monthly", { b_monthly_sched: "-", b_monthly_rsched: monthly }),
    ...day("never", { b_never_sched: "-", b_never_rsched: "-" }),
  });
  const limits = new Map(state.limits.map(({ name, limit, terms }) => [name, { limit, terms }]));
  assert.equal(limits.get("drips")?.terms.capacityMilli, 20_000, "at ten in the morning");
  assert.equal(limits.get("drips")?.limit.reset, undefined, "what drips does not reset");
  assert.equal(limits.get("flat")?.terms.capacityMilli, 10_000);
  assert.deepEqual(limits.get("daily")?.limit.reset, { cron: "0 0 * * *", tz: "UTC" });
  assert.deepEqual(limits.get("monthly")?.limit.reset, { cron: "0 0 1 * *", tz: "UTC" });
  assert.equal(limits.get("never")?.limit.reset, undefined);
});

test("a fraction counts only with the epoch it was left over at", () => {
  const item = { rf: MONDAY_MS, frf: MONDAY_MS, ...perMinute("rpm", 10, { b_rpm_fr: 77 }) };
  assert.equal(imageOf(item).state.limits[0]?.remainder, 77);
  assert.equal(imageOf({ ...item, frf: MONDAY_MS - 1 }).state.limits[0]?.remainder, 0);
  assert.equal(imageOf({ ...item, rf: MONDAY_MS + 1 }).state.limits[0]?.remainder, 0);
});

test("limits that configuration no longer names are remembered, not configured", () => {
  const { state } = imageOf({ rf: 1, cfl: "rpm", cfa: 9, ...perMinute("rpm", 10), ...perMinute("gone", 10) });
  assert.deepEqual(
    state.limits.map(({ name, configured }) => [name, configured]),
    [
      ["rpm", true],
      ["gone", false],
    ],
  );
  assert.equal(state.origin.asOfMs, 9);
});

test("a limit that is remembered in another zone than the bucket's keeps its own", () => {
  const berlin = fullLimit(
    Kinds.quota("old", 5, { reset: { cron: "0 0 * * *", tz: "Europe/Berlin" } }),
    false,
    1e12,
    calendar,
  );
  const state = { ...stateOf(Kinds.quota("new", 5, { reset: { cron: "0 0 * * *", tz: "UTC" } })) };
  const item = itemOf({ ...state, limits: [...state.limits, berlin] });
  const back = imageOf(item).state.limits.find(({ name }) => name === "old");
  assert.equal(back?.limit.reset?.tz, "Europe/Berlin");
});

test("what cannot be read is said to be so, with the attribute and the remedy", () => {
  assert.throws(
    () => imageOf({ rf: 1, ...perMinute("rpm", 1), b_rpm_cp: "many" }),
    /"b_rpm_cp" of the bucket of .*, shard 0, is "many", not a whole number .*Reset the whole bucket/,
  );
  for (const damage of [
    { b_rpm_sched: "?!" },
    { b_rpm_tk: "1" },
    { rf: "soon" },
    { b_rpm_rp: 0 },
    { shard_count: 1.5 },
  ]) {
    const item = { rf: 1, ...perMinute("rpm", 1), ...damage };
    assert.throws(
      () => imageOf(item),
      (error) => error instanceof ItemUnreadable && error.attribute === Object.keys(damage)[0],
    );
  }
});

test("a count past 2^53 is a count, on any limit and the requests; tokens past it are none", () => {
  const counted = { b_rpm_tc: 2n ** 60n, b_rpm_by: 2n ** 60n, b_rpm_tp: -(2n ** 60n), b_rq: 2n ** 60n };
  assert.equal(imageOf({ rf: 1, ...perMinute("rpm", 1), ...counted }).state.limits.length, 1);
  assert.throws(() => imageOf({ rf: 1, ...perMinute("rpm", 1), b_rpm_tk: 2n ** 60n }), ItemUnreadable);
});

test("a shard's terms are its share of what the item says undivided", () => {
  const item: Item = { rf: 1, shard_count: 4, ...perMinute("rpm", 10) };
  const shares = [0, 1, 2, 3].map(
    (shard) => imageOf(item, { ...KEY, shard }).state.limits[0]?.terms.capacityMilli ?? 0,
  );
  assert.deepEqual(shares, [2_500, 2_500, 2_500, 2_500]);
  const odd: Item = { ...item, b_rpm_cp: 10_001 };
  const parts = [0, 1, 2, 3].map((shard) => imageOf(odd, { ...KEY, shard }).state.limits[0]?.terms.capacityMilli ?? 0);
  assert.equal(
    parts.reduce((a, b) => a + b),
    10_001,
  );
});

/** By DynamoDB's rules: names and strings in bytes of UTF-8, a number by its significant digits, a boolean one. */
function sizeOf(item: Item): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(item)) {
    bytes += Buffer.byteLength(name);
    if (typeof value === "string") bytes += Buffer.byteLength(value);
    else if (typeof value === "boolean") bytes += 1;
    else bytes += Math.ceil(String(value).replace("-", "").replace(/0+$/, "").length / 2) + 1;
  }
  return bytes;
}

test("an item of four limits, with sixteen processes writing to it, is one write unit: less than 1 KB", () => {
  const limits = ["rpm", "tpm", "rpd", "tpd"].map((name) => Kinds.perMinute(name, 1_234_567, { burst: 7_654_321 }));
  const state = stateOf(...limits);
  const spent = {
    ...state,
    limits: state.limits.map((held) => ({ ...held, tokensMilli: -1_234_567_891, remainder: 59_999 })),
  };
  const item: Record<string, Item[string]> = {
    ...itemOf(spent),
    ttl: 1_790_000_000,
    vu: MONDAY_MS + 1,
    sda: MONDAY_MS + 1,
  };
  for (const name of ["rpm", "tpm", "rpd", "tpd"]) item[`b_${name}_tc`] = 123_456_789_012_345;
  Object.assign(item, { b_wcu_tc: 123_456_789_000, b_rq: 123_456_789, cfa: MONDAY_MS + 123 });
  for (let slot = 0; slot < 16; slot++) item[`n${slot.toString(16)}`] = Number.MAX_SAFE_INTEGER;
  const [ns, entity, resource] = ["a1B2c3D4e5F", "user-0123456789", "gpt-4o-mini"];
  const keys: Item = {
    PK: `${ns}/BUCKET#${entity}#${resource}#0`,
    SK: "#STATE",
    entity_id: entity,
    resource,
    cascade: true,
    parent_id: "org-0123456789",
    GSI2PK: `${ns}/RESOURCE#${resource}`,
    GSI2SK: `BUCKET#${entity}#0`,
    GSI3PK: `${ns}/ENTITY#${entity}`,
    GSI3SK: `BUCKET#${resource}#0`,
    GSI4PK: ns,
    GSI4SK: `BUCKET#${entity}#${resource}#0`,
  };
  const bytes = sizeOf({ ...keys, ...item });
  assert.ok(bytes < 1_024, `${bytes} bytes`);
});

function stateOf(...limits: Parameters<typeof limitSet>[0][number][]) {
  const held = limits.map((limit) => fullLimit(limit, true, MONDAY_MS, calendar));
  return {
    epochMs: MONDAY_MS,
    limits: held,
    signature: limitSet(limits).signature,
    origin: { asOfMs: MONDAY_MS, generation: null },
    validUntilMs: Number.POSITIVE_INFINITY,
    renewAtMs: Number.POSITIVE_INFINITY,
    untouched: false,
    plain: true,
  };
}
