import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { LimiterClient } from "../../src/entry/client.ts";
import {
  ConflictError,
  ExistsError,
  LeaseClosed,
  LimiterError,
  NotFoundError,
  RateLimitExceeded,
  ResourceDisabled,
  ValidationError,
} from "../../src/entry/errors.ts";
import { type Acquiring, Limit, rateLimitHeaders } from "../../src/entry/index.ts";
import { serviceOf, tokenOf } from "../server/service-kit.ts";

const on = { entityId: "key-1", resource: "gpt-4" };

test("a client fits wherever a limiter is taken in place of one", async (t) => {
  const { url } = await serviceOf(t);
  const acquiring: Acquiring = new LimiterClient({ url });
  const lease = await acquiring.acquire({ ...on, consume: { rpm: 1 } });
  assert.deepEqual([lease.status, lease.consumed], ["open", { rpm: 1 }]);
  await lease.settle();
  assert.deepEqual((await acquiring.resolveLimits("key-1", "gpt-4")).source, "resource");
});

test("errors are those of the library: class, code, and what they carry", async (t) => {
  const { url, limiter } = await serviceOf(t);
  const client = new LimiterClient({ url });
  await client.createEntity({ id: "key-1" });
  const is = (type: new (...given: never[]) => Error, code: string) => (e: unknown) =>
    e instanceof type && (e as LimiterError).code === code;
  await assert.rejects(client.createEntity({ id: "key-1" }), is(ExistsError, "entity_exists"));
  await assert.rejects(client.getEntity("nobody"), is(NotFoundError, "entity_not_found"));
  await assert.rejects(client.createEntity({ id: "a b" }), is(ValidationError, "entity_id_invalid"));
  await assert.rejects(
    client.updateEntity("key-1", { name: "x" }, { version: 9 }),
    is(ConflictError, "entity_changed"),
  );
  await assert.rejects(
    client.acquire({ ...on, consume: { tpm: 99_000 } }),
    (e) => is(ValidationError, "amount_above_capacity")(e) && (e as LimiterError).httpStatus === 413,
  );
  await client.acquire({ ...on, consume: { rpm: 100 }, holdMs: 0 });
  await assert.rejects(client.acquire({ ...on, consume: { rpm: 1 } }), (e) => {
    return e instanceof RateLimitExceeded && e.primary.limit === "rpm" && e.retryAfterMs === 600;
  });
  const refused = await client.tryAcquire({ ...on, consume: { rpm: 1 } });
  assert.deepEqual([refused.ok, !refused.ok && refused.primary.limit], [false, "rpm"]);
  await limiter.setAccess(on, "disabled");
  await assert.rejects(client.acquire({ ...on, consume: { rpm: 1 } }), (e) => {
    return e instanceof ResourceDisabled && e.entityId === "key-1" && e.resource === "gpt-4";
  });
  await limiter.setAccess(on, "inherit");
  const lease = await client.acquire({ ...on, consume: { tpm: 1 } });
  await lease.rollback();
  await lease.rollback();
  await assert.rejects(lease.adjust({ tpm: 1 }), (e) => e instanceof LeaseClosed && e.leaseStatus === "rolledBack");
});

test("what only the service says is an error with its code and status", async (t) => {
  const reader = tokenOf("reader", { scopes: ["read"] });
  const { url } = await serviceOf(t, { tokens: [reader.entry] });
  await assert.rejects(new LimiterClient({ url }).getEntity("a"), (e) => {
    return e instanceof LimiterError && e.code === "token_missing" && e.httpStatus === 401;
  });
  const client = new LimiterClient({ url, token: reader.token });
  await assert.rejects(client.acquire({ ...on, consume: { rpm: 1 } }), (e) => {
    return e instanceof LimiterError && e.code === "insufficient_scope" && e.httpStatus === 403;
  });
  const elsewhere = new LimiterClient({ url: url.replace("127.0.0.1", "127.0.0.2"), timeoutMs: 500 });
  await assert.rejects(elsewhere.getEntity("a"), LimiterError);
  const other = createServer((_, response) => response.writeHead(418).end("<html>"));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  t.after(() => other.close());
  const stranger = new LimiterClient({ url: `http://127.0.0.1:${(other.address() as AddressInfo).port}` });
  await assert.rejects(stranger.getEntity("a"), { code: "service_unknown" });
  assert.equal(await stranger.isAvailable(), false);
  assert.equal(await client.isAvailable(), true);
});

test("wrong options are refused when the client is made", () => {
  const url = "https://limits.internal";
  for (const [options, code] of [
    [{ url: "limits.internal" }, "url_invalid"],
    [{ url: "ftp://limits.internal" }, "url_invalid"],
    [{ url: "https://limits.internal?x=1" }, "url_invalid"],
    [{ url: "https://user:pass@limits.internal" }, "url_invalid"],
    [{}, "url_invalid"],
    [{ url, timeoutMs: 0 }, "option_invalid"],
    [{ url, namespace: "a b" }, "namespace_invalid"],
    [{ url, namespace: ".." }, "namespace_invalid"],
    [{ url, tokn: "x" }, "option_unknown"],
    [{ url, token: "" }, "token_invalid"],
    [{ url, onUnavailable: "perhaps" }, "option_invalid"],
    [{ url, holdMs: 10 }, "hold_invalid"],
    [{ url, onExpiry: "keep" }, "on_expiry_invalid"],
    [undefined, "options_invalid"],
  ] as const) {
    assert.throws(
      () => new LimiterClient(options as never),
      (e) => e instanceof ValidationError && e.code === code && !e.message.includes("pass@"),
      JSON.stringify(options),
    );
  }
  for (const wrong of ["ftp://limits.internal", "localhost:4780", undefined]) {
    const message = new RegExp(`^The url is ${JSON.stringify(wrong)}; give an http or https URL`);
    assert.throws(() => new LimiterClient({ url: wrong as string }), { code: "url_invalid", message });
  }
});

test("what JSON would swallow is refused before anything is sent", async (t) => {
  let requests = 0;
  const server = createServer((_, response) => {
    requests++;
    response.writeHead(200).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const client = new LimiterClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  const wrong: readonly (readonly [string, () => Promise<unknown>])[] = [
    ["amount_invalid", () => client.acquire({ ...on, consume: { tpm: undefined as never } })],
    ["amount_invalid", () => client.acquire({ ...on, consume: { tpm: Number.NaN } })],
    ["amount_invalid", () => client.acquire({ ...on, consume: { tpm: 1n as never } })],
    ["amounts_invalid", () => client.acquire({ ...on, consume: null as never })],
    ["amount_invalid", () => client.acquire({ ...on, also: { gpu: { slots: undefined as never } } })],
    ["amounts_invalid", () => client.acquire({ ...on, also: { gpu: undefined as never } })],
    ["also_invalid", () => client.acquire({ ...on, also: 7 as never })],
    ["amount_invalid", () => client.topUp({ ...on, amounts: { tpm: undefined as never } })],
    ["amount_invalid", () => client.acquire({ ...on, also: [{ ...on, consume: { tpm: undefined as never } }] })],
    ["amounts_invalid", () => client.topUp(on as never)],
    ["amount_invalid", () => client.charge({ ...on, amounts: { tpm: undefined as never } })],
    ["amount_invalid", () => client.giveBack({ ...on, amounts: {}, also: { gpu: { tpm: undefined as never } } })],
    ["amount_invalid", () => client.explain({ ...on, consume: { tpm: undefined as never } })],
    ["option_unknown", () => client.available({ ...on, limits: [] })],
    ["option_unknown", () => client.acquire({ ...on, principal: "me" } as never)],
    ["option_unknown", () => client.createEntity({ id: "a" }, { principal: "me" })],
    ["option_unknown", () => client.deleteEntity("a", { principal: "me" })],
    ["option_unknown", () => client.deleteLimits("a", { version: 1 } as never)],
    ["option_unknown", () => client.setLimits("a", [], { principal: "me" })],
    ["option_unknown", () => client.setAccess(on, "bypass", { principal: "me" })],
    ["option_unknown", () => client.resetBucket({ ...on, principal: "me" })],
    ["metadata_invalid", () => client.createEntity({ id: "a", metadata: { x: undefined as never } })],
    ["metadata_invalid", () => client.updateEntity("a", null as never)],
    ["request_invalid", () => client.acquire({ ...on, limits: [{ capacity: Number.POSITIVE_INFINITY } as never] })],
    ["request_invalid", () => client.acquire({ ...on, signal: {} as never })],
    ["request_invalid", () => client.acquire(undefined as never)],
    ["wait_invalid", () => client.acquire({ ...on, wait: { maxMs: Number.POSITIVE_INFINITY } })],
    ["hold_invalid", () => client.acquire({ ...on, holdMs: 999 })],
    ["entity_id_invalid", () => client.acquire({ resource: "gpt-4" } as never)],
    ["body_missing", () => client.withLease(on, undefined as never)],
    ["page_invalid", async () => client.listEntities({ limit: 0 })],
    // A name that was forgotten, or `..`, would be another address: of all entities, of the system, of the namespace itself.
    ["entity_id_invalid", () => client.deleteEntity("..")],
    ["entity_id_invalid", () => client.deleteEntity("")],
    ["entity_id_invalid", () => client.deleteLimits(undefined as never)],
    ["plan_id_invalid", () => client.deletePlanLimits(undefined as never)],
    ["resource_invalid", () => client.deleteResourceDefaults(undefined as never)],
    ["resource_invalid", () => client.setLimits("a", [], { resource: "" })],
  ];
  for (const [code, call] of wrong) {
    await assert.rejects(call, (e) => e instanceof ValidationError && e.code === code, `${code}: ${call}`);
  }
  assert.equal(requests, 0);
});

test("levels are set, read and deleted; where there is nothing, nothing is answered", async (t) => {
  const { url } = await serviceOf(t);
  const client = new LimiterClient({ url });
  const limits = [Limit.perMinute("rpm", 5)];
  await client.createPlan({ id: "pro" });
  const levels = [
    ["Limits", ["key-1", { resource: "gpt-4" }]],
    ["Limits", ["key-1", {}]],
    ["PlanLimits", ["pro", { resource: "gpt-4" }]],
    ["PlanLimits", ["pro"]],
    ["ResourceDefaults", ["other"]],
    ["Totals", ["key-1"]],
    ["PlanTotals", ["pro"]],
    ["SystemTotals", []],
  ] as const;
  // biome-ignore lint/suspicious/noExplicitAny: methods by their names.
  const any = client as any;
  for (const [level, [owner, ...options]] of levels) {
    const first = owner === undefined ? [] : [owner];
    assert.deepEqual(await any[`get${level}`](...first, ...options), [], level);
    assert.equal(await any[`set${level}`](...first, limits, ...options), true, level);
    assert.equal(await any[`set${level}`](...first, limits, ...options), false, level);
    assert.deepEqual(await any[`get${level}`](...first, ...options), limits, level);
    assert.equal(await any[`delete${level}`](...first, ...options), true, level);
    assert.equal(await any[`delete${level}`](...first, ...options), false, level);
  }
  assert.deepEqual(await client.getSystemDefaults(), { limits: [] });
  assert.equal(await client.setSystemDefaults(limits, { onUnavailable: "allow" }), true);
  assert.deepEqual(await client.getSystemDefaults(), { limits, onUnavailable: "allow" });
  assert.equal(await client.deleteSystemDefaults(), true);
  assert.equal(await client.setAccess({ resource: "other" }, "bypass"), true);
  assert.equal(await client.setAccess({ resource: "other" }, "bypass"), false);
  assert.equal(await client.setCascade(on, false), true);
  assert.equal(await client.setCascade(on, false), false);
  assert.deepEqual(await client.getPolicy({ resource: "other" }), { access: "bypass" });
  assert.deepEqual(await client.getPolicy(on), { cascade: false });
  assert.deepEqual(await client.getPolicy({ entityId: "nobody" }), {});
});

test("a list is a page when it is awaited, and everything when it is walked through", async (t) => {
  const { url, limiter } = await serviceOf(t);
  const client = new LimiterClient({ url });
  for (let i = 0; i < 25; i++) await limiter.createEntity({ id: `e-${i}` });
  const page = await client.listEntities({ limit: 10 });
  assert.deepEqual([page.length, typeof page.cursor], [10, "string"]);
  const next = await client.listEntities({ limit: 1_500, cursor: page.cursor as string });
  assert.deepEqual([next.length, next.cursor], [15, undefined]);
  const all: string[] = [];
  const asked = t.mock.method(globalThis, "fetch");
  for await (const { id } of client.listEntities({ limit: 10 })) all.push(id);
  // Pages of 10, as the library reads them.
  assert.deepEqual([new Set(all).size, asked.mock.callCount()], [25, 3]);
  const { events } = await client.auditEvents({ entityId: "e-1" });
  assert.deepEqual(
    events.map(({ action }) => action),
    ["entity_created"],
  );
});

test("a page of more items than the service answers at a time is put together of several answers", async (t) => {
  const { url, limiter } = await serviceOf(t);
  for (let i = 0; i < 1_100; i++) await limiter.setResourceDefaults(`r-${i}`, [Limit.perMinute("rpm", 1)]);
  const client = new LimiterClient({ url, timeoutMs: 60_000 });
  const page = await client.listResources({ limit: 1_050 });
  assert.deepEqual([page.length, typeof page.cursor, new Set(page).size], [1_050, "string", 1_050]);
});

test("the header fields that came with a take are those that a middleware passes on", async (t) => {
  const { url } = await serviceOf(t, { unit: { tpm: "tokens" } } as never);
  const client = new LimiterClient({ url });
  const lease = await client.acquire({ ...on, consume: { rpm: 99 } });
  assert.deepEqual(rateLimitHeaders(lease), {
    "ratelimit-policy": '"rpm";q=100;w=60, "tpm";q=20000;w=120',
    ratelimit: '"rpm";r=1;t=60, "tpm";r=20000',
  });
  const refused = await client.tryAcquire({ ...on, consume: { rpm: 2 } });
  assert.ok(!refused.ok);
  const error = await client.acquire({ ...on, consume: { rpm: 2 } }).catch((e) => e);
  for (const told of [refused, error]) {
    assert.equal(rateLimitHeaders(told).ratelimit, '"rpm";r=1;t=1, "tpm";r=20000');
    assert.equal(rateLimitHeaders(told)["retry-after"], "1");
  }
});

test("Infinity is Infinity again", async (t) => {
  const { url } = await serviceOf(t);
  const client = new LimiterClient({ url });
  const never = await client.explain({ ...on, consume: { tpm: 99_000 } });
  assert.deepEqual([never.outcome, never.retryAfterMs], ["never", Number.POSITIVE_INFINITY]);
  assert.equal(await client.timeUntilAvailable({ ...on, consume: { tpm: 99_000 } }), Number.POSITIVE_INFINITY);
});

test("a closed client refuses what is new, and lets open leases end", async (t) => {
  const { url, limiter } = await serviceOf(t);
  const client = new LimiterClient({ url });
  const lease = await client.acquire({ ...on, consume: { rpm: 5 } });
  await client.close();
  await assert.rejects(client.acquire({ ...on, consume: { rpm: 5 } }), { code: "closed" });
  await assert.rejects(client.getEntity("a"), { code: "closed" });
  assert.equal(await client.isAvailable(), false);
  await lease.rollback();
  assert.equal((await limiter.available(on))[0]?.available, 100);
});

test("the client is fetch alone: bundled for a browser it has no node: module, and stays small", async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL("../../src/entry/client.ts", import.meta.url))],
    ...{ bundle: true, write: false, minify: true, platform: "browser", format: "esm", metafile: true },
  });
  const [output] = Object.values(metafile.outputs);
  const inputs = Object.entries(output?.inputs ?? {}).flatMap(([file, { bytesInOutput }]) =>
    bytesInOutput ? [file] : [],
  );
  const foreign = inputs.filter(
    (each) => !/src\/(client|domain)\/|entry\/client|system\/clock|engine\/lease\/(track|work-end)/.test(each),
  );
  assert.deepEqual(foreign, []);
  const bytes = outputFiles?.[0]?.contents.length ?? 0;
  // A quarter of it are errors with their sentences. 22.7 kB before streams that a lease tracks (3 kB), floors, and holds that are renewed,
  // kept and lost (0.5 kB); 26.6 kB before names were checked and encoded as the library has them, and before holds ended with their slots
  // (0.4 kB), and before a stream that was given up was paid for (0.2 kB); 27.9 kB before refusals named limits from the level that has them;
  // 28.2 kB before it had every method of the library (1.7 kB), and before words for durations stood in one file (0.2 kB).
  // 30.2 kB before single refusals, and explanations of another time (0.5 kB); 30.9 kB before limits
  // and access had an end (0.3 kB).
  // 31.2 kB before namespaces were frozen: the sentence of the error, its reason, and who may be told it (0.7 kB).
  // 31.9 kB before requests for several entities, and before charges and give-backs without a lease (0.7 kB).
  assert.ok(bytes <= 32_600, `${bytes} bytes`);
});
