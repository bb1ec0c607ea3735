import assert from "node:assert/strict";
import { test } from "node:test";
import { OPERATIONS } from "../../src/client/operations.ts";
import { LimiterClient } from "../../src/entry/client.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { routes } from "../../src/server/routes.ts";
import { serviceOf } from "../server/service-kit.ts";

/** Methods of the library that a client cannot have, each with the reason. */
const OF_A_PROCESS: Readonly<Record<string, string>> = {
  namespace: "a client is of one namespace, and another one costs nothing to make",
  tryAcquireSync: "an answer over HTTP is a promise",
  cacheStats: "the service remembers limits, the client does not",
  invalidateCache: "the service remembers limits, the client does not",
};

test("the client has every method of a limiter that can exist over HTTP, and no other", () => {
  const theirs = methodsOf(RateLimiter.prototype).filter((name) => !Object.hasOwn(OF_A_PROCESS, name));
  assert.deepEqual(methodsOf(LimiterClient.prototype), theirs);
});

/** Routes that are no method of the library, each with who asks them. */
const OTHER_ROUTES: Readonly<Record<string, string>> = {
  "post /acquire": "acquire and withLease, which make a lease of the answer",
  "post /try": "tryAcquire",
  "get /leases": "`lease list`",
  "get /leases/{id}": "the lease itself, and `lease show`",
  "post /leases/{id}/settle": "the lease itself, and `lease settle`",
  "post /leases/{id}/adjust": "the lease itself",
  "post /leases/{id}/consume": "the lease itself",
  "post /leases/{id}/release": "the lease itself",
  "post /leases/{id}/extend": "the lease itself",
  "post /leases/{id}/rollback": "the lease itself, and `lease rollback`",
  "post /manifest/plan": "planManifest of zae-limiter/manifest, given a client, and `limits plan`",
  "post /manifest/apply": "applyManifest, and `limits apply`",
  "get /manifest/drift": "driftOf, and `limits diff`",
  "get /manifest/export": "exportManifest, and `limits export`",
  "get /events": "`events follow` and the dashboard",
  "get ": "the dashboard",
  "get /limits/levels": "the dashboard",
  "get /limits/defaults": "the dashboard",
  "get /limits/resets": "the dashboard",
  "get /v1/me": "`doctor` and the dashboard",
  "get /openapi.json": "`version` and `doctor`",
  "get /healthz": "probes",
  "get /readyz": "isAvailable, and probes",
  "get /metrics": "Prometheus",
};

test("every operation of the client is a route of the service, and every other route is asked by somebody else", () => {
  const known = routes.map(({ method, path }) => `${method} ${path.replace("/v1/namespaces/{namespace}", "")}`);
  const asked = Object.values(OPERATIONS).map(([http]) => {
    const [method = "", path = ""] = http.split(/[ ?]/);
    const shown = path.replace("/v1/namespaces/{namespace}", "").replace(/\{\w+\}/, "{id}");
    return `${method.toLowerCase()} ${shown === "" || shown.startsWith("/") ? shown : `/${shown}`}`;
  });
  assert.deepEqual([...new Set([...asked, ...Object.keys(OTHER_ROUTES)])].sort(), known.sort());
});

test("what was used and refused is answered as the library answers it", async (t) => {
  const { url, limiter } = await serviceOf(t);
  await using client = new LimiterClient({ url });
  const on = { entityId: "key-1", resource: "gpt-4" };
  await limiter.acquire({ ...on, consume: { rpm: 90, tpm: 10 } });
  for (let i = 0; i < 3; i++) await limiter.tryAcquire({ ...on, consume: { rpm: 50 } });
  const window = "hourly" as const;
  for (const by of ["entity", "resource"] as const) {
    const theirs = await limiter.usageTotals({ window, by });
    assert.equal(theirs.length, 1);
    assert.deepEqual(await client.usageTotals({ window, by }), theirs);
  }
  for (const format of ["csv", "ndjson", "json"] as const) {
    const theirs = await textOf(limiter.exportUsage({ window, format }));
    assert.match(theirs, /gpt-4/);
    assert.equal(await textOf(client.exportUsage({ window, format })), theirs);
  }
  assert.equal((await limiter.refusals({ window })).length, 1);
  for (const query of [{ window }, { window, limit: "rpm" }, { window, limit: 5 }, { window, limit: "tpm" }]) {
    assert.deepEqual([...(await client.refusals(query))], [...(await limiter.refusals(query))]);
  }
  const theirLog = await limiter.refusalLog();
  assert.equal(theirLog.length, 3);
  assert.deepEqual([...(await client.refusalLog())], [...theirLog]);
  const { atMs } = theirLog[1] as (typeof theirLog)[0];
  const one = { fromMs: atMs, toMs: atMs + 1, entityId: "key-1", limit: "rpm" };
  assert.deepEqual([...(await client.refusalLog(one))], [...(await limiter.refusalLog(one))]);
  const paged = [];
  for await (const each of client.refusalLog({ pageSize: 2 })) paged.push(each);
  assert.deepEqual(paged, [...theirLog]);
  await assert.rejects(async () => client.refusalLog({ pageSize: 1_001 }), { code: "page_invalid" });
  assert.deepEqual(await client.explain({ ...on, atMs }), await limiter.explain({ ...on, atMs }));
  assert.equal((await client.explain({ ...on, atMs })).refusals?.length, 3);
  await assert.rejects(client.explain({ ...on, atMs, consume: { rpm: 1 } } as never), { code: "option_invalid" });
  const total = { by: "limit" as const };
  assert.deepEqual(await client.refusalTotals(total), await limiter.refusalTotals(total));
  assert.deepEqual(await client.resourceCapacity("gpt-4", "rpm"), await limiter.resourceCapacity("gpt-4", "rpm"));
  await assert.rejects(client.resourceCapacity("a b", "rpm"), { code: "resource_invalid" });
});

test("a namespace is registered, found, deleted, recovered and purged over HTTP", async (t) => {
  const { url, limiter } = await serviceOf(t);
  await using client = new LimiterClient({ url });
  const made = await client.registerNamespace("tenant-a");
  assert.deepEqual(await client.registerNamespace("tenant-a"), made);
  assert.deepEqual(await client.getNamespace("tenant-a"), await limiter.getNamespace("tenant-a"));
  assert.deepEqual([...(await client.listNamespaces())], [...(await limiter.listNamespaces())]);
  await new LimiterClient({ url, namespace: "tenant-a" }).createEntity({ id: "ada" });
  assert.equal((await client.deleteNamespace("tenant-a")).status, "deleted");
  await assert.rejects(client.getNamespace("tenant-a"), { code: "namespace_not_found" });
  assert.deepEqual(
    (await client.listOrphanNamespaces()).map(({ id }) => id),
    [made.id],
  );
  assert.equal((await client.recoverNamespace(made.id)).status, "active");
  await client.deleteNamespace("tenant-a");
  const told: number[] = [];
  const { records } = await client.purgeNamespace(made.id, { onProgress: (so) => told.push(so) });
  assert.deepEqual([records > 0, told.at(-1)], [true, records]);
  assert.deepEqual([...(await client.listOrphanNamespaces())], []);
  await assert.rejects(client.purgeNamespace(made.id), { code: "namespace_not_found" });
  await assert.rejects(client.deleteNamespace("tenant-a", { principal: "me" }), { code: "option_unknown" });
});

async function textOf(pieces: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const piece of pieces) text += piece;
  return text;
}

function methodsOf(prototype: object): string[] {
  const names = new Set<string>();
  for (let own = prototype; own !== Object.prototype; own = Object.getPrototypeOf(own)) {
    for (const name of Reflect.ownKeys(own)) names.add(String(name));
  }
  return [...names].sort();
}
