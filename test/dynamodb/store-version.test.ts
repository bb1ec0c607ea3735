import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import { versionKey } from "../../src/adapters/dynamodb/schema.ts";
import { openDynamo } from "../../src/adapters/dynamodb/store.ts";
import { createTable, deleteTable, prepareTable } from "../../src/adapters/dynamodb/table-admin.ts";
import { raiseClientMin, readVersion } from "../../src/adapters/dynamodb/version.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { ExistsError, NotFoundError, VersionError } from "../../src/domain/names/errors.ts";
import { claim, T0 } from "../kit/contract-kit.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { type Ground, newGround, optionsFor, recordsOn, S } from "./store-kit.ts";

const soft = [Limit.perMinute("rpm", 10, { soft: true })];
const shadow: readonly Limit[] = [{ ...Limit.perMinute("rpm", 10), shadow: true }];

await describeDynamo("the version record", (dynamodb) => {
  test("where there is no table, the error names the call that makes one", async () => {
    await assert.rejects(openDynamo(optionsFor(dynamodb.client, "nobody-made-it")), (error) => {
      assert.ok(error instanceof NotFoundError && error.code === "table_not_found");
      assert.match(error.message, /nobody-made-it.*createTable\(\)/);
      return true;
    });
  });

  test("a table that is made is ready: active, with its record and the namespace default", async (t) => {
    const admin = adminOf(dynamodb, `test-version-${process.pid}`);
    const options = { projection: "KEYS_ONLY", tags: { team: "x" }, deletionProtection: false, expiry: true } as const;
    await createTable(admin, options);
    t.after(() => deleteTable(admin));
    await assert.rejects(createTable(admin, options), ExistsError);
    const store = await openDynamo(optionsFor(dynamodb.client, admin.table));
    const namespace = await store.namespaces.get("default");
    assert.match(namespace?.id ?? "", /^[A-Za-z0-9_][A-Za-z0-9_-]{10}$/);
    assert.equal(store.name, `dynamodb:${admin.table}`);
    await store.ping();
    assert.deepEqual(await readVersion(recordsOn(dynamodb, admin.table)), {
      schemaVersion: "0.10.0",
      clientMinVersion: "0.17.0",
      lambdaVersion: "0.17.0",
      updatedBy: "zae-limiter-ts:1.2.3",
    });
    await prepareTable({ ...admin, version: "9.9.9" });
    assert.equal((await store.namespaces.get("default"))?.id, namespace?.id);
    assert.equal((await readVersion(recordsOn(dynamodb, admin.table)))?.updatedBy, "zae-limiter-ts:1.2.3");
    assert.equal(await deleteTable(admin), true);
    assert.equal(await deleteTable(admin), false);
    await assert.rejects(async () => store.ping(), NotFoundError);
  });

  test("a bare table is not taken for ours", async () => {
    const table = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    await assert.rejects(openDynamo(optionsFor(dynamodb.client, table)), (error) => {
      assert.ok(error instanceof NotFoundError && error.code === "version_missing");
      assert.match(error.message, /prepareTable\(\)/);
      return true;
    });
  });

  test("a table that the original set up is refused, with the sentence that names the option", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    await ground.put(versionKey(), theirs({}));
    await refused(dynamodb, ground.table, false, "table_shared", /client:0\.17\.0.*`sharedTable: true`/);
    const store = await openDynamo(optionsFor(dynamodb.client, ground.table, { shared: true }));
    assert.equal((await store.namespaces.get("default"))?.id, ground.namespaceId);
  });

  test("a table is shared only where its index has whole items", async (t) => {
    const { table } = await newGround(dynamodb, t, { shared: false });
    await refused(dynamodb, table, true, "index_projection", /GSI2.*projection: "ALL"/);
  });

  test("another schema, or a demand for more than we know, is refused (W37)", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    for (const [given, code] of [
      [{ schema_version: S("1.0.0") }, "schema_version"],
      [{ schema_version: S("0.11.0") }, "schema_version"],
      [{ schema_version: S("0.9.0") }, "schema_version"],
      [{ client_min_version: S("0.18.0") }, "client_version"],
      [{ client_min_version: S("1.0.0") }, "client_version"],
    ] as const) {
      await ground.put(versionKey(), theirs(given));
      await refused(dynamodb, ground.table, true, code, /./);
    }
    for (const given of [{ schema_version: S("0.10.7") }, { client_min_version: S("0.17.0rc1") }]) {
      await ground.put(versionKey(), theirs(given));
      await openDynamo(optionsFor(dynamodb.client, ground.table, { shared: true }));
    }
  });

  test("each refusal says what to do: migrate, update, go on, or open it otherwise", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    const { table } = ground;
    const migrating = (phase: string) => ({ migrating: { M: { phase: S(phase), from: S("0.8.0") } } });
    for (const [given, code, sentence] of [
      [
        { schema_version: S("0.9.1") },
        "schema_version",
        new RegExp(`upgrade it with \`zae-limiter migrate --name ${table}\``),
      ],
      [{ schema_version: S("0.11.0") }, "schema_version", /update this package/],
      [{ client_min_version: S("0.18.0") }, "client_version", /needs clients.*0\.18\.0.*update this package/],
      [
        { schema_version: S("0.8.0"), ...migrating("copy") },
        "table_migrating",
        /from schema 0\.8\.0 \(copy\).*--abort/,
      ],
      [migrating("check"), "table_migrating", /migrate --name/],
      [{ ...migrating("clean"), updated_by: S("zae-limiter-ts:1") }, "table_migrating", /resumes it\.$/],
      [{ taken_over: S("1000.0.0"), client_min_version: S("1000.0.0") }, "table_taken_over", /without `sharedTable`/],
    ] as const) {
      await ground.put(versionKey(), theirs(given));
      await refused(dynamodb, table, true, code, sentence);
    }
  });

  test("a table in a layout without namespaces is not set up over its data, and says what to do", async () => {
    const table = await dynamodb.newTable({ gsi2Projection: "ALL", expiry: false });
    const admin = adminOf(dynamodb, table);
    const old = { PK: S("SYSTEM#"), SK: S("#VERSION"), data: { M: { schema_version: S("1.0.0") } } };
    const put = JSON.stringify({ TableName: table, Item: old });
    await dynamodb.client.send("PutItem", put, { timeoutMs: 10_000 });
    await assert.rejects(prepareTable(admin), (error) => {
      assert.ok(error instanceof VersionError && error.code === "schema_version");
      assert.match(error.message, /has schema 1\.0\.0.*zae-limiter migrate/);
      return true;
    });
    await refused(dynamodb, table, false, "schema_version", /zae-limiter migrate/);
    const records = recordsOn(dynamodb, table);
    assert.equal(await records.get(versionKey()), undefined);
    await deleteTable(admin);
  });

  test("what older releases misread shuts them out first, and what their Lambda misreads is not written", async (t) => {
    const ground = await newGround(dynamodb, t, { shared: true });
    const { place, records } = ground;
    await ground.put(versionKey(), theirs({ lambda_version: { NULL: true } }));
    const system = { level: "system" } as const;
    await assert.rejects(async () => place.set(system, soft), VersionError);
    await assert.rejects(
      async () => place.setPolicy({ level: "resource", resource: "api" }, { cascade: true }),
      VersionError,
    );
    assert.equal(await place.scope.config.get(system), undefined);
    await ground.put(versionKey(), theirs({ lambda_version: S("0.16.2") }));
    await place.setPolicy({ level: "resource", resource: "api" }, { cascade: true });
    assert.equal((await readVersion(records))?.clientMinVersion, "0.16.0");
    await assert.rejects(async () => place.set(system, soft), VersionError);
    await ground.put(versionKey(), theirs({ lambda_version: S("0.17.0") }));
    await place.set(system, soft);
    assert.deepEqual(await readVersion(records), {
      schemaVersion: "0.10.0",
      clientMinVersion: "0.17.0",
      lambdaVersion: "0.17.0",
      updatedBy: "client:0.17.0",
    });
    await raiseClientMin(records, "0.16.0");
    assert.equal((await readVersion(records))?.clientMinVersion, "0.17.0");
  });

  test("limits beyond rates shut older releases out before the first is written, by whichever way it comes", async (t) => {
    const ways: Readonly<Record<string, (ground: Ground) => unknown>> = {
      defaults: ({ place }) => place.set({ level: "system" }, shadow),
      "one entity": ({ place }) => place.set({ level: "entity", entityId: "key-1", resource: "api" }, shadow),
      totals: ({ place }) => place.set({ level: "systemTotal" }, shadow),
      plans: async ({ place }) => {
        await place.createPlan({ id: "gold" });
        await place.set({ level: "planDefault", planId: "gold" }, shadow);
      },
      "the limits of a request": ({ place }) => place.take([claim("key-1", shadow, { rpm: 1 })], T0),
    };
    for (const [way, go] of Object.entries(ways)) {
      const ground = await newGround(dynamodb, t);
      const { records, wire } = ground;
      await ground.place.set({ level: "resource", resource: "other" }, soft);
      await ground.place.take([claim("key-1", soft, { rpm: 1 }, { resource: "other" })], T0);
      assert.equal((await readVersion(records))?.clientMinVersion, "0.17.0", way);
      wire.calls.length = 0;
      await go(ground);
      assert.equal((await readVersion(records))?.clientMinVersion, "1000.0.1", way);
      const written = wire.calls
        .filter(({ operation }) => !/Get|Query|Describe/.test(operation))
        .map(({ input }) => JSON.stringify(input));
      const first = written.findIndex((text) => text.includes("client_min_version"));
      const limit = written.findIndex((text) => /[lb]_rpm_cp/.test(text));
      assert.ok(first >= 0 && first < limit, `${way}: ${first} before ${limit}`);
      // It is raised once, and this release goes on.
      wire.calls.length = 0;
      await ground.place.take([claim("key-2", shadow, { rpm: 1 })], T0);
      assert.ok(
        wire.calls.every(({ input }) => !JSON.stringify(input).includes("client_min_version")),
        way,
      );
      await openDynamo(optionsFor(dynamodb.client, ground.table));
      await refused(dynamodb, ground.table, true, "client_version", /without `sharedTable`/);
    }
  });

  test("a table shared with the original takes no limits beyond rates", async (t) => {
    const { place, records } = await newGround(dynamodb, t, { shared: true });
    const before = await readVersion(records);
    for (const go of [
      () => place.set({ level: "system" }, shadow),
      () => place.take([claim("key-1", shadow, { rpm: 1 })], T0),
    ]) {
      await assert.rejects(async () => go(), { code: "shared_shadow", message: /"rpm".*without sharedTable/ });
    }
    assert.deepEqual(await readVersion(records), before);
    assert.equal(await place.state("key-1"), undefined);
  });

  test("a request whose limits would be the first beyond rates is answered as unavailable while the record cannot be raised", async (t) => {
    let passedMs = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + passedMs };
    const { place, wire } = await newGround(dynamodb, t, { clock });
    // Each call that fails takes all the time there is.
    wire.fault = async () => {
      passedMs += 30_000;
      return { kind: "unsent", cause: new Error("no way") };
    };
    const [answer] = await place.take([claim("key-1", shadow, { rpm: 1 })], T0);
    assert.equal(answer?.kind, "unavailable");
    wire.fault = ({ send }) => send();
    assert.equal(await place.grants(claim("key-1", shadow, { rpm: 1 }), T0), true);
  });
});

async function refused(
  dynamodb: DynamodbLocal,
  table: string,
  shared: boolean,
  code: string,
  sentence: RegExp,
): Promise<void> {
  await assert.rejects(openDynamo(optionsFor(dynamodb.client, table, { shared })), (error) => {
    assert.ok(error instanceof VersionError && error.code === code, String(error));
    assert.match(error.message, sentence);
    return true;
  });
}

function theirs(given: Attributes): Attributes {
  return {
    ...{ schema_version: S("0.10.0"), client_min_version: S("0.0.0"), lambda_version: S("0.17.0") },
    ...{
      updated_at: S(new Date(T0).toISOString()),
      updated_by: S("client:0.17.0"),
      GSI4PK: S("_"),
      GSI4SK: S("_/SYSTEM#"),
    },
    ...given,
  };
}

function adminOf({ client }: DynamodbLocal, table: string) {
  return {
    ...{ client, table, clock: systemClock, random: Math.random, ids: systemRandom, version: "1.2.3" },
    timeoutMs: 30_000,
  };
}
