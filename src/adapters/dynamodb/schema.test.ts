import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { ConfigScope } from "../../domain/config/config.ts";
import * as schema from "./schema.ts";
import { tableDefinition } from "./table-fit.ts";

const NS = "k3jD9_aQ-1x";
const entityId = fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]{0,12}$/);
const resource = fc.stringMatching(/^[a-zA-Z][a-zA-Z0-9_.\-/:]{0,12}$/);

test("keys are, letter by letter, those of the original", () => {
  const bucket = bucketKey("user-1", "gpt-4/v1");
  const keys = [
    schema.entityKey(NS, "user-1"),
    schema.configKey(NS, { level: "entity", entityId: "user-1", resource: "api" }),
    schema.configKey(NS, { level: "entityDefault", entityId: "user-1" }),
    schema.configKey(NS, { level: "resource", resource: "api" }),
    schema.configKey(NS, { level: "system" }),
    schema.itemTableKey(NS, { bucket, shard: 3 }),
    schema.itemTableKey(NS, { bucket, shard: 0, operation: "order-1" }),
    schema.auditKey(NS, "$SYSTEM", "01J0000000000000000000000A"),
    schema.resourceRegistryKey(NS),
    schema.entityConfigRegistryKey(NS),
    schema.provisionerKey(NS),
    schema.versionKey(),
    schema.namespaceNameKey("default"),
    schema.namespaceIdKey(NS),
  ];
  assert.deepEqual(
    keys.map(({ pk, sk }) => `${pk} ${sk}`),
    [
      `${NS}/ENTITY#user-1 #META`,
      `${NS}/ENTITY#user-1 #CONFIG#api`,
      `${NS}/ENTITY#user-1 #CONFIG#_default_`,
      `${NS}/RESOURCE#api #CONFIG`,
      `${NS}/SYSTEM# #CONFIG`,
      `${NS}/BUCKET#user-1#gpt-4/v1#3 #STATE`,
      `${NS}/BUCKET#user-1#gpt-4/v1#0 #OP#order-1`,
      `${NS}/AUDIT#$SYSTEM #AUDIT#01J0000000000000000000000A`,
      `${NS}/SYSTEM# #RESOURCES`,
      `${NS}/SYSTEM# #ENTITY_CONFIG_RESOURCES`,
      `${NS}/SYSTEM# #PROVISIONER`,
      "_/SYSTEM# #VERSION",
      "_/SYSTEM# #NAMESPACE#default",
      `_/SYSTEM# #NSID#${NS}`,
    ],
  );
});

test("keys of the indexes are those of the original", () => {
  const bucket = bucketKey("user-1", "api");
  assert.deepEqual(schema.itemPlace(NS, { bucket, shard: 2 }), {
    entity_id: "user-1",
    resource: "api",
    GSI2PK: `${NS}/RESOURCE#api`,
    GSI2SK: "BUCKET#user-1#2",
    GSI3PK: `${NS}/ENTITY#user-1`,
    GSI3SK: "BUCKET#api#2",
    GSI4PK: NS,
    GSI4SK: "BUCKET#user-1#api#2",
  });
  assert.deepEqual(schema.itemPlace(NS, { bucket, shard: 0, operation: "x" }), {
    entity_id: "user-1",
    resource: "api",
    GSI4PK: NS,
    GSI4SK: "OP#user-1#api#x",
  });
  assert.deepEqual(schema.entityIndexKeys(NS, "child", "parent"), {
    GSI1PK: `${NS}/PARENT#parent`,
    GSI1SK: "CHILD#child",
    GSI4PK: NS,
    GSI4SK: `${NS}/ENTITY#child`,
  });
  assert.deepEqual(schema.entityIndexKeys(NS, "root", undefined), { GSI4PK: NS, GSI4SK: `${NS}/ENTITY#root` });
  assert.deepEqual(schema.configIndexKeys(NS, { level: "entityDefault", entityId: "user-1" }), {
    GSI3PK: `${NS}/ENTITY_CONFIG#_default_`,
    GSI3SK: "user-1",
    GSI4PK: NS,
    GSI4SK: `${NS}/ENTITY#user-1`,
  });
  assert.deepEqual(schema.configIndexKeys(NS, { level: "resource", resource: "api" }), {
    GSI4PK: NS,
    GSI4SK: `${NS}/RESOURCE#api`,
  });
  assert.deepEqual(schema.systemIndexKeys(schema.REGISTRY), { GSI4PK: "_", GSI4SK: "_/SYSTEM#" });
});

test("an hour, a day and a month that begin together have three keys, and the hour's is the original's", () => {
  const windowStartMs = Date.UTC(2026, 0, 1);
  const usage = { entityId: "user-1", resource: "api", windowStartMs };
  const sks = (["hourly", "daily", "monthly"] as const).map((window) => schema.usageKey(NS, { ...usage, window }).sk);
  assert.deepEqual(sks, [
    "#USAGE#api#2026-01-01T00:00:00Z",
    "#USAGE#api#2026-01-01T00:00:00Z#daily",
    "#USAGE#api#2026-01-01T00:00:00Z#monthly",
  ]);
  for (const sk of sks) {
    assert.deepEqual(schema.parseUsageSk(sk), { resource: "api", windowStart: "2026-01-01T00:00:00Z" });
    assert.ok(sk.startsWith(schema.usagePrefix("api")) && sk.startsWith(schema.usagePrefix(undefined)));
  }
  assert.equal(schema.usageIndexKeys(NS, usage).GSI2SK, "USAGE#2026-01-01T00:00:00Z#user-1");
});

test("whatever the names, what was put into a key is read out of it", () => {
  fc.assert(
    fc.property(
      entityId,
      resource,
      fc.nat(31),
      fc.option(fc.string(), { nil: undefined }),
      (id, name, shard, given) => {
        const bucket = bucketKey(id, name);
        const key = given === undefined ? { bucket, shard } : { bucket, shard, operation: given };
        const sheet = { bucket, shard, sheet: "2026-03-15" };
        for (const one of [key, sheet]) {
          assert.deepEqual(schema.parseItemKey(schema.itemTableKey(NS, one)), { namespaceId: NS, key: one });
        }
        const place = schema.itemPlace(NS, { bucket, shard });
        assert.deepEqual(schema.parseResourceBucketSk(place.GSI2SK!), { entityId: id, shard });
        assert.equal(schema.parseChildSk(schema.childKeys(NS, "parent", id).GSI1SK!), id);
        const scopes: ConfigScope[] = [
          { level: "entity", entityId: id, resource: name },
          { level: "entityDefault", entityId: id },
          { level: "resource", resource: name },
          { level: "system" },
        ];
        for (const scope of scopes) assert.deepEqual(schema.parseConfigKey(schema.configKey(NS, scope)), scope);
      },
    ),
  );
});

test("what is no key of a bucket is not taken for one", () => {
  for (const [pk, sk] of [
    [`${NS}/ENTITY#a`, "#META"],
    [`${NS}/BUCKET#a#api#0`, "#META"],
    [`${NS}/BUCKET#a#api`, "#STATE"],
    [`${NS}/ENTITY#a`, "#BUCKET#api"],
    ["BUCKET#a#api#0", "#STATE"],
    ["", ""],
  ] as const) {
    assert.equal(schema.parseItemKey({ pk, sk }), undefined, `${pk} ${sk}`);
  }
  assert.equal(schema.parseConfigKey(schema.resourceRegistryKey(NS)), undefined);
  assert.equal(schema.parseConfigKey(schema.entityKey(NS, "a")), undefined);
});

test("in the resource index, buckets stand in the order of entity ids, and a range leaves out all shards of one", () => {
  fc.assert(
    fc.property(entityId, entityId, fc.nat(31), fc.nat(31), (a, b, i, j) => {
      const [skA, skB] = [schema.resourceBucketSk(a, i), schema.resourceBucketSk(b, j)];
      if (a !== b) assert.equal(skA < skB, a < b);
      const { from, to } = schema.resourceBucketRange(a);
      assert.equal(from <= skB && skB <= to, b > a);
      const all = schema.resourceBucketRange(undefined);
      assert.ok(all.from <= skB && skB <= all.to);
      assert.ok(!(all.from <= "USAGE#2026" && "USAGE#2026" <= all.to));
    }),
  );
});

test("the table is the original's without its local indexes, and says how much the resource index holds", () => {
  const options = { name: "limits", tags: { team: "a" }, deletionProtection: true };
  const definition = tableDefinition({ ...options, gsi2Projection: "KEYS_ONLY" });
  assert.ok(!("LocalSecondaryIndexes" in definition));
  const projections = (given: typeof definition) =>
    given.GlobalSecondaryIndexes.map(({ IndexName, Projection }) => `${IndexName} ${Projection.ProjectionType}`);
  assert.deepEqual(projections(definition), ["GSI1 ALL", "GSI2 KEYS_ONLY", "GSI3 KEYS_ONLY", "GSI4 KEYS_ONLY"]);
  const whole = tableDefinition({ ...options, gsi2Projection: "ALL" });
  assert.deepEqual(projections(whole), ["GSI1 ALL", "GSI2 ALL", "GSI3 KEYS_ONLY", "GSI4 KEYS_ONLY"]);
  assert.deepEqual(definition.StreamSpecification, { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" });
  assert.equal(definition.BillingMode, "PAY_PER_REQUEST");
  assert.deepEqual(definition.Tags, [{ Key: "team", Value: "a" }]);
});
