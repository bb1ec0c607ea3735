import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { admitted, ask, grants, Shared } from "./kit.ts";

// Namespaces, entities, configuration and audit: written by one, used by the other.

interface TheirEntity {
  readonly id: string;
  readonly name: string;
  readonly parent_id: string | null;
  readonly cascade: boolean;
  readonly metadata: Readonly<Record<string, string>>;
}

interface TheirLimit {
  readonly name: string;
  readonly capacity: number;
}

await describeDynamo("records of both", (dynamodb) => {
  test("a namespace that either registers is open to the other, and what is in it is nobody else's", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.registerNamespace("of-ours");
    await their.call("register_namespace", ["of-theirs"]);
    const names = (await their.call<readonly { name: string }[]>("list_namespaces")).map(({ name }) => name);
    assert.deepEqual([...names].sort(), ["default", "of-ours", "of-theirs"]);
    const listed = [];
    for await (const { name } of our.listNamespaces()) listed.push(name);
    assert.deepEqual(listed.sort(), ["default", "of-ours", "of-theirs"]);
    for (const namespace of ["of-ours", "of-theirs"]) {
      const ourThere = await shared.our({ namespace });
      const theirThere = await shared.their({ namespace, how: "connect" });
      await ourThere.setSystemDefaults([Limit.perMinute("rpm", namespace === "of-ours" ? 2 : 3)]);
      assert.ok(await grants(ourThere, ask({ rpm: 1 })));
      assert.equal(await theirThere.admits(ask({ rpm: 1 }), 5), namespace === "of-ours" ? 1 : 2);
    }
  });

  test("a namespace that either deletes is gone for the other, and back when the other recovers it", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    const { id } = await our.registerNamespace("team");
    await their.call("delete_namespace", ["team"]);
    await assert.rejects(our.getNamespace("team"), { code: "namespace_not_found" });
    const orphans = await their.call<readonly { namespace_id: string }[]>("list_orphan_namespaces");
    assert.deepEqual(
      orphans.map((orphan) => orphan.namespace_id),
      [id],
    );
    await our.recoverNamespace(id);
    assert.notEqual(await their.call("get_namespace", ["team"]), null);
    await our.deleteNamespace("team");
    assert.equal(await their.call("get_namespace", ["team"]), null);
    await their.call("purge_namespace", [id]);
    const left = [];
    for await (const orphan of our.listOrphanNamespaces()) left.push(orphan.name);
    assert.deepEqual(left, []);
  });

  test("entities of either are entities of both, with parents, names and metadata", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.createEntity({ id: "project", name: "Project", metadata: { tier: "gold" } });
    const created = { name: "Key", parent_id: "project", cascade: true, metadata: { owner: "x" } };
    await their.call("create_entity", ["key"], created);
    const seen = await their.call<TheirEntity>("get_entity", ["project"]);
    assert.deepEqual(
      [seen.name, seen.parent_id, seen.cascade, seen.metadata],
      ["Project", null, false, { tier: "gold" }],
    );
    const { name, parentId, cascade, metadata } = await our.getEntity("key");
    assert.deepEqual(
      { name, parentId, cascade, metadata },
      { name: "Key", parentId: "project", cascade: true, metadata: { owner: "x" } },
    );
    await our.createEntity({ id: "key-2", parentId: "project" });
    const children = await their.call<readonly TheirEntity[]>("get_children", ["project"]);
    assert.deepEqual(children.map(({ id }) => id).sort(), ["key", "key-2"]);
    const ours = [];
    for await (const child of our.getChildren("project")) ours.push(child.id);
    assert.deepEqual(ours.sort(), ["key", "key-2"]);
    await their.call("delete_entity", ["key-2"]);
    await assert.rejects(our.getEntity("key-2"), { code: "entity_not_found" });
    await our.deleteEntity("key");
    assert.equal(await their.call("get_entity", ["key"]), null);
    await assert.rejects(their.call("create_entity", ["project"]), { type: "EntityExistsError" });
  });

  test("a child charges its parent, whoever made them and whoever takes", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.createEntity({ id: "p" });
    await their.call("create_entity", ["of-theirs"], { parent_id: "p", cascade: true });
    await our.createEntity({ id: "of-ours", parentId: "p", cascade: true });
    await our.setLimits("p", [Limit.perMinute("rpm", 10)]);
    await our.setResourceDefaults("api", [Limit.perMinute("rpm", 100)]);
    for (const child of ["of-theirs", "of-ours"]) {
      assert.ok(await grants(our, ask({ rpm: 2 }, child)));
      assert.ok(await their.grants(ask({ rpm: 3 }, child)));
    }
    assert.equal(await grants(our, ask({ rpm: 1 }, "of-theirs")), false);
    assert.equal(await their.grants(ask({ rpm: 1 }, "of-ours")), false);
    assert.equal(await their.grants(ask({ rpm: 1 }, "p")), false);
  });

  test("leases on a bucket that the other side deleted give nothing back, and make nothing", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    await our.setResourceDefaults("api", [Limit.perDay("rpd", 10)]);
    for (const deletes of ["ours", "theirs"] as const) {
      await our.createEntity({ id: "ada" });
      const ours = await our.acquire(ask({ rpd: 3 }));
      const theirs = await their.acquire(ask({ rpd: 3 }));
      assert.equal(await grants(our, ask({ rpd: 5 })), false);
      if (deletes === "ours") await our.deleteEntity("ada");
      else await their.call("delete_entity", ["ada"]);
      assert.equal(await shared.found(0), undefined);
      await ours.rollback();
      await theirs.fail();
      assert.equal(await shared.found(0), undefined, `after ${deletes} deleted it`);
    }
    // Whoever comes next finds a new one.
    assert.equal((await admitted(our, ask({ rpd: 1 }), 6)) + (await their.admits(ask({ rpd: 1 }), 6)), 10);
  });

  test("flags and limits in one item: what either replaces keeps what the other set", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our({ configTtlMs: 0 }), await shared.their({ config_cache_ttl: 0 })];
    const limits = (capacity: number) => [Limit.perDay("rpd", capacity)];
    await our.setLimits("ada", limits(10), { resource: "api" });
    await our.setAccess({ entityId: "ada", resource: "api" }, "disabled");
    await their.call("set_limits", ["ada", limits(20), "api"]);
    await assert.rejects(grants(our, ask({ rpd: 1 })), { code: "resource_disabled" });
    await their.call("enable_entity", ["ada", "api"]);
    await our.setLimits("ada", limits(30), { resource: "api" });
    assert.equal(await their.call("get_entity_disabled", ["ada", "api"]), false);
    assert.equal((await our.resolveLimits("ada", "api")).limits[0]?.capacity, 30);
    assert.ok(await their.grants(ask({ rpd: 30 })));
    await their.call("delete_limits", ["ada", "api"]);
    await our.setLimits("ada", limits(5), { resource: "api" });
    const listed = await their.call<readonly [readonly string[]]>("list_entities_with_custom_limits", ["api"]);
    assert.deepEqual(listed[0], ["ada"]);
  });

  test("configuration at four levels is resolved alike, whoever wrote which level", async (t) => {
    for (const first of ["ours", "theirs"] as const) {
      const shared = await Shared.on(dynamodb, t);
      const [our, their] = [await shared.our({ configTtlMs: 0 }), await shared.their({ config_cache_ttl: 0 })];
      const limits = (capacity: number) => [Limit.perMinute("rpm", capacity)];
      const levels: readonly [write: (ours: boolean) => Promise<unknown>, capacity: number][] = [
        [(ours) => (ours ? our.setSystemDefaults(limits(1)) : their.call("set_system_defaults", [limits(1)])), 1],
        [
          (ours) =>
            ours ? our.setResourceDefaults("api", limits(2)) : their.call("set_resource_defaults", ["api", limits(2)]),
          2,
        ],
        [(ours) => (ours ? our.setLimits("ada", limits(3)) : their.call("set_limits", ["ada", limits(3)])), 3],
        [
          (ours) =>
            ours
              ? our.setLimits("ada", limits(4), { resource: "api" })
              : their.call("set_limits", ["ada", limits(4), "api"]),
          4,
        ],
      ];
      for (const [i, [write, capacity]] of levels.entries()) {
        await write((i % 2 === 0) === (first === "ours"));
        const { limits: resolved } = await our.resolveLimits("ada", "api");
        assert.deepEqual(
          resolved.map((limit) => limit.capacity),
          [capacity],
        );
        const theirs = await their.call<readonly [readonly TheirLimit[]]>("resolve_limits", ["ada", "api"]);
        assert.deepEqual(
          theirs[0].map((limit) => limit.capacity),
          [capacity],
        );
      }
      assert.deepEqual(await their.call("list_resources_with_defaults"), ["api"]);
      const resources = [];
      for await (const resource of our.listResources()) resources.push(resource);
      assert.deepEqual(resources, ["api"]);
      const listed = await their.call<readonly [readonly string[], string | null]>("list_entities_with_custom_limits", [
        "api",
      ]);
      assert.deepEqual(listed[0], ["ada"]);
      const entities = [];
      for await (const entityId of our.listEntitiesWithLimits("api")) entities.push(entityId);
      assert.deepEqual(entities, ["ada"]);
      await our.deleteLimits("ada", { resource: "api" });
      assert.equal((await our.resolveLimits("ada", "api")).limits[0]?.capacity, 3);
      await their.call("delete_limits", ["ada"]);
      assert.equal((await our.resolveLimits("ada", "api")).limits[0]?.capacity, 2);
    }
  });

  test("limits of every kind mean the same to both", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our(), await shared.their()];
    const limits = [
      Limit.perSecond("rps", 5, { burst: 7 }),
      Limit.custom("odd-name.v1", { capacity: 9, refillAmount: 4, refillPeriodMs: 13_000 }),
      Limit.perMinute("soft", 10, { soft: true }),
      Limit.quota("month", 1_000, { reset: { cron: "0 0 1 * *" } }),
      Limit.quota("session", 50, { resetAfterMs: 5 * 3_600_000 }),
      Limit.perMinute("busy", 100, { schedule: [{ cron: "* 9-17 * * 1-5", scale: 0.5 }] }),
    ];
    await our.setResourceDefaults("of-ours", limits);
    await their.call("set_resource_defaults", ["of-theirs", limits]);
    const [theirs, same] = [
      await their.call("get_resource_defaults", ["of-ours"]),
      await their.call("get_resource_defaults", ["of-theirs"]),
    ];
    assert.deepEqual(theirs, same);
    const sorted = async (resource: string) =>
      [...(await our.getResourceDefaults(resource))].sort((a, b) => (a.name < b.name ? -1 : 1));
    assert.deepEqual(await sorted("of-theirs"), await sorted("of-ours"));
    assert.equal((await sorted("of-theirs")).length, limits.length);
  });

  test("audit events of both are read by both, in the order of time", async (t) => {
    const shared = await Shared.on(dynamodb, t, { realTime: true });
    const [our, their] = [await shared.our(), await shared.their()];
    await our.createEntity({ id: "ada" }, { principal: "ops-a" });
    await their.call("set_limits", ["ada", [Limit.perMinute("rpm", 10)], "api"], { principal: "ops-b" });
    await our.setLimits("ada", [Limit.perMinute("rpm", 20)], { resource: "api", principal: "ops-c" });
    await their.call("delete_entity", ["ada"], { principal: "ops-d" });
    const expected = [
      ["entity_created", "ops-a"],
      ["limits_set", "ops-b"],
      ["limits_set", "ops-c"],
      ["entity_deleted", "ops-d"],
    ];
    const { events } = await our.auditEvents({ entityId: "ada" });
    assert.deepEqual(events.map(({ action, principal }) => [action, principal]).sort(), [...expected].sort());
    const theirs = await their.call<readonly { action: string; principal: string }[]>("get_audit_events", ["ada"]);
    assert.deepEqual(theirs.map(({ action, principal }) => [action, principal]).sort(), [...expected].sort());
    assert.deepEqual(
      events.map(({ action }) => action),
      theirs.map(({ action }) => action),
      "the same order",
    );
  });

  test("a cascade policy of either counts for both", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const [our, their] = [await shared.our({ configTtlMs: 0 }), await shared.their({ config_cache_ttl: 0 })];
    await our.createEntity({ id: "p" });
    await our.createEntity({ id: "c", parentId: "p", cascade: false });
    await our.setResourceDefaults("api", [Limit.perMinute("rpm", 100)]);
    await our.setLimits("p", [Limit.perMinute("rpm", 10)]);
    assert.equal(await admitted(our, ask({ rpm: 1 }, "c"), 2), 2);
    await their.call("set_resource_cascade", ["api", true]);
    assert.ok(await grants(our, ask({ rpm: 6 }, "c")));
    assert.ok(await their.grants(ask({ rpm: 4 }, "c")));
    assert.equal(await grants(our, ask({ rpm: 1 }, "c")), false);
    await our.setCascade({ entityId: "c", resource: "api" }, false);
    assert.ok(await grants(our, ask({ rpm: 1 }, "c")));
    assert.ok(await their.grants(ask({ rpm: 1 }, "c")));
  });
});
