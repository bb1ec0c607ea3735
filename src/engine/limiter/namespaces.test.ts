import assert from "node:assert/strict";
import { test } from "node:test";
import { RateLimiter } from "../../entry/index.ts";
import { openMemory } from "../../entry/memory.ts";
import type { Store } from "../../ports/store.ts";
import { overriding } from "../../testing/fault-store.ts";

/** A store that answers for namespaces as one behind a network does: later. */
function answeringLater(store: Store): Store {
  return overriding(store, {
    namespaces: overriding(store.namespaces, { get: async (name) => store.namespaces.get(name) }),
  });
}

for (const [how, store] of [
  ["at once", openMemory()],
  ["with a promise", answeringLater(openMemory())],
] as const) {
  test(`changes of namespaces are in the audit log of the namespace they were made from; the store answers ${how}`, async () => {
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
}

test("a namespace that is not registered is the error of the first call, and of nothing that nobody calls", async () => {
  const limiter = await RateLimiter.open({ store: answeringLater(openMemory()) });
  const nowhere = limiter.namespace("nowhere");
  await new Promise((resolve) => setImmediate(resolve));
  await assert.rejects(nowhere.registerNamespace("tenant"), {
    code: "namespace_not_found",
    message: /no namespace nowhere/,
  });
});
