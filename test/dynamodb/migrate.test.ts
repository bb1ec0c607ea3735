import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import { openDynamo } from "../../src/adapters/dynamodb/store.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { availableMilli, findLimit } from "../../src/domain/bucket/bucket-state.ts";
import { ConflictError, VersionError } from "../../src/domain/names/errors.ts";
import { Limit } from "../../src/entry/limits.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import { abortMigration, migrateTable, planMigration } from "../../src/migrate/migrate.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { atDepth, isDeep } from "../depth.ts";
import { itemsOf, type Layout, originalLevel, STORY, sharedRefill, T0 } from "../migrate/old-layouts.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { bareTable, contents, cutAfterWrites, fill, isOurs, migrating, oldTable, versionIn } from "./migrate-kit.ts";
import { optionsFor, Wire } from "./store-kit.ts";

const LAYOUTS: readonly Layout[] = ["0.4", "0.6", "0.8", "0.9"];
const HOUR_MS = 3_600_000;
/** So many writes of a migration are done between those at which it is killed. */
const FURTHER_WRITES = atDepth(6, 0);
const coded = (code: string) => (error: unknown) => (error as { code?: string }).code === code;

await describeDynamo("migrations", (dynamodb) => {
  for (const layout of atDepth(["0.4", "0.9"] as const, LAYOUTS)) {
    test(`a table of ${layout}: everything is there afterwards, and every level goes on as it was`, async (t) => {
      const table = await oldTable(dynamodb, t, layout);
      const before = await contents(dynamodb, table);
      const planned = await planMigration(migrating(dynamodb.client, table));
      assert.deepEqual(await contents(dynamodb, table), before, "a dry run writes nothing");
      const report = await migrateTable(migrating(dynamodb.client, table));
      assert.deepEqual(report, planned);
      assert.equal(report.from, `${layout}.0`);
      assert.equal(report.to, "0.10.0");
      const versions = report.steps.map(({ version }) => version);
      assert.deepEqual(versions, VERSIONS[layout]);
      assert.ok(report.steps.every(({ items, title }) => items > 0 && title.length > 0));
      await looksRight(dynamodb, table, layout);
      const after = await contents(dynamodb, table);
      assert.deepEqual(
        after.filter(({ PK }) => !/^[^/]+\/(ENTITY|RESOURCE|AUDIT|BUCKET|SYSTEM)#/.test(PK?.S ?? "")),
        [],
        "nothing is left of the old layout",
      );
      assert.ok(!JSON.stringify(after).includes('"#BUCKET#'));
      assert.deepEqual(await migrateTable(migrating(dynamodb.client, table)), {
        ...{ from: "0.10.0", to: "0.10.0", steps: [] },
      });
      assert.deepEqual(await contents(dynamodb, table), after, "a second one finds nothing to do");
    });
  }

  test("killed after every few writes, and run again: in the end everything is the same", async (t) => {
    for (const [layout, isLastDone] of [
      ["0.4", true],
      ["0.9", false],
    ] as const) {
      const table = await oldTable(dynamodb, t, layout);
      let kills = 0;
      for (;;) {
        // The first write of each is that it goes on; in a deep run the next one is the last, heard of or not.
        const wire = cutAfterWrites(dynamodb.client, (isLastDone ? 1 : 2) + FURTHER_WRITES, isLastDone);
        try {
          await migrateTable(migrating(wire, table));
          break;
        } catch (error) {
          assert.ok(coded("access_denied")(error), String(error));
          kills += 1;
          // Unless the write that nobody heard of was the last one.
          if (!(await isOurs(dynamodb, table))) await refusesClients(dynamodb, table);
        }
        assert.ok(kills < 100, `${layout} is in ${await phaseOf(dynamodb, table)} still`);
      }
      assert.ok(kills > atDepth(2, 20), `${kills} kills`);
      await looksRight(dynamodb, table, layout);
    }
  });

  test("cut off at any of its writes, before or after it: the next one ends what it began", async (t) => {
    const layout = "0.6";
    const whole = await oldTable(dynamodb, t, layout);
    await migrateTable(migrating(dynamodb.client, whole));
    const expected = withoutIds(await contents(dynamodb, whole));
    for (const at of atDepth([12], [0, 1, 5, 12, 27, 33])) {
      const table = await oldTable(dynamodb, t, layout);
      await assert.rejects(migrateTable(migrating(cutAfterWrites(dynamodb.client, at, at % 2 === 1), table)));
      await migrateTable(migrating(dynamodb.client, table));
      assert.deepEqual(withoutIds(await contents(dynamodb, table)), expected, `cut at ${at}`);
    }
  });

  test("missing indexes are made one at a time, and nothing is written before all of them are there", async (t) => {
    const table = await oldTable(dynamodb, t, "0.4");
    const wire = new Wire(dynamodb.client);
    await migrateTable(migrating(wire, table));
    const order = wire.calls.map(({ operation }) => operation).filter((name) => name !== "DescribeTable");
    assert.deepEqual(
      order.filter((name) => name === "UpdateTable"),
      ["UpdateTable", "UpdateTable"],
    );
    const firstWrite = order.findIndex((name) => /^(Put|Update|Delete|BatchWrite|TransactWrite)Item/.test(name));
    assert.ok(order.lastIndexOf("UpdateTable") < firstWrite);
    const waits = wire.calls.filter(({ operation }) => operation === "DescribeTable").length;
    assert.ok(waits >= 5);
  });

  test("whoever comes after one that was killed between two indexes waits for them, too", async (t) => {
    const table = await oldTable(dynamodb, t, "0.4");
    const wire = new Wire(dynamodb.client);
    let creating = 2;
    // The service says for a while that an index is being made.
    wire.fault = async ({ operation, send }) => {
      const answer = await send();
      if (operation !== "DescribeTable" || answer.kind !== "answered" || creating-- <= 0) return answer;
      const Table = answer.body.Table as Record<string, unknown>;
      return { kind: "answered", body: { Table: { ...Table, TableStatus: "UPDATING" } } };
    };
    await migrateTable(migrating(wire, table));
    const [first] = wire.calls.filter(({ operation }) => operation === "UpdateTable");
    const describes = wire.calls
      .slice(0, wire.calls.indexOf(first!))
      .filter(({ operation }) => operation === "DescribeTable");
    assert.ok(describes.length >= 3);
  });

  test("taken back before anything is deleted, the table is as it was", async (t) => {
    for (const layout of atDepth<readonly Layout[]>(["0.6"], ["0.6", "0.9"])) {
      const table = await oldTable(dynamodb, t, layout);
      const before = await contents(dynamodb, table);
      // Cut off when it begins to delete: everything was copied and checked.
      const wire = new Wire(dynamodb.client);
      wire.fault = async ({ operation, send }) =>
        operation === "TransactWriteItems" && (await phaseOf(dynamodb, table)) === "check"
          ? { kind: "failed", status: 400, code: "AccessDeniedException", message: "cut off", body: {} }
          : send();
      await assert.rejects(migrateTable(migrating(wire, table)), coded("access_denied"));
      assert.equal(await phaseOf(dynamodb, table), "check");
      await refusesClients(dynamodb, table);
      const undone = await abortMigration(migrating(dynamodb.client, table), "abort");
      assert.equal(undone.from, `${layout}.0`);
      assert.ok((undone.removed ?? 0) > 5);
      const after = (await contents(dynamodb, table)).filter(({ SK }) => !SK?.S?.startsWith("#CHILD#"));
      assert.deepEqual(after, before);
      assert.deepEqual((await abortMigration(migrating(dynamodb.client, table), "abort")).removed, 0);
      await migrateTable(migrating(dynamodb.client, table));
      await looksRight(dynamodb, table, layout);
    }
  });

  test("once it deletes it cannot be taken back, and nothing is copied again", async (t) => {
    const table = await oldTable(dynamodb, t, "0.6");
    const wire = new Wire(dynamodb.client);
    let deletions = 0;
    wire.fault = async ({ operation, input, send }) =>
      operation === "TransactWriteItems" && JSON.stringify(input).includes('"Delete"') && ++deletions > 2
        ? { kind: "failed", status: 400, code: "AccessDeniedException", message: "cut off", body: {} }
        : send();
    await assert.rejects(migrateTable(migrating(wire, table)));
    assert.equal(await phaseOf(dynamodb, table), "clean");
    await assert.rejects(abortMigration(migrating(dynamodb.client, table), "abort"), coded("abort_too_late"));
    const rest = new Wire(dynamodb.client);
    await migrateTable(migrating(rest, table));
    assert.ok(!rest.calls.some(({ operation }) => operation === "PutItem"), "half of a group would be merged");
    await looksRight(dynamodb, table, "0.6");
  });

  test("clients that still write are noticed: what changed is copied again, and at last it stops", async (t) => {
    const table = await oldTable(dynamodb, t, "0.6");
    const touch = async (tokens: number) => {
      const [first] = itemsOf("0.6").filter(({ SK }) => SK?.S === "#BUCKET#api#rpm");
      await fill(dynamodb, table, [{ ...first, tokens_milli: { N: String(tokens) } } as Attributes]);
    };
    const isRead = (operation: string, input: object) =>
      operation === "Query" && JSON.stringify(input).includes('"ENTITY#loner"');
    const once = new Wire(dynamodb.client);
    let isTouched = false;
    once.fault = async ({ operation, input, send }) => {
      if (isRead(operation, input) && !isTouched) {
        isTouched = true;
        await touch(42_000);
      }
      return send();
    };
    const always = new Wire(dynamodb.client);
    let tokens = 1;
    // Another partition is looked at while this one is mended, from before until after: both count.
    let isMended = false;
    const waiting: (() => void)[] = [];
    always.fault = async ({ operation, input, send }) => {
      const text = JSON.stringify(input);
      const beginsRound = operation === "Scan" && input.Segment === 0 && input.ExclusiveStartKey === undefined;
      if (beginsRound) isMended = false;
      if (isRead(operation, input)) await touch(++tokens);
      if (operation === "BatchGetItem" && text.includes("ENTITY#key-1") && !isMended) {
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
      const answer = await send();
      if (operation === "TransactWriteItems" && text.includes("BUCKET#loner")) {
        isMended = true;
        for (const goOn of waiting.splice(0)) goOn();
      }
      return answer;
    };
    await assert.rejects(migrateTable(migrating(always, table)), (error) => {
      assert.ok(error instanceof ConflictError && error.code === "table_in_use");
      assert.match(error.message, /Stop all of them/);
      return true;
    });
    assert.equal(await phaseOf(dynamodb, table), "check");
    await migrateTable(migrating(once, table));
    const bucket = (await contents(dynamodb, table)).find(({ PK }) => PK?.S?.endsWith("BUCKET#loner#api#0"));
    assert.equal(bucket?.b_rpm_tk?.N, "42000");
  });

  test("what an old client writes after it was compared is not deleted, whether it is new, changed, or comes between read and delete", async (t) => {
    const gone = (item: Attributes) => ({ TableName: "", Key: { PK: item.PK, SK: item.SK } });
    const [bucket] = itemsOf("0.6").filter(({ SK }) => SK?.S === "#BUCKET#api#rpm");
    const [meta] = itemsOf("0.6").filter(({ SK }) => SK?.S === "#META");
    const writes: readonly [string, Attributes][] = [
      ["changed", { ...bucket, tokens_milli: { N: "42000" } } as Attributes],
      ["renamed", { ...meta, name: { S: "Renamed" } } as Attributes],
      ["new", { ...meta, PK: { S: "ENTITY#late" }, entity_id: { S: "late" } } as Attributes],
      ["an event", { ...bucket, PK: { S: "AUDIT#late" }, SK: { S: "#AUDIT#01" } } as Attributes],
    ];
    for (const [what, item] of writes) {
      for (const when of ["begins", "deletes"] as const) {
        if (when === "deletes" && what !== "changed") continue;
        if (!isDeep && what !== "changed" && what !== "new") continue;
        const table = await oldTable(dynamodb, t, "0.6");
        const wire = new Wire(dynamodb.client);
        let written: Promise<unknown> | undefined;
        wire.fault = async ({ operation, input, send }) => {
          const text = JSON.stringify(input);
          const isDelete =
            operation === "TransactWriteItems" && text.includes('"Delete"') && text.includes(item.PK?.S ?? "");
          const isNow =
            when === "deletes" ? isDelete : operation === "Scan" && (await phaseOf(dynamodb, table)) === "clean";
          // All that look from now on see it, those that look at other parts of the table at the same time, too.
          if (isNow) {
            written ??= fill(dynamodb, table, [item]);
            await written;
          }
          return send();
        };
        await assert.rejects(migrateTable(migrating(wire, table)), (error) => {
          assert.ok(error instanceof ConflictError && error.code === "table_in_use", `${what}: ${error}`);
          assert.match(error.message, /carry its contents over by hand/);
          return true;
        });
        const key = (each: Attributes) => `${each.PK?.S} ${each.SK?.S}`;
        const kept = (await contents(dynamodb, table)).find((each) => key(each) === key(item));
        assert.deepEqual(kept, Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1))), what);
        // Once somebody has seen to it, the migration ends.
        const input = { ...gone(item), TableName: table };
        await dynamodb.client.send("DeleteItem", JSON.stringify(input), { timeoutMs: 10_000 });
        await migrateTable(migrating(dynamodb.client, table));
        assert.ok(await isOurs(dynamodb, table));
        const left = (await contents(dynamodb, table)).filter(({ SK }) => SK?.S?.startsWith("#MIGRATED"));
        assert.deepEqual(left, [], "receipts are gone");
      }
    }
  });

  test("of two processes the one that began later goes on", async (t) => {
    const table = await oldTable(dynamodb, t, "0.8");
    const first = new Wire(dynamodb.client);
    let isOvertaken = false;
    first.fault = async ({ operation, send }) => {
      if (operation === "PutItem" && !isOvertaken) {
        isOvertaken = true;
        await migrateTable(migrating(dynamodb.client, table));
      }
      return send();
    };
    await assert.rejects(migrateTable(migrating(first, table)), coded("migration_taken_over"));
    await looksRight(dynamodb, table, "0.8");
  });

  test("an item that cannot be read stops it with its key, and it goes on once that is put right", async (t) => {
    const table = await oldTable(dynamodb, t, "0.6");
    const bad = { PK: { S: "ENTITY#odd" }, SK: { S: "#BUCKET#api#rpm" }, tokens_milli: { N: "1.5" } };
    await fill(dynamodb, table, [bad]);
    await assert.rejects(migrateTable(migrating(dynamodb.client, table)), (error) => {
      assert.ok(error instanceof VersionError && error.code === "item_unreadable");
      assert.match(error.message, /ENTITY#odd #BUCKET#api#rpm.*"tokens_milli" is 1\.5/);
      return true;
    });
    const Key = { PK: bad.PK, SK: bad.SK };
    await dynamodb.client.send("DeleteItem", JSON.stringify({ TableName: table, Key }), { timeoutMs: 10_000 });
    await migrateTable(migrating(dynamodb.client, table));
    await looksRight(dynamodb, table, "0.6");
  });

  test("progress is told after every thousand items", async (t) => {
    const table = await bareTable(dynamodb, t, ["GSI1", "GSI2", "GSI3"]);
    const events = Array.from({ length: 1_050 }, (_, i) => ({
      ...{ PK: { S: "AUDIT#e" }, SK: { S: `#AUDIT#${String(i).padStart(26, "0")}` }, entity_id: { S: "e" } },
      ...{ action: { S: "limits_set" }, timestamp: { S: "2026-03-01T10:00:00Z" }, ttl: { N: "2000000000" } },
    }));
    await fill(dynamodb, table, [
      ...events,
      { PK: { S: "SYSTEM#" }, SK: { S: "#VERSION" }, schema_version: { S: "0.8.0" } },
    ]);
    const told: string[] = [];
    const report = await planMigration(
      migrating(dynamodb.client, table, { onProgress: ({ phase, items }) => told.push(`${phase} ${items}`) }),
    );
    assert.ok(told.includes("plan 1051") || told.includes("plan 1050"), told.join());
    assert.deepEqual(
      report.steps.map(({ items }) => items),
      [1_051, 0],
    );
  });
});

const VERSIONS: Readonly<Record<Layout, readonly string[]>> = {
  "0.4": ["0.8.0", "0.9.0", "0.10.0"],
  "0.6": ["0.8.0", "0.9.0", "0.10.0"],
  "0.8": ["0.9.0", "0.10.0"],
  "0.9": ["0.10.0"],
};

/** The story, seen by a limiter on the migrated table. */
async function looksRight(dynamodb: DynamodbLocal, table: string, layout: Layout): Promise<void> {
  const clock = new SimulatedClock(T0);
  const store = await openDynamo(optionsFor(dynamodb.client, table, { clock }));
  const limiter = await RateLimiter.open({ store, clock, timeoutMs: 20_000 });
  const { id: namespaceId } = (await store.namespaces.get("default")) ?? { id: "" };
  const scope = store.scope(namespaceId);
  // Every level at several later instants, by the original's own rule.
  for (const { entityId, resource, limits } of STORY.buckets) {
    const [state] = await scope.buckets.read([bucketKey(entityId, resource)]);
    assert.ok(state !== undefined, `${entityId} has no bucket`);
    const isShared = layout === "0.8" || layout === "0.9";
    for (const limit of limits) {
      const held = findLimit(state, limit.name);
      assert.ok(held !== undefined);
      const refilledAtMs = isShared ? sharedRefill(limits) : limit.refilledAtMs;
      for (const laterMs of [0, 1, 599, 1_000, 61_234, 3_600_001, 86_400_000]) {
        const expected = originalLevel(limit, refilledAtMs, T0 + laterMs);
        assert.equal(availableMilli(state, held, T0 + laterMs), expected, `${entityId} ${limit.name} +${laterMs}`);
      }
    }
  }
  // Entities and their hierarchy.
  const [project, key] = [await limiter.getEntity("proj-1"), await limiter.getEntity("key-1")];
  assert.deepEqual([project.name, project.metadata, project.parentId], ["Production", { tier: "gold" }, undefined]);
  assert.deepEqual([key.parentId, key.cascade, key.createdAtMs], ["proj-1", true, Date.UTC(2026, 2, 1, 10)]);
  assert.deepEqual(
    [...(await limiter.getChildren("proj-1"))].map(({ id }) => id),
    ["key-1"],
  );
  await assert.rejects(limiter.deleteEntity("proj-1"), coded("entity_has_children"));
  // Limits at four levels; the burst is the capacity.
  const three = [
    Limit.custom("day", { capacity: 10, refillAmount: 10, refillPeriodMs: 86_400_000 }),
    Limit.perMinute("rpm", 100),
    Limit.perMinute("tpm", 1000, { burst: 1500 }),
  ];
  const byName = (limits: readonly Limit[]) => [...limits].sort((a, b) => (a.name < b.name ? -1 : 1));
  assert.deepEqual(byName(await limiter.getLimits("key-1", { resource: "openai/gpt-4" })), three);
  assert.deepEqual(byName(await limiter.getResourceDefaults("openai/gpt-4")), three);
  assert.deepEqual(await limiter.getLimits("key-1"), [Limit.perMinute("rpm", 5, { burst: 7 })]);
  const system = await limiter.getSystemDefaults();
  assert.deepEqual(system.limits, [Limit.perMinute("rpm", 100)]);
  if (layout === "0.8" || layout === "0.9") assert.equal(system.onUnavailable, "allow");
  // Registries.
  assert.deepEqual([...(await limiter.listResources())], ["openai/gpt-4"]);
  assert.deepEqual([...(await limiter.listEntitiesWithLimits("openai/gpt-4"))], ["key-1", "proj-1"]);
  const registry = (await contents(dynamodb, table)).find(({ SK }) => SK?.S === "#ENTITY_CONFIG_RESOURCES");
  assert.deepEqual([registry?.["openai/gpt-4"]?.N, registry?._default_?.N], ["2", "1"]);
  // Usage, by hours and days.
  const span = { fromMs: Date.UTC(2026, 0, 1), toMs: T0 + HOUR_MS };
  const hours = await limiter.usage({ entityId: "key-1", window: "hourly", ...span });
  assert.deepEqual(
    hours.map(({ windowStartMs, counters, requests }) => [new Date(windowStartMs).toISOString(), counters, requests]),
    [
      ["2026-02-01T00:00:00.000Z", { rpm: 40 }, 40],
      ["2026-03-14T09:00:00.000Z", { rpm: 3, tpm: 900 }, 6],
      ["2026-03-14T17:00:00.000Z", { rpm: 1 }, 1],
      ["2026-03-15T12:00:00.000Z", { rpm: 2 }, 2],
    ],
  );
  const days = await limiter.usage({ resource: "openai/gpt-4", window: "daily", ...span });
  assert.deepEqual(
    days.map(({ entityId, counters }) => [entityId, counters]),
    [
      ["key-1", { rpm: 40 }],
      ["key-1", { rpm: 4, tpm: 900 }],
      ["proj-1", { rpm: 3 }],
      ["key-1", { rpm: 2 }],
    ],
  );
  // The audit trail.
  const { events } = await limiter.auditEvents({ entityId: "key-1" });
  assert.deepEqual(
    events.map(({ eventId, action, principal }) => [eventId, action, principal]),
    [...STORY.audit].reverse().map(({ id, action }) => [id, action, "ops"]),
  );
  // A take in the same hour counts with what was used before the migration, also when the hour is closed.
  await clock.advance(60_000);
  await limiter.acquire({ entityId: "loner", resource: "api", consume: { rpm: 5 } }).then((lease) => lease.settle());
  const lease = await limiter.acquire({ entityId: "proj-1", resource: "openai/gpt-4", consume: { rpm: 1 } });
  await lease.settle();
  const state = (await scope.buckets.read([bucketKey("proj-1", "openai/gpt-4")]))[0];
  assert.ok(state !== undefined);
  await store.close();
}

/** While it is migrated nobody opens the table, and the sentence says what to do. */
async function refusesClients(dynamodb: DynamodbLocal, table: string): Promise<void> {
  for (const shared of [false, true]) {
    await assert.rejects(openDynamo(optionsFor(dynamodb.client, table, { shared })), (error) => {
      assert.ok(error instanceof VersionError, String(error));
      assert.match(error.message, /zae-limiter migrate --name/);
      return true;
    });
  }
}

async function phaseOf(dynamodb: DynamodbLocal, table: string): Promise<string | undefined> {
  return (await versionIn(dynamodb, table))?.migrating?.M?.phase?.S;
}

/** Tables differ in the id of their namespace. */
function withoutIds(items: readonly Attributes[]): string[] {
  const id = items.find(({ SK }) => SK?.S === "#NAMESPACE#default")?.namespace_id?.S ?? "?";
  return items.map((item) => JSON.stringify(item).replaceAll(id, "NS")).sort();
}
