import assert from "node:assert/strict";
import { test } from "node:test";
import {
  configKey,
  entityConfigRegistryKey,
  entityKey,
  itemTableKey,
  resourceRegistryKey,
} from "../../src/adapters/dynamodb/schema.ts";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { ConfigScope } from "../../src/domain/config/config.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { RateLimiterUnavailable, VersionError } from "../../src/domain/names/errors.ts";
import { SPARE_S } from "../../src/protocol/take/expiry.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { claim, Kinds, T0 } from "../kit/contract-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { answersLost, N, newGround, optionsFor, S, withoutKeys } from "./store-kit.ts";

const SYSTEM: ConfigScope = { level: "system" };
const API: ConfigScope = { level: "resource", resource: "api" };
const ANY_OF_A: ConfigScope = { level: "entityDefault", entityId: "a" };
const A_ON_API: ConfigScope = { level: "entity", entityId: "a", resource: "api" };
const HOUR_0 = Date.UTC(2026, 2, 15, 10);
const DAY_S = 86_400;
const rpm = [Limit.perMinute("rpm", 10)];

await describeDynamo("configuration in the table", (dynamodb) => {
  test("buckets and sheets are kept for as many days as the system defaults say", async (t) => {
    const clock = new SimulatedClock(HOUR_0);
    const { place, store, records, namespaceId, ...ground } = await newGround(dynamodb, t, { clock });
    await place.scope.config.set(SYSTEM, { limits: rpm, usageKeptDays: 400 }, place.event("limits_set", "$SYSTEM"));
    assert.deepEqual((await records.get(configKey(namespaceId, SYSTEM)))?.usage_kept_days, N(400));
    // Other limits, and none, leave it as it is.
    await place.set(SYSTEM, [Limit.perMinute("rpm", 20)]);
    assert.equal((await place.scope.config.get(SYSTEM))?.usageKeptDays, 400);
    await place.scope.config.delete(SYSTEM, place.event("limits_deleted", "$SYSTEM"), "all");
    assert.deepEqual(await place.scope.config.get(SYSTEM), { limits: [], usageKeptDays: 400 });
    await place.set(API, rpm);
    await place.resolve("a", "api");
    await place.take([claim("a", rpm, { rpm: 1 })], HOUR_0);
    const key = { bucket: bucketKey("a", "api"), shard: 0 };
    const ttlOf = async (more: { readonly sheet?: string }) =>
      Number((await records.get(itemTableKey(namespaceId, { ...key, ...more })))?.ttl?.N);
    assert.equal(await ttlOf({}), HOUR_0 / 1000 + 3_600 + 400 * DAY_S + SPARE_S);
    // Whoever only sweeps has resolved nothing.
    const sweeper = await ground.another();
    const scope = dynamoOver(optionsFor(sweeper.wire, sweeper.table, { clock })).scope(namespaceId);
    clock.set(HOUR_0 + 5 * 3_600_000);
    const [closed] = (await scope.hours?.close([key], { nowMs: clock.now(), afterHours: 2 })) ?? [];
    assert.equal(closed?.kind, "closed");
    assert.equal(await ttlOf({ sheet: "2026-03-15" }), Date.UTC(2026, 2, 16) / 1000 + 400 * DAY_S);
  });

  test("how long usage is kept on a table shared with the original is the original's to say", async (t) => {
    const { place } = await newGround(dynamodb, t, { shared: true });
    const set = () =>
      place.scope.config.set(SYSTEM, { limits: rpm, usageKeptDays: 400 }, place.event("limits_set", "$SYSTEM"));
    await assert.rejects(async () => set(), { code: "usage_kept_days_unsupported", message: /usage_retention_days/ });
    assert.equal(await place.scope.config.get(SYSTEM), undefined);
  });

  test("limits of every kind are stored in the words of the original", async (t) => {
    const { place, records, namespaceId } = await newGround(dynamodb, t);
    const schedule = [{ cron: "* 9-17 * * MON-FRI", tz: "America/New_York", scale: 0.5 }];
    await place.set(A_ON_API, [
      Kinds.perMinute("x.y-z", 100, { burst: 200, soft: true, schedule }),
      Kinds.quota("month", 50, { reset: { cron: "0 0 1 * *", tz: "America/New_York" } }),
      Kinds.quota("sess", 7, { resetAfterMs: 18_000_000 }),
    ]);
    const { limit_history: history, ...item } = (await records.get(configKey(namespaceId, A_ON_API))) ?? {};
    assert.equal(JSON.parse(history?.S ?? "[]").length, 2, "what there was before, and these limits");
    assert.deepEqual(item, {
      PK: S(`${namespaceId}/ENTITY#a`),
      SK: S("#CONFIG#api"),
      GSI3PK: S(`${namespaceId}/ENTITY_CONFIG#api`),
      GSI3SK: S("a"),
      GSI4PK: S(namespaceId),
      GSI4SK: S(`${namespaceId}/ENTITY#a`),
      entity_id: S("a"),
      resource: S("api"),
      config_version: N(1),
      limit_order: S("x.y-z,month,sess"),
      sched_tz: S("America/New_York"),
      "l_x.y-z_cp": N(200),
      "l_x.y-z_ra": N(100),
      "l_x.y-z_rp": N(60),
      "l_x.y-z_sched": S("1h9-17w1-5s500"),
      "l_x.y-z_soft": { BOOL: true },
      l_month_cp: N(50),
      l_month_ra: N(0),
      l_month_rp: N(1),
      l_month_rsched: S("1m0h0D1"),
      w_sess_cp: N(7),
      w_sess_ra: N(0),
      w_sess_rp: N(1),
      w_sess_rsa: N(18_000),
    });
  });

  test("what the original stored is read: both prefixes, flags alone, a bypass, no word of ours", async (t) => {
    const { place, put, namespaceId } = await newGround(dynamodb, t);
    await put(configKey(namespaceId, API), {
      resource: S("api"),
      config_version: N(1),
      ...{ l_tpm_cp: N(9), l_tpm_ra: N(3), l_tpm_rp: N(60), l_tpm_soft: { BOOL: true } },
      ...{ w_five_cp: N(5), w_five_ra: N(0), w_five_rp: N(1), w_five_rsa: N(3600), w_five_sched: S("1h9-17s500") },
      sched_tz: S("Europe/Berlin"),
    });
    await put(configKey(namespaceId, ANY_OF_A), { entity_id: S("a"), disabled: S("bypass"), cascade: { BOOL: true } });
    await put(configKey(namespaceId, A_ON_API), { entity_id: S("a"), disabled: { BOOL: false } });
    const resolved = await place.resolve("a", "api");
    assert.deepEqual(resolved, {
      created: false,
      limits: [
        Kinds.quota("five", 5, {
          resetAfterMs: 3_600_000,
          schedule: [{ cron: "* 9-17 * * *", tz: "Europe/Berlin", scale: 0.5 }],
        }),
        Kinds.custom("tpm", { capacity: 9, refillAmount: 3, refillPeriodMs: 60_000, soft: true }),
      ],
      source: "resource",
      totals: [],
      totalsSource: "none",
      access: "enforce",
      accessSource: "entity",
      cascade: true,
      cascadeSource: "entityDefault",
    });
    assert.equal((await place.resolve("a", "other")).access, "bypass");
  });

  test("system limits that are set keep audit_retention_days, and events are kept so long (W29)", async (t) => {
    const { place, put, records, namespaceId } = await newGround(dynamodb, t);
    await put(configKey(namespaceId, SYSTEM), { audit_retention_days: N(7), own_note: S("theirs") });
    await place.set(SYSTEM, rpm);
    await place.scope.config.delete(SYSTEM, place.event("limits_deleted", "$SYSTEM"), "all");
    const { limit_history: history, ...left } = withoutKeys(await records.get(configKey(namespaceId, SYSTEM))) ?? {};
    assert.equal(JSON.parse(history?.S ?? "[]").length, 3, "nothing, the limits, and nothing again");
    assert.deepEqual(left, { audit_retention_days: N(7), own_note: S("theirs"), config_version: N(2) });
    assert.equal(await place.scope.config.get(SYSTEM), undefined);
    const events = records.query({ partition: `${namespaceId}/AUDIT#somebody` });
    for await (const { ttl } of events) assert.ok(Math.abs(Number(ttl?.N) - Date.now() / 1000 - 7 * 86_400) < 600);
  });

  test("config_version counts every change, and both registries follow (W36)", async (t) => {
    const { place, records, namespaceId } = await newGround(dynamodb, t);
    const counts = async () => withoutKeys(await records.get(entityConfigRegistryKey(namespaceId)));
    await place.set(A_ON_API, rpm);
    await place.setPolicy(A_ON_API, { access: "disabled" });
    await place.set(A_ON_API, [Limit.perMinute("rpm", 11)]);
    // What is there already is no change.
    await place.set(A_ON_API, [Limit.perMinute("rpm", 11)]);
    assert.deepEqual((await records.get(configKey(namespaceId, A_ON_API)))?.config_version, N(3));
    await place.setPolicy({ level: "entity", entityId: "b", resource: "api" }, { cascade: true });
    await place.set(ANY_OF_A, rpm);
    assert.deepEqual(await counts(), { api: N(2), _default_: N(1) });
    await place.scope.config.delete(A_ON_API, place.event("limits_deleted", "a"), "all");
    assert.deepEqual((await counts()).api, N(2));
    await place.setPolicy(A_ON_API, { access: null });
    await place.scope.config.delete(ANY_OF_A, place.event("limits_deleted", "a"), "all");
    assert.deepEqual(await counts(), { api: N(1), _default_: N(0) });
    await place.setPolicy(API, { access: "enforce" });
    assert.equal((await records.get(resourceRegistryKey(namespaceId)))?.resources, undefined);
    await place.set(API, rpm);
    assert.deepEqual((await records.get(resourceRegistryKey(namespaceId)))?.resources, { SS: ["api"] });
  });

  test("configuration of one level is one call, and after a change of one's own nothing older is read", async (t) => {
    const { place, wire, another } = await newGround(dynamodb, t);
    const calls = await wire.during(() => place.resolve("a", "api"));
    assert.deepEqual(calls, ["BatchGetItem"]);
    const isConsistent = () => JSON.stringify(wire.calls[0]?.input).includes('"ConsistentRead":true');
    assert.equal(isConsistent(), false);
    await place.set(API, rpm);
    await wire.during(() => place.resolve("a", "api"));
    assert.equal(isConsistent(), true);
    const other = await another();
    await other.wire.during(() => other.place.resolve("a", "api"));
    assert.ok(JSON.stringify(other.wire.calls[0]?.input).includes('"ConsistentRead":false'));
  });

  test("a change whose answer was lost is made once, with one event", async (t) => {
    const { place, wire, records, namespaceId } = await newGround(dynamodb, t);
    wire.fault = answersLost("TransactWriteItems", 2);
    await place.set(A_ON_API, rpm);
    assert.deepEqual((await records.get(configKey(namespaceId, A_ON_API)))?.config_version, N(1));
    assert.deepEqual(withoutKeys(await records.get(entityConfigRegistryKey(namespaceId))), { api: N(1) });
    assert.equal((await place.scope.audit.list({}, { limit: 10 })).items.length, 1);
  });

  test("keys that a read left over are asked for again: nothing is taken for missing", async (t) => {
    const { place, wire } = await newGround(dynamodb, t);
    await place.set(SYSTEM, rpm);
    wire.fault = async ({ operation, input, send }) => {
      if (operation !== "BatchGetItem") return send();
      const [[table, { Keys, ...rest }] = ["", { Keys: [] as unknown[] }]] = Object.entries(
        input.RequestItems as Record<string, { Keys: unknown[] }>,
      );
      const answer = await send({ ...input, RequestItems: { [table]: { ...rest, Keys: Keys.slice(0, 1) } } });
      const left = Keys.length > 1 ? { [table]: { ...rest, Keys: Keys.slice(1) } } : {};
      return answer.kind === "answered" ? { ...answer, body: { ...answer.body, UnprocessedKeys: left } } : answer;
    };
    assert.equal((await place.resolve("a", "api")).source, "system");
  });

  test("changes of many processes at once are all there afterwards", async (t) => {
    const ground = await newGround(dynamodb, t);
    const others = await Promise.all([ground.another(), ground.another()]);
    const places = [ground, ...others].map(({ place }) => place);
    await Promise.all(
      places.flatMap((place, i) => [
        place.set({ level: "entity", entityId: "a", resource: `r${i}` }, rpm),
        place.set({ level: "resource", resource: `r${i}` }, rpm),
        place.setPolicy(API, i === 0 ? { access: "bypass" } : { cascade: i === 1 }),
      ]),
    );
    assert.deepEqual((await ground.place.scope.config.listResources(T0, { limit: 10 })).items, ["r0", "r1", "r2"]);
    assert.equal((await ground.place.scope.config.listForEntity("a", T0, { limit: 10 })).items.length, 3);
    assert.equal((await ground.place.scope.config.get(API))?.access, "bypass");
    assert.deepEqual((await ground.records.get(configKey(ground.namespaceId, API)))?.config_version, N(3));
    assert.equal((await ground.place.scope.audit.list({}, { limit: 100 })).items.length, 9);
  });

  test("who is switched off is switched off on every live bucket of the scope, and nobody else", async (t) => {
    const { place, records, namespaceId } = await newGround(dynamodb, t);
    for (const [entityId, resource] of [
      ["a", "api"],
      ["a", "other"],
      ["b", "api"],
      ["c", "api"],
    ] as const) {
      await place.take([claim(entityId, rpm, { rpm: 1 }, { resource })], T0);
    }
    const stamps = async (entityId: string, resource: string) => {
      const item = await records.get(itemTableKey(namespaceId, { bucket: bucketKey(entityId, resource), shard: 0 }));
      return { disabled: item?.disabled?.BOOL, bypass: item?.bypass !== undefined };
    };
    await place.setPolicy({ level: "entity", entityId: "c", resource: "api" }, { access: "enforce" });
    await place.setPolicy(ANY_OF_A, { access: "bypass" });
    await place.setPolicy(API, { access: "disabled" });
    assert.deepEqual(await stamps("b", "api"), { disabled: true, bypass: false });
    assert.deepEqual(await stamps("c", "api"), { disabled: undefined, bypass: false });
    assert.deepEqual(await stamps("a", "api"), { disabled: undefined, bypass: true });
    assert.deepEqual(await stamps("a", "other"), { disabled: undefined, bypass: true });
    await place.setPolicy(ANY_OF_A, { access: null });
    assert.deepEqual(await stamps("a", "api"), { disabled: true, bypass: false });
    assert.deepEqual(await stamps("a", "other"), { disabled: undefined, bypass: false });
    await place.setPolicy(API, { access: null });
    assert.deepEqual(await stamps("a", "api"), { disabled: undefined, bypass: false });
  });

  test("limits of an entity are announced on its live buckets, of one resource or of all", async (t) => {
    const { place, records, namespaceId } = await newGround(dynamodb, t);
    const due = async (resource: string) => {
      const item = await records.get(itemTableKey(namespaceId, { bucket: bucketKey("a", resource), shard: 0 }));
      return item?.vu?.N;
    };
    for (const resource of ["api", "other"]) await place.take([claim("a", rpm, { rpm: 1 }, { resource })], T0);
    await place.set(A_ON_API, rpm);
    assert.deepEqual([await due("api"), await due("other")], ["0", undefined]);
    await place.set(ANY_OF_A, rpm);
    assert.equal(await due("other"), "0");
  });

  test("a bucket that the index shows only the second time is told, too", async (t) => {
    const { place, wire, records, namespaceId } = await newGround(dynamodb, t);
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    for (const scope of [ANY_OF_A, API]) {
      let isBehind = true;
      wire.fault = async ({ operation, input, send }) => {
        if (operation !== "Query" || input.IndexName === undefined || !isBehind) return send();
        isBehind = false;
        return { kind: "answered", body: { Items: [], Count: 0 } };
      };
      await place.setPolicy(scope, { access: "disabled" });
      const item = await records.get(itemTableKey(namespaceId, { bucket: bucketKey("a", "api"), shard: 0 }));
      assert.deepEqual(item?.disabled, { BOOL: true }, scope.level);
      wire.fault = ({ send }) => send();
      await place.setPolicy(scope, { access: null });
    }
  });

  test("an outage is told in time, without four more reads (W32)", async (t) => {
    const ground = await newGround(dynamodb, t);
    const { place, wire } = await ground.another({ timeoutMs: 100 });
    wire.fault = async () => ({ kind: "unsent", cause: new Error("no connection") });
    await assert.rejects(place.resolve("a", "api"), RateLimiterUnavailable);
    // Pauses of at least 5, 10, 20, 40 and 80 ms: for more attempts than these there is no time.
    assert.ok(wire.calls.length - 1 <= 6, `${wire.calls.length - 1} attempts`);
    assert.deepEqual([...new Set(wire.calls.slice(1).map(({ operation }) => operation))], ["BatchGetItem"]);
  });

  test("what cannot be read is said, and limits that are set anew heal it", async (t) => {
    const { place, put, namespaceId } = await newGround(dynamodb, t);
    const bad = { l_rpm_cp: N(1), l_rpm_ra: N(1), l_rpm_rp: N(1), l_rpm_sched: S("9h1s5"), disabled: { BOOL: true } };
    await put(configKey(namespaceId, API), bad);
    await assert.rejects(place.resolve("a", "api"), (error) => {
      assert.ok(error instanceof VersionError && error.code === "config_unreadable");
      assert.match(error.message, /RESOURCE#api/);
      return true;
    });
    await place.set(API, rpm);
    assert.deepEqual(await place.scope.config.get(API), { limits: rpm, access: "disabled" });
  });

  test("limits that the original's provisioner wrote without keys and lists are counted once they are set", async (t) => {
    const { place, put, records, namespaceId } = await newGround(dynamodb, t);
    const poor = { l_rpm_cp: N(1), l_rpm_ra: N(1), l_rpm_rp: N(1), GSI4PK: S(namespaceId) };
    await put(configKey(namespaceId, API), poor);
    await put(configKey(namespaceId, A_ON_API), poor);
    await place.set(API, rpm);
    await place.set(A_ON_API, rpm);
    assert.deepEqual((await place.scope.config.listResources(T0, { limit: 10 })).items, ["api"]);
    assert.deepEqual((await place.scope.config.listEntities("api", T0, { limit: 10 })).items, ["a"]);
    assert.deepEqual(withoutKeys(await records.get(entityConfigRegistryKey(namespaceId))), { api: N(1) });
    assert.equal(await records.get(entityKey(namespaceId, "a")), undefined);
  });
});
