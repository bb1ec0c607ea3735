import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround } from "./store-kit.ts";

await describeDynamo("namespaces through a limiter on another namespace", (dynamodb) => {
  test("changes of namespaces are in the audit log of the namespace they were made from", async (t) => {
    const { store } = await newGround(dynamodb, t);
    const limiter = await RateLimiter.open({ store });
    await limiter.registerNamespace("admin");
    const admin = limiter.namespace("admin");
    const { id } = await admin.registerNamespace("tenant");
    await admin.deleteNamespace("tenant");
    await admin.recoverNamespace(id);
    await admin.deleteNamespace("tenant");
    await admin.purgeNamespace(id);
    const actions = async (where: RateLimiter) => (await where.auditEvents()).events.map(({ action }) => action).sort();
    assert.deepEqual(await actions(admin), [
      "namespace_deleted",
      "namespace_deleted",
      "namespace_purged",
      "namespace_recovered",
      "namespace_registered",
    ]);
    assert.deepEqual(await actions(limiter), ["namespace_registered"]);
  });
});
