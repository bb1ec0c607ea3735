import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { test } from "node:test";
import {
  claim,
  context,
  NOON,
  oneTime,
  openOn,
  openTemp,
  tempFile,
  tokensMilli,
} from "../../../test/sqlite/temp-store.ts";
import { FILE_RETENTION } from "../../domain/config/retention.ts";
import { LimiterError, RateLimiterUnavailable, ValidationError, VersionError } from "../../domain/names/errors.ts";
import { createCalendar } from "../system/calendar.ts";
import { steadyMs } from "../system/clock.ts";
import { MIGRATIONS, openConnection } from "./open-connection.ts";
import { openSqlite } from "./store.ts";

const options = {
  durability: "normal",
  coalesce: true,
  retention: FILE_RETENTION,
  random: Math.random,
  steadyMs,
  calendar: createCalendar(),
} as const;

test("a file that does not exist is made, with its folder, at the newest version", async (t) => {
  const file = join(dirname(tempFile(t)), "some", "where", "limiter.db");
  const { store, connection } = openOn(t, file);
  assert.ok(existsSync(file));
  assert.deepEqual(connection.prepare("PRAGMA user_version").get(), [MIGRATIONS.length]);
  assert.deepEqual(connection.prepare("PRAGMA journal_mode").get(), ["wal"]);
  assert.equal((await store.namespaces.get("default"))?.id, "default");
  assert.equal(store.name, `sqlite:${file}`);
});

test("an empty file at version 0 is brought forward, and opening it again changes nothing", (t) => {
  const file = tempFile(t);
  writeFileSync(file, "");
  const first = openOn(t, file).connection;
  assert.deepEqual(first.prepare("PRAGMA user_version").get(), [MIGRATIONS.length]);
  const second = openOn(t, file).connection;
  assert.equal(second.commits, 0);
  assert.deepEqual(second.prepare("SELECT count(*) FROM namespace").get(), [1]);
});

test("a file that a newer version wrote is refused by a sentence with both versions", (t) => {
  const file = tempFile(t);
  const { connection } = openOn(t, file);
  connection.exec("PRAGMA user_version = 99");
  assert.throws(
    () => openSqlite({ file, ...options }),
    (error) =>
      error instanceof VersionError &&
      error.code === "schema_newer" &&
      error.message.includes("version 99") &&
      error.message.includes(`knows ${MIGRATIONS.length}`),
  );
});

test("a file that is no database is refused and left as it was", (t) => {
  const file = tempFile(t);
  const text = "The quick brown fox jumps over the lazy dog.\n".repeat(200);
  writeFileSync(file, text);
  assert.throws(() => openSqlite({ file, ...options }), { code: "store_invalid", name: "ValidationError" });
  assert.equal(readFileSync(file, "utf8"), text);
});

test("a database of another program is refused and left as it was", (t) => {
  const file = tempFile(t);
  const other = new DatabaseSync(file);
  other.exec("CREATE TABLE song (title TEXT)");
  other.close();
  const before = readFileSync(file);
  assert.throws(() => openSqlite({ file, ...options }), { code: "store_invalid", message: /another program/ });
  assert.deepEqual(readFileSync(file), before);
});

test("a folder in place of the file is refused", (t) => {
  const file = tempFile(t);
  mkdirSync(file);
  assert.throws(() => openSqlite({ file, ...options }), { code: "store_invalid" });
});

test("a file in place of the folder is refused", (t) => {
  const file = tempFile(t);
  writeFileSync(file, "");
  assert.throws(() => openSqlite({ file: join(file, "x.db"), ...options }), ValidationError);
});

test("a folder that takes no folders is refused at once, not tried for ever", {
  skip: existsSync("/proc/self") ? false : "no /proc (needs Linux)",
}, () => {
  assert.throws(() => openSqlite({ file: "/proc/nowhere/further/limiter.db", ...options }), {
    code: "store_invalid",
    message: /cannot be opened as the limiter's file/,
  });
});

test("a database in memory is refused: it could not be shared, and there is a store for that", () => {
  assert.throws(() => openSqlite({ file: ":memory:", ...options }), { code: "store_invalid", message: /"memory"/ });
});

test("a Node without setReturnArrays reads the same rows", async (t) => {
  const { setReturnArrays } = StatementSync.prototype;
  t.after(() => {
    StatementSync.prototype.setReturnArrays = setReturnArrays;
  });
  Reflect.deleteProperty(StatementSync.prototype, "setReturnArrays");
  const { buckets, config, usage } = openTemp(t);
  const event = { eventId: "e", atMs: 0, action: "limits_set", entityId: "$SYSTEM", details: {} } as const;
  const wanted = claim("key", [oneTime("tokens", 5)], { tokens: 2 });
  await config.set({ level: "system" }, { limits: wanted.set.limits }, event);
  assert.deepEqual((await config.resolve("key", "gpt-4")).limits, wanted.set.limits);
  await buckets.take([wanted], context(NOON));
  const [state] = await buckets.read([wanted.bucket]);
  assert.equal(tokensMilli(state, "tokens"), 3_000);
  const { items } = await usage.query({ window: "daily", fromMs: 0, toMs: NOON }, { limit: 1 });
  assert.deepEqual(items[0]?.counters, { tokens: 2 });
});

test("durability full syncs every commit, normal leaves that to the checkpoint", (t) => {
  for (const [durability, level] of [
    ["normal", 1],
    ["full", 2],
  ] as const) {
    const connection = openConnection({ file: tempFile(t), durability, random: Math.random, steadyMs });
    t.after(() => connection.close());
    assert.deepEqual(connection.prepare("PRAGMA synchronous").get(), [level]);
  }
});

test("a closed store refuses every call, and closing twice is closing once", async (t) => {
  const { store, buckets, config, entities, usage, audit } = openTemp(t);
  await store.close();
  await store.close();
  const page = { limit: 10 };
  const calls: (() => unknown)[] = [
    () => store.ping(),
    () => store.namespaces.list(page),
    () => buckets.read([]),
    () => buckets.take([], { nowMs: 0, timeoutMs: 1, generation: undefined, atomic: false }),
    () => config.generation(),
    () => config.get({ level: "system" }),
    () =>
      config.delete(
        { level: "system" },
        { eventId: "", atMs: 0, action: "limits_deleted", entityId: "", details: {} },
        "all",
      ),
    () => entities.list(page),
    () => usage.query({ window: "hourly", fromMs: 0, toMs: 1 }, page),
    () => audit.list({}, page),
  ];
  for (const call of calls) {
    await assert.rejects(
      async () => call(),
      (error) => error instanceof LimiterError && error.code === "closed",
    );
  }
});

test("the file is one file again after the last process closed it", async (t) => {
  const file = tempFile(t);
  const { store } = openOn(t, file);
  assert.ok(existsSync(`${file}-wal`));
  await store.close();
  assert.ok(!existsSync(`${file}-wal`));
});

test("a change that another process keeps waiting for a second ends as unavailable", async (t) => {
  const file = tempFile(t);
  const { config } = openOn(t, file);
  const other = new DatabaseSync(file);
  t.after(() => other.close());
  other.exec("BEGIN IMMEDIATE");
  const event = { eventId: "e", atMs: 0, action: "limits_set", entityId: "$SYSTEM", details: {} } as const;
  await assert.rejects(
    async () => config.set({ level: "system" }, { limits: [], onUnavailable: "allow" }, event),
    RateLimiterUnavailable,
  );
  const patient = config.set({ level: "system" }, { limits: [], onUnavailable: "allow" }, event);
  other.exec("COMMIT");
  await patient;
  assert.deepEqual(await config.get({ level: "system" }), { limits: [], onUnavailable: "allow" });
});
