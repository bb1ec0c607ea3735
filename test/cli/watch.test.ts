import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { BlockLog } from "../../src/cli/commands/watch.ts";
import type { CommandLimiter } from "../../src/cli/on-store.ts";
import {
  type BucketReading,
  byUse,
  limitKey,
  lookAt,
  readBuckets,
  type WatchedBucket,
} from "../../src/cli/watch-look.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

/** A limiter on a simulated clock, and one that counts what `watch` asks of it; hooks run around the reading of each page. */
async function counted(t: TestContext) {
  const clock = new SimulatedClock(Date.UTC(2026, 2, 15, 12));
  const limiter = await RateLimiter.open({ store: "memory", clock });
  t.after(() => limiter.close());
  const calls = { listBuckets: 0, explain: 0, timeUntilAvailable: 0 };
  const hooks = { beforePage: async () => {}, afterPage: async () => {} };
  const asked = {
    listBuckets: async (...given: Parameters<RateLimiter["listBuckets"]>) => {
      calls.listBuckets += 1;
      await hooks.beforePage();
      const page = await limiter.listBuckets(...given);
      await hooks.afterPage();
      return page;
    },
    explain: (...given: Parameters<RateLimiter["explain"]>) => {
      calls.explain += 1;
      return limiter.explain(...given);
    },
    timeUntilAvailable: (...given: Parameters<RateLimiter["timeUntilAvailable"]>) => {
      calls.timeUntilAvailable += 1;
      return limiter.timeUntilAvailable(...given);
    },
  } as unknown as CommandLimiter;
  const read = () => readBuckets(asked, {}, () => clock.now());
  const look = async (now: BucketReading, before: BucketReading | undefined, itemsMax: number) =>
    lookAt(asked, [...now.limits.values()].sort(byUse), { consume: {}, now, before, itemsMax });
  const take = async (entityId: string, consume: Record<string, number>) => {
    assert.ok((await limiter.tryAcquire({ entityId, resource: "api", consume })).ok);
  };
  return { clock, limiter, calls, hooks, read, look, take };
}

test("a look lists all buckets once, and asks only about those that the screen has room for", async (t) => {
  const { limiter, calls, read, look, take } = await counted(t);
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 1_000), Limit.perMinute("tpm", 10_000)]);
  const count = 2_500;
  for (let i = 0; i < count; i++) await take(`key-${i}`, { rpm: 1, tpm: i % 500 });
  const before = await read();
  assert.deepEqual(calls, { listBuckets: 3, explain: 0, timeUntilAvailable: 0 });
  const now = await read();
  const { items, unasked } = await look(now, before, 20);
  assert.deepEqual([items.length, unasked], [20, 2 * count - 20]);
  assert.deepEqual(
    items.slice(0, 5).map(({ entityId, limit, available }) => [entityId, limit, available]),
    [1_499, 1_999, 2_499, 499, 999].map((i) => [`key-${i}`, "tpm", 9_501]),
  );
  assert.ok(calls.explain <= 20, `${calls.explain} buckets were explained`);
  assert.ok(calls.timeUntilAvailable <= 20, `${calls.timeUntilAvailable} waits were asked for`);
  assert.equal(calls.listBuckets, 6);
});

test("a bucket is asked about once for all of its limits, and for each measure only where one is blocked", async (t) => {
  const { limiter, calls, read, look, take } = await counted(t);
  const limits = ["rpm", "tpm", "ipm"].map((name) => Limit.perMinute(name, 60));
  await limiter.setSystemDefaults([...limits, Limit.perDay("tpd", 1_000, { counts: "tpm" })]);
  await take("free", { rpm: 1, tpm: 1, ipm: 1 });
  const free = await look(await read(), undefined, Number.POSITIVE_INFINITY);
  assert.deepEqual(
    free.items.map(({ blocked, retryAfterMs }) => [blocked, retryAfterMs]),
    Array.from({ length: 4 }, () => [false, 0]),
  );
  assert.deepEqual(calls, { listBuckets: 1, explain: 1, timeUntilAvailable: 1 });
  await take("free", { rpm: 59 });
  const { items } = await look(await read(), undefined, Number.POSITIVE_INFINITY);
  assert.deepEqual(
    items.map(({ limit, blocked, retryAfterMs }) => [limit, blocked, retryAfterMs]),
    [
      ["rpm", true, 1_000],
      ["tpm", false, 0],
      ["ipm", false, 0],
      ["tpd", false, 0],
    ],
  );
  // The second look: once together, then once for each of three measures.
  assert.deepEqual(calls, { listBuckets: 2, explain: 2, timeUntilAvailable: 5 });
});

test("a child is blocked by its parent, and one that is disabled for ever", async (t) => {
  const { limiter, read, look, take } = await counted(t);
  await limiter.createEntity({ id: "team" });
  await limiter.createEntity({ id: "child", parentId: "team", cascade: true });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
  await take("off", { rpm: 1 });
  await limiter.setAccess({ entityId: "off" }, "disabled");
  await take("child", { rpm: 1 });
  await take("team", { rpm: 59 });
  const { items } = await look(await read(), undefined, Number.POSITIVE_INFINITY);
  const waits = Object.fromEntries(items.map(({ entityId, retryAfterMs }) => [entityId, retryAfterMs]));
  assert.deepEqual(waits, { team: 1_000, child: 1_000, off: Number.POSITIVE_INFINITY });
});

test("a bucket that goes by limits of a request neither ends the watch nor takes the room of another", async (t) => {
  const { limiter, read, look, take } = await counted(t);
  await limiter.setLimits("known", [Limit.perMinute("rpm", 60)]);
  await take("known", { rpm: 1 });
  const given = { resource: "api", consume: { own: 9 }, limits: [Limit.perMinute("own", 10)] };
  for (const entityId of ["given", "known-too"]) assert.ok((await limiter.tryAcquire({ entityId, ...given })).ok);
  const { items, unasked } = await look(await read(), undefined, 1);
  assert.deepEqual([items.map(({ entityId, limit }) => [entityId, limit]), unasked], [[["known", "rpm"]], 0]);
});

for (const slow of ["beforePage", "afterPage"] as const) {
  test(`a list that takes seconds to read (${slow}) shows no rate where nothing was taken, and one where something was`, async (t) => {
    const { clock, limiter, hooks, read, look, take } = await counted(t);
    await limiter.setSystemDefaults([Limit.perMinute("tpm", 600_000)]);
    const idOf = (i: number) => `key-${String(i).padStart(4, "0")}`;
    for (let i = 0; i < 2_100; i++) await take(idOf(i), { tpm: 500_000 });
    const ratesOf = async (now: BucketReading, before: BucketReading) => {
      const { items } = await look(now, before, Number.POSITIVE_INFINITY);
      return items.flatMap(({ entityId, takenPerSecond }) =>
        takenPerSecond === 0 ? [] : [[entityId, takenPerSecond]],
      );
    };
    // Four seconds and more lie between the first page of a slow list and its last.
    const slowly = async () => clock.advance(2_000);
    hooks[slow] = slowly;
    const first = await read();
    hooks[slow] = async () => {};
    await clock.advance(1_000);
    const second = await read();
    assert.deepEqual(await ratesOf(second, first), [], "a slow one, then a quick one");
    await clock.advance(1_000);
    await take(idOf(2_050), { tpm: 30_000 });
    const third = await read();
    assert.deepEqual(await ratesOf(third, second), [[idOf(2_050), 30_000]]);
    await clock.advance(1_000);
    hooks[slow] = slowly;
    assert.deepEqual(await ratesOf(await read(), third), [], "a quick one, then a slow one");
  });
}

test("a limit that there is no room for any more is not called free, and one that is gone is", () => {
  const log = new BlockLog();
  const item = (entityId: string, blocked: boolean): WatchedBucket => ({
    ...{ atMs: 0, entityId, resource: "api", limit: "rpm", available: 0, capacity: 1 },
    ...{ takenPerSecond: 0, blocked, retryAfterMs: blocked ? 1 : 0 },
  });
  const listed = (...ids: readonly string[]) =>
    ({ atMs: 0, limits: new Map(ids.map((id) => [limitKey(item(id, true)), {}])) }) as unknown as BucketReading;
  log.observe([item("a", true), item("b", true)], listed("a", "b"));
  assert.deepEqual(log.lines(), ["00:00:00  b api rpm is blocked", "00:00:00  a api rpm is blocked"]);
  log.observe([item("c", false)], listed("a", "b", "c"));
  log.observe([item("a", true)], listed("a", "b"));
  assert.equal(log.lines().length, 2);
  log.observe([item("a", false)], listed("a"));
  assert.deepEqual(log.lines().slice(0, 2), [
    "00:00:00  b api rpm is no longer blocked",
    "00:00:00  a api rpm is no longer blocked",
  ]);
});

test("a screen has the most used limits and says how many there are besides; --once prints all", async (t) => {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  await here(["init", ...store]);
  await here(["system", "set-defaults", "-l", "rpm:100/day", ...store]);
  const keys = Array.from({ length: 30 }, (_, i) => `key-${String(i).padStart(2, "0")}`);
  for (const key of keys) await here(["acquire", key, "api", "-c", "rpm=100", "--allow-unknown", ...store]);
  const drawn = await here(["watch", "--color", "never", ...store], { answer: "", readerLeavesAfter: 1 });
  assert.equal(drawn.code, 0, drawn.stderr);
  const lines = drawn.stdout.split("\n");
  assert.match(lines[0] ?? "", /30 limits {2}2/);
  assert.ok(lines.length <= 24, `${lines.length} lines on a screen of 24`);
  assert.equal(lines.filter((line) => line.startsWith("key-")).length, 11);
  assert.ok(lines.includes("19 more, less used"), drawn.stdout);
  const once = await here(["watch", "--once", "--interval", "10ms", ...store]);
  assert.deepEqual(
    once.stdout
      .split("\n")
      .flatMap((line) => line.match(/^key-\d+/) ?? [])
      .sort(),
    keys,
  );
});
