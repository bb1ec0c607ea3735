import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { LimiterClient } from "../../src/client/client.ts";
import {
  ConflictError,
  ExistsError,
  LeaseClosed,
  NotFoundError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
} from "../../src/domain/errors.ts";
import { Limit } from "../../src/entry/index.ts";
import { serviceOf } from "./service-kit.ts";

const on = { entityId: "key-1", resource: "gpt-4" };

/** A service behind something that loses answers: the request is done, and nobody hears of it. */
async function behindLoss(t: TestContext, url: string, isLost: (path: string, method: string) => boolean) {
  const seen: { readonly path: string; readonly key: string | undefined }[] = [];
  const proxy = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "GET", url: path = "/", headers } = request;
    const key = headers["idempotency-key"];
    seen.push({ path, key: Array.isArray(key) ? key[0] : key });
    const answer = await fetch(new URL(path, url), {
      method,
      headers: {
        ...(headers["content-type"] === undefined ? {} : { "content-type": headers["content-type"] }),
        ...(key === undefined ? {} : { "idempotency-key": String(key) }),
      },
      ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
    });
    const body = Buffer.from(await answer.arrayBuffer());
    if (isLost(path, method)) return void request.socket.destroy();
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(body);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, seen };
}

test("what charges is sent again after a lost answer with the same key, and charged once", async (t) => {
  const { url, limiter } = await serviceOf(t);
  let losses = 0;
  const lossy = await behindLoss(
    t,
    url,
    (path, method) => method === "POST" && !path.endsWith("/entities") && losses-- > 0,
  );
  const client = new LimiterClient({ url: lossy.url, timeoutMs: 10_000 });
  losses = 2;
  const taken = await client.leases.take({ ...on, consume: { tpm: 400 }, holdMs: 60_000 }, undefined);
  assert.ok(taken.ok);
  assert.equal(lossy.seen.length, 3);
  assert.equal(new Set(lossy.seen.map(({ key }) => key)).size, 1);
  const left = async () => (await limiter.available(on)).find(({ limit }) => limit === "tpm")?.available;
  assert.equal(await left(), 19_600);
  losses = 1;
  await client.leases.settle(taken.lease.leaseId ?? "", { consumed: { tpm: 100 } });
  assert.equal(await left(), 19_900);
  losses = 1;
  const { amounts, repeated } = await client.topUp({ ...on, amounts: { tpm: 50 } });
  assert.deepEqual([amounts, repeated, await left()], [{ tpm: 50 }, false, 19_950]);
  losses = 3;
  await assert.rejects(
    client.leases.take({ ...on, consume: { tpm: 1 }, holdMs: 0 }, undefined),
    RateLimiterUnavailable,
  );
});

test("what cannot be sent twice is told as an outage, and not repeated", async (t) => {
  const { url } = await serviceOf(t);
  let losses = 0;
  const lossy = await behindLoss(t, url, (_, method) => method !== "GET" && losses-- > 0);
  const client = new LimiterClient({ url: lossy.url, timeoutMs: 10_000 });
  losses = 1;
  await assert.rejects(client.createEntity({ id: "made" }), RateLimiterUnavailable);
  assert.equal(lossy.seen.length, 1);
  assert.equal((await client.getEntity("made")).id, "made", "it was done");
});

test("errors are those of the library: class, code, and what they carry", async (t) => {
  const { url, limiter } = await serviceOf(t);
  const client = new LimiterClient({ url });
  await client.createEntity({ id: "key-1" });
  await assert.rejects(
    client.createEntity({ id: "key-1" }),
    (e) => e instanceof ExistsError && e.code === "entity_exists",
  );
  await assert.rejects(client.getEntity("nobody"), (e) => e instanceof NotFoundError && e.code === "entity_not_found");
  await assert.rejects(client.createEntity({ id: "a b" }), ValidationError);
  await assert.rejects(client.updateEntity("key-1", { name: "x" }, { version: 9 }), ConflictError);
  await assert.rejects(client.createEntity({ id: "b" }, { principal: "me" }), { code: "option_unknown" });
  await assert.rejects(async () => client.topUp({ ...on, amounts: { tpm: undefined as never } }), {
    code: "amount_invalid",
  });
  const never = await client.explain({ ...on, consume: { tpm: 99_000 } });
  assert.deepEqual([never.outcome, never.retryAfterMs], ["never", Number.POSITIVE_INFINITY]);
  const refused = await client.leases.take({ ...on, consume: { rpm: 100 }, holdMs: 0 }, undefined);
  assert.ok(refused.ok);
  const short = await client.leases.take({ ...on, consume: { rpm: 1 }, holdMs: 0 }, undefined);
  assert.ok(!short.ok && short.primary.limit === "rpm" && short.retryAfterMs > 0);
  await limiter.setAccess(on, "disabled");
  await assert.rejects(client.leases.take({ ...on, consume: { rpm: 1 }, holdMs: 0 }, undefined), (e) => {
    return e instanceof ResourceDisabled && e.entityId === "key-1" && e.resource === "gpt-4";
  });
  await limiter.setAccess(on, "inherit");
  const lease = await client.leases.take({ ...on, consume: { tpm: 1 } }, undefined);
  const id = (lease.ok && lease.lease.leaseId) || "";
  await client.leases.rollback(id);
  await assert.rejects(client.leases.settle(id, {}), (e) => e instanceof LeaseClosed && e.leaseStatus === "rolledBack");
  const exceeded = await import("../../src/client/problem.ts");
  const status = {
    ...on,
    limit: "rpm",
    counts: "rpm",
    available: 0,
    capacity: 1,
    requested: 2,
    exceeded: true,
  } as never;
  assert.ok(
    exceeded.errorOf(429, { code: "rate_limit_exceeded", statuses: [status], retryAfterMs: 5 }) instanceof
      RateLimitExceeded,
  );
});

test("levels are read, set and deleted by their scope; 404 of an empty one is no error", async (t) => {
  const { url } = await serviceOf(t);
  const client = new LimiterClient({ url });
  const scope = { level: "entity", ...on } as const;
  assert.deepEqual(await client.getLevel(scope), { limits: [] });
  const limits = [Limit.perMinute("rpm", 5)];
  assert.equal((await client.setLevel(scope, limits, {})).changed, true);
  assert.equal((await client.setLevel(scope, limits, {})).changed, false);
  assert.deepEqual(await client.getLimits("key-1", { resource: "gpt-4" }), limits);
  assert.deepEqual([...(await client.listEntitiesWithLimits("gpt-4"))], ["key-1"]);
  assert.deepEqual([...(await client.listResourcesWithEntityLimits())], ["gpt-4"]);
  assert.equal(await client.deleteLevel(scope), true);
  assert.equal(await client.deleteLevel(scope), false);
  for (let i = 0; i < 25; i++) await client.createEntity({ id: `e-${i}` });
  const page = await client.listEntities({ limit: 10 });
  assert.deepEqual([page.length, typeof page.cursor], [10, "string"]);
  const all: string[] = [];
  for await (const { id } of client.listEntities({ limit: 10 })) all.push(id);
  assert.equal(all.length, 25);
});

test("wrong options are refused when it is made; what answers there may be something else", async (t) => {
  for (const options of [
    { url: "limits.internal" },
    { url: "ftp://limits.internal" },
    { url: "https://limits.internal?x=1" },
    { url: "https://limits.internal", timeoutMs: 0 },
    { url: "https://limits.internal", namespace: "a b" },
    { url: "https://limits.internal", tokn: "x" } as never,
  ]) {
    assert.throws(() => new LimiterClient(options), ValidationError);
  }
  const other = createServer((_, response) => response.writeHead(418).end("<html>"));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  t.after(() => other.close());
  const client = new LimiterClient({ url: `http://127.0.0.1:${(other.address() as AddressInfo).port}` });
  await assert.rejects(client.getEntity("a"), { code: "service_unknown" });
});

test("the client is fetch alone: bundled for a browser it has no node: module, and stays small", async () => {
  const entry = fileURLToPath(new URL("../../src/client/client.ts", import.meta.url));
  const { outputFiles, metafile } = await build({
    ...{
      entryPoints: [entry],
      bundle: true,
      write: false,
      minify: true,
      platform: "browser",
      format: "esm",
      metafile: true,
    },
  });
  const inputs = Object.keys(metafile.inputs);
  assert.ok(
    inputs.every((each) => /src\/(client|domain)\//.test(each)),
    inputs.join(" "),
  );
  // A ratchet: most of it is errors, names and their sentences.
  assert.ok((outputFiles[0]?.contents.length ?? 0) < 25_500, `${outputFiles[0]?.contents.length} bytes`);
});
