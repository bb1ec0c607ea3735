import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { ItemUnreadable, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { atDepth } from "../depth.ts";
import { callAll, damagedKey, resetWorks, setUp, T0 } from "../protocol/damage-kit.ts";
import { tempFile } from "./temp-store.ts";

// Each column of each table, damaged in a few ways, and then every public call. The tables are strict: types hold, contents may not.

const DAMAGES = [
  "'many'",
  "''",
  "'[]'",
  "'[0,[5]]'",
  "'{\"rpm\":5}'",
  "'null'",
  "-1",
  "9007199254740993",
  "x'00'",
  "zeroblob(40)",
];

/** Each column has every damage in a deep run, and in `npm test` one of five, which are others for the next column. */
const EACH = atDepth(5, 1);

async function damaged(file: string, clock: SimulatedClock, sql: string) {
  const limiter = await RateLimiter.open({ store: `sqlite:${file}`, clock, timeoutMs: 60_000 });
  const lease = await setUp(limiter, (ms) => clock.advance(ms));
  const connection = new DatabaseSync(file);
  try {
    connection.exec(sql);
  } catch {
    // A strict table does not take it.
    return undefined;
  } finally {
    connection.close();
  }
  return { limiter, lease };
}

function columnsIn(file: string): readonly (readonly [table: string, column: string])[] {
  const connection = new DatabaseSync(file);
  const tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  const found = tables.flatMap(({ name }) =>
    connection
      .prepare(`PRAGMA table_info(${name})`)
      .all()
      .flatMap((column) => (column.pk === 0 ? [[String(name), String(column.name)] as const] : [])),
  );
  connection.close();
  return found.filter(
    ([table, column]) => !["namespace", "entity", "resource"].includes(column) && table !== "generation",
  );
}

test("whatever stands in a column of the file, only the project's errors come out, and a damaged bucket can be reset", async (t) => {
  const sample = tempFile(t);
  const opened = await RateLimiter.open({ store: `sqlite:${sample}`, clock: new SimulatedClock(T0) });
  await opened.close();
  for (const [c, [table, column]] of columnsIn(sample).entries()) {
    for (const value of DAMAGES.filter((_, d) => (c + d) % EACH === 0)) {
      await t.test(`${table}.${column} = ${value}`, async (t) => {
        const where = table === "bucket" ? "WHERE entity = 'a'" : "";
        const world = await damaged(
          tempFile(t),
          new SimulatedClock(T0),
          `UPDATE "${table}" SET "${column}" = ${value} ${where}`,
        );
        if (world === undefined) return;
        const { limiter, lease } = world;
        const errors = await callAll(limiter, lease);
        for (const [call, error] of errors) {
          if (table === "bucket") assert.notEqual(call, "of another key", error.message);
          if (table === "bucket") assert.equal(error.code, "item_unreadable", `${call}: ${error.message}`);
        }
        if (table === "bucket") await resetWorks(limiter);
        await limiter.close();
      });
    }
  }
});

test("a take on another bucket does not fail because a row that is swept beside it is damaged", async (t) => {
  const clock = new SimulatedClock(T0);
  const world = await damaged(tempFile(t), clock, "UPDATE bucket SET limits = 'many' WHERE entity = 'a'");
  assert.ok(world !== undefined);
  for (let i = 0; i < 500; i++) {
    const outcome = await world.limiter.tryAcquire({ entityId: `k${i}`, resource: "llm", consume: { rpm: 1 } });
    assert.ok(outcome.ok);
  }
  await assert.rejects(world.limiter.tryAcquire({ ...damagedKey, consume: { rpm: 1 } }), (error) => {
    assert.ok(error instanceof ItemUnreadable);
    assert.deepEqual([error.attribute, error.value, error.entityId], ["limits", "many", "a"]);
    return true;
  });
  await world.limiter.close();
});
