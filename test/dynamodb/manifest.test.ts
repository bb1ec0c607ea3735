import assert from "node:assert/strict";
import { test } from "node:test";
import { provisionerKey } from "../../src/adapters/dynamodb/schema.ts";
import { Limit } from "../../src/entry/limits.ts";
import { applyManifest, driftOf, exportManifest } from "../../src/entry/manifest.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import type { Store } from "../../src/ports/store.ts";
import { atDepth } from "../depth.ts";
import { apply, lines, plan } from "../manifest/apply-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { newGround } from "./store-kit.ts";

const BEFORE = `
owner: o
resources: { a: { limits: { rpm: 1 } }, b: { limits: { rpm: 1 } } }
entities: { p: { name: P, limits: { rpm: 1 } } }
`;
const AFTER = `
owner: o
resources: { a: { limits: { rpm: 2 }, disabled: true } }
entities: { n: { name: N, limits: { rpm: 1 } } }
`;
const PRUNE = { prune: true };
const WRITES = new Set(["TransactWriteItems", "BatchWriteItem", "UpdateItem", "PutItem", "DeleteItem"]);
const coded = (code: string) => (error: unknown) => (error as { code?: string }).code === code;

function open(store: Store): Promise<RateLimiter> {
  return RateLimiter.open({ store, timeoutMs: 10_000 });
}

await describeDynamo("declared limits on DynamoDB", (dynamodb) => {
  test("planned, applied, drifted, exported, pruned", async (t) => {
    const { store, place } = await newGround(dynamodb, t);
    const limiter = await open(store);
    await apply(limiter, BEFORE);
    assert.deepEqual((await plan(limiter, BEFORE)).changes, []);
    await limiter.setResourceDefaults("a", [Limit.perMinute("rpm", 5)], { principal: "mallory" });
    const { drift } = await driftOf(limiter, { owner: "o" });
    assert.deepEqual([drift.length, drift[0]?.by?.principal], [1, "mallory"]);
    await apply(limiter, AFTER, PRUNE);
    assert.deepEqual(await limiter.getResourceDefaults("b"), []);
    await apply(limiter, "owner: o\nresources: {}", { keep: true });
    const found = await plan(limiter, await exportManifest(limiter));
    assert.deepEqual([...new Set(found.changes.map(({ action }) => action))], ["adopt"]);
    assert.equal((await place.scope.manifests.list({ limit: 10 })).items.length, 0);
  });

  test("killed at its calls that write, before or after it: planned and applied again, all is as it should be", async (t) => {
    const ground = await newGround(dynamodb, t);
    const sound = await open(ground.store);
    let isKilled = true;
    let at = 0;
    for (; isKilled; at += atDepth(5, 1)) {
      await sound.registerNamespace(`n${at}`);
      const limiter = sound.namespace(`n${at}`);
      await apply(limiter, BEFORE);
      const doomed = await ground.another();
      const dying = (await open(doomed.store)).namespace(`n${at}`);
      const found = await plan(dying, AFTER, PRUNE);
      isKilled = await new Promise<boolean>((resolve, reject) => {
        let writes = 0;
        doomed.wire.fault = async ({ operation, send }) => {
          if (writes > at) return new Promise(() => {});
          if (!WRITES.has(operation) || writes++ < at) return send();
          // It was sent or it was not; the process is gone either way.
          if (at % 2 === 1) await send();
          resolve(true);
          return new Promise(() => {});
        };
        applyManifest(dying, found).then(() => resolve(false), reject);
      });
      assert.deepEqual((await driftOf(limiter, { owner: "o" })).drift, [], `${at}: what is pending is no drift`);
      await apply(limiter, AFTER, PRUNE);
      assert.deepEqual((await plan(limiter, AFTER)).changes, [], String(at));
      const owned = await plan(limiter, "owner: o\nresources: {}");
      assert.deepEqual(lines(owned.changes), [
        "delete limits entityDefault n",
        "delete access resource a",
        "delete limits resource a",
        "delete entity n",
      ]);
      assert.deepEqual([...(await limiter.listResources())], ["a"]);
      assert.deepEqual(
        (await limiter.listEntities()).map(({ id }) => id),
        ["n"],
      );
    }
    assert.ok(at > 15, `killed at ${at} calls only`);
  });

  test("on a shared table, what the original's provisioner lists is owned by default, and the other way round", async (t) => {
    const { store, records, namespaceId, put } = await newGround(dynamodb, t, { shared: true });
    const limiter = await open(store);
    await limiter.setResourceDefaults("theirs", [Limit.perMinute("rpm", 1)]);
    await put(provisionerKey(namespaceId), {
      managed_system: { BOOL: false },
      managed_resources: { L: [{ S: "theirs" }] },
      managed_entities: { M: {} },
      applied_hash: { S: "sha256:x" },
      GSI4PK: { S: namespaceId },
    });
    const listed = async () => {
      const item = await records.get(provisionerKey(namespaceId));
      const entities = Object.entries(item?.managed_entities?.M ?? {});
      return {
        system: item?.managed_system?.BOOL,
        resources: item?.managed_resources?.L?.map(({ S }) => S),
        entities: entities.map(([id, { L }]) => [id, ...(L ?? []).map(({ S }) => S)]),
        hash: item?.applied_hash?.S,
      };
    };
    const other = "owner: other\nresources: { theirs: { limits: { rpm: 2 } } }";
    assert.equal((await plan(limiter, other)).conflicts[0]?.owner, "default");
    await assert.rejects(apply(limiter, other), coded("owned_by_other"));
    assert.deepEqual(lines((await plan(limiter, "resources: {}")).changes), ["delete limits resource theirs"]);
    const ours = `
resources: { theirs: { limits: { rpm: 1 } }, ours: { limits: { rpm: 1 }, disabled: false } }
entities: { e: { limits: { rpm: 1 }, resources: { api: { limits: { rpm: 1 } } } } }
system: { on_unavailable: allow }
`;
    assert.deepEqual((await apply(limiter, ours)).summary.adopt, 1);
    assert.deepEqual(await listed(), {
      ...{ system: true, resources: ["ours", "theirs"], entities: [["e", "_default_", "api"]], hash: "sha256:x" },
    });
    await apply(limiter, "resources: { ours: { disabled: false } }", PRUNE);
    assert.deepEqual(await listed(), { system: false, resources: ["ours"], entities: [], hash: "sha256:x" });
    await apply(limiter, "owner: other\nresources: { ours: { limits: { rpm: 2 } } }", { takeOver: true });
    assert.deepEqual((await plan(limiter, "resources: { ours: { disabled: false } }")).changes, []);
  });
});
