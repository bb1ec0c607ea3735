import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { MIGRATIONS } from "../../src/adapters/sqlite/open-connection.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { NOON, openOn, tempFile } from "./temp-store.ts";

/** The schema of the version before plans. */
const BEFORE_PLANS = 3;

const rpm = [Limit.perMinute("rpm", 7)];

test("a file from before plans keeps its entities and limits, and then has plans, totals and options", async (t) => {
  const file = tempFile(t);
  const old = new DatabaseSync(file);
  for (const sql of MIGRATIONS.slice(0, BEFORE_PLANS)) old.exec(sql);
  old.exec(`PRAGMA application_id = ${0x7a61656c}; PRAGMA user_version = ${BEFORE_PLANS}`);
  old.exec("INSERT INTO namespace VALUES ('default', 'default', 'active', 0, NULL)");
  old.exec(`INSERT INTO entity VALUES ('default', 'org', 'Org', NULL, 0, '{"a":"b"}', 3, 1, 2)`);
  old.exec("INSERT INTO entity VALUES ('default', 'key', 'key', 'org', 1, '{}', 1, 1, 1)");
  const insert = old.prepare("INSERT INTO config VALUES ('default', ?, ?, ?, ?, ?, ?)");
  insert.run("", "", JSON.stringify(rpm), "allow", null, null);
  insert.run("", "api", JSON.stringify(rpm), null, "bypass", null);
  insert.run("key", "api", JSON.stringify(rpm), null, null, 1);
  old.close();

  const { config, entities, plans, connection } = openOn(t, file);
  assert.deepEqual(connection.prepare("PRAGMA user_version").get(), [MIGRATIONS.length]);
  assert.deepEqual(await entities.get("org"), {
    ...{ id: "org", name: "Org", cascade: false, metadata: { a: "b" }, version: 3, createdAtMs: 1, updatedAtMs: 2 },
  });
  assert.deepEqual(await config.get({ level: "system" }), { limits: rpm, onUnavailable: "allow" });
  assert.deepEqual(await config.get({ level: "resource", resource: "api" }), { limits: rpm, access: "bypass" });
  const { limits, source, forEveryone, totals, planId, cascade } = await config.resolve("key", "api");
  assert.deepEqual(
    { limits, source, forEveryone, totals, planId, cascade },
    {
      ...{ limits: rpm, source: "entity", forEveryone: undefined, totals: [], planId: undefined, cascade: true },
    },
  );

  const event = { eventId: "e", atMs: NOON, action: "plan_created", entityId: "$PLAN:gold", details: {} } as const;
  const plan = { id: "gold", name: "gold", metadata: {}, version: 1, createdAtMs: NOON, updatedAtMs: NOON };
  await plans.create(plan, event);
  await entities.update("key", { patch: { planId: "gold" }, version: undefined, nowMs: NOON }, event);
  await config.set({ level: "planTotal", planId: "gold" }, { limits: rpm, appliesTo: "callers" }, event);
  const after = await config.resolve("key", "api");
  assert.deepEqual([after.planId, after.totalsSource, after.totalsForEveryone], ["gold", "planTotal", []]);
});
