import assert from "node:assert/strict";
import { test } from "node:test";
import { type CopyOptions, type CopyReport, copyStore } from "../../src/entry/copy.ts";
import { Limit, type RateLimiter, ResourceDisabled } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { describePostgres } from "../postgres/postgres.ts";
import { memoryPlace, type OpenPlace, START_MS, sqlitePlace } from "./kit.ts";
import { dynamoPlace, postgresPlace } from "./places.ts";

const CONFIG_TTL_MS = 45_000;
const KEY = { entityId: "key", resource: "api" } as const;

/** Takes one token; false once the namespace is frozen. */
async function takes(limiter: RateLimiter): Promise<boolean> {
  try {
    await limiter.acquire({ ...KEY, consume: { day: 1 } });
    return true;
  } catch (error) {
    if (error instanceof ResourceDisabled && error.code === "namespace_frozen") return false;
    throw error;
  }
}

/** Begins a copy that freezes its source, and comes back once it waits for other processes. */
async function waiting(options: CopyOptions): Promise<{ readonly report: Promise<CopyReport> }> {
  const { namespaces = ["default"] } = options;
  let left = namespaces.length;
  let report: Promise<CopyReport> | undefined;
  await new Promise<void>((resolve, reject) => {
    const onProgress = ({ kind }: { readonly kind: string }) => {
      if (kind === "freeze" && --left === 0) setImmediate(resolve);
    };
    report = copyStore({ ...options, freeze: true, onProgress });
    report.catch(reject);
  });
  return { report: report as Promise<CopyReport> };
}

function testFrozen(name: string, openFrom: OpenPlace, waitMs: number): void {
  test(`${name}: a copy of a frozen source has all that it ever granted, however busy it was`, async (t) => {
    const clock = new SimulatedClock(START_MS);
    const place = await openFrom(t);
    const options = { configTtlMs: CONFIG_TTL_MS };
    const [from, worker] = [await place.open(clock, options), await place.open(clock, options)];
    const to = await (await sqlitePlace(t)).open(clock);
    await from.setResourceDefaults("api", [Limit.quota("day", 100_000, { reset: { cron: "0 0 * * *" } })]);
    let granted = 0;
    for (; granted < 3; granted++) assert.ok(await takes(worker));
    let isDone = false;
    const { report: copying } = await waiting({ from, to });
    void copying.then(() => {
      isDone = true;
    });
    for (let i = 0; i < 3 && (await takes(worker)); i++) granted++;
    await clock.advance(waitMs - 1);
    assert.equal(isDone, false, "it reads only once every process knows");
    const isRemembered = waitMs === CONFIG_TTL_MS;
    assert.equal(await takes(worker), isRemembered, "until then a process may go by what it remembers");
    if (isRemembered) granted++;
    await clock.advance(1);
    const report = await copying;
    const [{ frozen, active, moved, differences } = {}] = report.namespaces;
    assert.deepEqual({ frozen, active, moved, differences }, { frozen: true, active: true, moved: 0, differences: [] });
    assert.ok(report.tookMs >= waitMs);
    assert.deepEqual([await takes(from), await takes(worker)], [false, false], "the source stays frozen");
    const summary = { ...KEY, window: "hourly", fromMs: 0 } as const;
    assert.equal((await to.usageSummary(summary)).total.day, granted);
    assert.equal((await from.usageSummary(summary)).total.day, granted);
    assert.deepEqual(await to.getPolicy(KEY), {}, "the copy is not");
    assert.equal(await takes(to), true);
    assert.equal((await to.available(KEY))[0]?.available, 100_000 - granted - 1);
    const { events } = await to.auditEvents({ entityId: "$NAMESPACE:default" });
    assert.deepEqual(
      events.map(({ action }) => action),
      ["namespace_copied", "namespace_frozen"],
    );
  });
}

testFrozen("memory", memoryPlace, 2_000);
testFrozen("SQLite", sqlitePlace, 2_000);
await describePostgres("PostgreSQL", (postgres) => testFrozen("PostgreSQL", postgresPlace(postgres), 2_000));
await describeDynamo("DynamoDB", (dynamodb) => testFrozen("DynamoDB", dynamoPlace(dynamodb), CONFIG_TTL_MS));

test("an interrupted wait leaves the source frozen and the target without anything, and the next run goes on", async (t) => {
  const clock = new SimulatedClock(START_MS);
  const from = await (await memoryPlace(t)).open(clock);
  const to = await (await sqlitePlace(t)).open(clock);
  await from.createEntity({ id: "a" });
  const dry = await copyStore({ from, to, freeze: true, dryRun: true });
  assert.deepEqual([dry.namespaces[0]?.frozen, (await from.getPolicy(KEY)).frozen], [false, undefined]);
  const abort = new AbortController();
  const { report: copying } = await waiting({ from, to, signal: abort.signal });
  abort.abort(new Error("enough"));
  await assert.rejects(copying, { message: "enough" });
  assert.deepEqual([...(await to.listOrphanNamespaces({ limit: 1 }))], []);
  assert.deepEqual(await from.getPolicy(KEY), { frozen: { reason: "copied to another store" } });
  const { report: again } = await waiting({ from, to });
  await clock.advance(2_000);
  assert.deepEqual(
    (await again).namespaces.map(({ frozen, active }) => [frozen, active]),
    [[true, true]],
  );
});

test("who froze the source before keeps the reason, and the copy is not frozen either way", async (t) => {
  const clock = new SimulatedClock(START_MS);
  const from = await (await memoryPlace(t)).open(clock);
  await from.registerNamespace("other");
  await from.freezeNamespace("default", { reason: "month end" });
  await from.setSystemDefaults([Limit.perDay("day", 5)]);
  const to = await (await sqlitePlace(t)).open(clock);
  const told = (report: CopyReport) =>
    report.namespaces.map(({ name, frozen, active, differences }) => [name, frozen, active, differences.length]);
  const plain = await copyStore({ from, to });
  assert.deepEqual(told(plain), [
    ["default", true, true, 0],
    ["other", false, true, 0],
  ]);
  assert.deepEqual([await to.getPolicy(KEY), await takes(to)], [{}, true]);
  const next = await (await sqlitePlace(t)).open(clock);
  const { report } = await waiting({ from, to: next, namespaces: ["default", "other"] });
  await clock.advance(2_000);
  assert.deepEqual(told(await report), [
    ["default", true, true, 0],
    ["other", true, true, 0],
  ]);
  assert.deepEqual((await from.getPolicy(KEY)).frozen, { reason: "month end" });
  const cold = await (await sqlitePlace(t)).open(clock);
  await cold.freezeNamespace("default");
  await assert.rejects(copyStore({ from, to: cold }), { code: "target_not_empty", message: /frozen/ });
  await assert.rejects(copyStore({ from, to: next, freeze: "yes" as never }), { code: "option_invalid" });
});
