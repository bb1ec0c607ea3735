import assert from "node:assert/strict";
import { chmodSync, chownSync, closeSync, openSync, readFileSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { calendar, claim, context, event, NOON, oneTime, openOn, tempFile } from "../../../test/sqlite/temp-store.ts";
import { FILE_RETENTION } from "../../domain/config/retention.ts";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { steadyMs } from "../system/clock.ts";
import { openSqlite } from "./store.ts";

// Whatever SQLite has to say reaches a caller as an error of this package.

const OPTIONS = {
  durability: "normal",
  coalesce: true,
  retention: FILE_RETENTION,
  random: Math.random,
  steadyMs,
  calendar,
} as const;
const NOBODY = 65_534;

const NAMESPACE = { id: "ns-2", name: "tenant", status: "active", createdAtMs: NOON } as const;
const TAKE = [claim("key-1", [oneTime("rpd", 10)], { rpd: 1 })];

test("a file that may only be read is read, and whoever writes is told so, not in SQLite's words", async (t) => {
  const file = tempFile(t);
  await made(file);
  readOnly(t, file);
  const before = readFileSync(file);
  const store = openSqlite({ file, ...OPTIONS });
  t.after(() => store.close());
  assert.equal((await store.namespaces.get("default"))?.name, "default");
  const { buckets } = store.scope("default");
  const isReadOnly = (error: unknown): boolean =>
    error instanceof LimiterError &&
    !(error instanceof RateLimiterUnavailable) &&
    error.code === "store_read_only" &&
    error.message.includes(file) &&
    error.cause instanceof Error;
  await assert.rejects(async () => buckets.take(TAKE, context(NOON)), isReadOnly);
  assert.throws(() => buckets.takeSync?.(TAKE, context(NOON)), isReadOnly);
  await assert.rejects(
    async () => store.namespaces.register(NAMESPACE, event("namespace_registered", "tenant"), "default"),
    isReadOnly,
  );
  assert.deepEqual(readFileSync(file), before);
});

test("a full disk is an outage on every way in, and over when there is room again", async (t) => {
  const { store, connection, buckets } = openOn(t, tempFile(t));
  const pages = Number(connection.prepare("PRAGMA page_count").get()?.[0]);
  connection.exec(`PRAGMA max_page_count = ${pages}`);
  const many = Array.from({ length: 400 }, (_, i) => [claim(`key-${i}`, [oneTime("rpd", 10)], { rpd: 1 })]);
  const replies = await Promise.all(many.map(async (claims) => buckets.take(claims, context(NOON))));
  const kinds = new Set(replies.map((reply) => (reply === "stale" ? reply : reply[0]?.kind)));
  assert.deepEqual(kinds, new Set(["unavailable"]));
  connection.exec("PRAGMA max_page_count = 1000000");
  const again = await buckets.take(TAKE, context(NOON));
  assert.equal(again === "stale" ? again : again[0]?.kind, "taken");
  await store.close();
});

test("a file that is damaged while it is open is said to be damaged", async (t) => {
  const file = tempFile(t);
  await made(file);
  const { connection, buckets } = openOn(t, file);
  // So that pages are read from the file again, which is overwritten behind the schema's page.
  connection.exec("PRAGMA cache_size = 0");
  connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  overwrite(file);
  await assert.rejects(
    async () => buckets.take(TAKE, context(NOON)),
    (error) => error instanceof LimiterError && error.code === "store_invalid" && error.message.includes(file),
  );
});

test("a file of ours whose tables another program has changed is refused", async (t) => {
  const file = tempFile(t);
  await made(file);
  const other = new DatabaseSync(file);
  other.exec("DROP TABLE usage");
  other.close();
  assert.throws(() => openSqlite({ file, ...OPTIONS }), { code: "store_invalid", message: /no such table: usage/ });
});

/** A file with a bucket, closed. */
async function made(file: string): Promise<void> {
  const store = openSqlite({ file, ...OPTIONS });
  await store.scope("default").buckets.take(TAKE, context(NOON));
  await store.close();
}

/** Until the test is over. Root may write to any file, so it goes on as somebody else meanwhile. */
function readOnly(t: TestContext, file: string): void {
  const isRoot = process.geteuid?.() === 0;
  chmodSync(file, 0o444);
  t.after(() => {
    if (isRoot) process.seteuid?.(0);
  });
  if (!isRoot) return;
  for (const path of [dirname(file), file]) chownSync(path, NOBODY, NOBODY);
  process.seteuid?.(NOBODY);
}

/** Everything behind the first page becomes the same byte. */
function overwrite(file: string): void {
  const PAGE = 4_096;
  const handle = openSync(file, "r+");
  const rest = Buffer.alloc(statSync(file).size - PAGE, 0xee);
  writeSync(handle, rest, 0, rest.length, PAGE);
  closeSync(handle);
}
