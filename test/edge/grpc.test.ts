import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { clientOf, tokenOf } from "../server/service-kit.ts";
import { edgeOf, framed, HEALTH, SHOULD } from "./grpc-kit.ts";
import { EDGE_FILE } from "./kit.ts";
import { decoded, encoded } from "./protos.ts";

const OK = 1;
const OVER = 2;
const AS_OF_ACME = { tenant: "acme", model: "gpt-5" };

test("a call takes what its rule says and answers with the limit that is nearest to its end", async (t) => {
  const { client, left } = await edgeOf(t);
  const answer = await client.limit({ descriptors: [{ of: { remote_address: "10.0.0.1" } }], hits: 2 });
  assert.deepEqual([answer.code, answer.overall, answer.codes], [0, OK, [OK]]);
  const [status] = answer.response.statuses;
  assert.deepEqual(
    [status.currentLimit.name, status.currentLimit.requestsPerUnit, status.currentLimit.unit, status.limitRemaining],
    ["rps", 5, 1, 3],
  );
  assert.equal(Number(status.durationUntilReset.seconds) * 1000 + status.durationUntilReset.nanos / 1e6, 400);
  assert.deepEqual(answer.headers, { "ratelimit-policy": '"rps";q=5;w=1', ratelimit: '"rps";r=3;t=1' });
  assert.deepEqual(answer.metadata, { limit: "rps", remaining: 3 });
  assert.deepEqual(await left("ip-10.0.0.1", "http"), { rps: 3 });
});

test("a refused call takes nothing, and says for how long, with the problem as its body", async (t) => {
  const { client, left } = await edgeOf(t);
  await client.limit({ descriptors: [{ of: { remote_address: "a" } }], hits: 4 });
  const refused = await client.limit({ descriptors: [{ of: { remote_address: "a" } }], hits: 3 });
  assert.deepEqual([refused.code, refused.overall, refused.codes], [0, OVER, [OVER]]);
  assert.deepEqual(refused.metadata, { limit: "rps", remaining: 1, code: "rate_limit_exceeded", retryAfterMs: 400 });
  assert.equal(refused.headers["retry-after"], "1");
  assert.equal(refused.headers["content-type"], "application/problem+json");
  const problem = JSON.parse(Buffer.from(refused.response.rawBody).toString());
  assert.deepEqual([problem.status, problem.code, problem["violated-policies"]], [429, "rate_limit_exceeded", ["rps"]]);
  assert.deepEqual(await left("ip-a", "http"), { rps: 1 });
});

test("all descriptors of a call are one request: of two one is short, and nothing is taken of the other", async (t) => {
  const { client, left } = await edgeOf(t);
  await client.limit({ descriptors: [{ of: { remote_address: "a" } }], hits: 5 });
  const both = [{ of: { ...AS_OF_ACME } }, { of: { remote_address: "a" } }];
  const refused = await client.limit({ descriptors: both });
  assert.deepEqual([refused.overall, refused.codes], [OVER, [OK, OVER]]);
  assert.deepEqual(await left("acme", "gpt-5"), { rpm: 10, tpm: 100 });
  const granted = await client.limit({ descriptors: [{ of: AS_OF_ACME, hits: 30 }, { of: { remote_address: "b" } }] });
  assert.deepEqual([granted.overall, granted.codes], [OK, [OK, OK]]);
  assert.deepEqual(await left("acme", "gpt-5"), { rpm: 9, tpm: 70 });
  assert.deepEqual(await left("ip-b", "http"), { rps: 4 });
});

test("hits of 0 look: over the limit where less than one token is left, and nothing is taken", async (t) => {
  const { client, left } = await edgeOf(t);
  const look = { of: { remote_address: "a" }, hits: 0 };
  assert.equal((await client.limit({ descriptors: [look] })).overall, OK);
  await client.limit({ descriptors: [{ of: { remote_address: "a" }, hits: 5 }] });
  const over = await client.limit({ descriptors: [look, { of: AS_OF_ACME }] });
  assert.deepEqual([over.overall, over.codes], [OVER, [OVER, OK]]);
  assert.equal(over.metadata.retryAfterMs, 200);
  assert.deepEqual(await left("acme", "gpt-5"), { rpm: 10, tpm: 100 });
});

test("a rule with hold answers with a lease, and zael_lease settles it, as often as it is sent", async (t) => {
  const { client, left, clock } = await edgeOf(t);
  const held = await client.limit({ descriptors: [{ of: AS_OF_ACME, hits: 40 }] });
  const lease = String(held.metadata.lease);
  assert.match(lease, /^l_/);
  assert.deepEqual(
    held.response.requestHeadersToAdd.map(({ key, value }: { key: string; value: string }) => [key, value]),
    [["zael-lease", lease]],
  );
  const settle = (hits: number, id = lease) =>
    client.limit({ descriptors: [{ of: { ...AS_OF_ACME, zael_lease: id }, hits }] });
  for (let i = 0; i < 2; i++) assert.equal((await settle(55)).overall, OK);
  assert.deepEqual(await left("acme", "gpt-5"), { rpm: 9, tpm: 45 });
  assert.equal((await settle(56)).code, 9);
  assert.equal((await settle(1, "l_unknown")).code, 5);
  const other = { ...AS_OF_ACME, tenant: "other", zael_lease: lease };
  assert.equal((await client.limit({ descriptors: [{ of: other, hits: 0 }] })).code, 9);
  assert.equal((await settle(1, "\u0000")).code, 5);
  assert.deepEqual(await left("acme", "gpt-5"), { rpm: 9, tpm: 45 });
  const late = await client.limit({ descriptors: [{ of: AS_OF_ACME, hits: 40 }] });
  clock.set(clock.now() + 60_001);
  assert.equal((await settle(1, String(late.metadata.lease))).code, 9);
});

test("mode charge debits in full, into debt, and is never refused", async (t) => {
  const { client, left } = await edgeOf(t);
  const done = { tenant: "acme", phase: "done" };
  for (let i = 0; i < 3; i++) {
    assert.equal((await client.limit({ descriptors: [{ of: done }], hits: 900 })).overall, OK);
  }
  assert.deepEqual(await left("acme", "tokens"), { tpd: -1700 });
});

test("negative hits give back at most what is missing, where the file and the token allow it", async (t) => {
  const refunding = tokenOf("envoy", { scopes: ["acquire", "refund"] });
  const plain = tokenOf("plain", { scopes: ["acquire"] });
  const tokens = [refunding.entry, plain.entry];
  const { client, left } = await edgeOf(t, { text: EDGE_FILE.replace("refunds: false", "refunds: true"), tokens });
  const as = ({ token }: { token: string }) => ({ authorization: `Bearer ${token}` });
  await client.limit({ descriptors: [{ of: { remote_address: "a" } }], hits: 3 }, as(refunding));
  const back = { of: { remote_address: "a" }, hits: 2, negative: true } as const;
  assert.equal((await client.limit({ descriptors: [back] }, as(plain))).code, 7);
  assert.equal((await client.limit({ descriptors: [back] }, as(refunding))).overall, OK);
  assert.deepEqual(await left("ip-a", "http"), { rps: 4 });
  await client.limit({ descriptors: [{ ...back, hits: 1_000 }] }, as(refunding));
  assert.deepEqual(await left("ip-a", "http"), { rps: 5 });
});

test("what a client can choose never becomes an error: any bytes lead to a decision, and strangers share nothing", async (t) => {
  const { client, left } = await edgeOf(t);
  const withValue = (value: Buffer) => {
    const entry = Buffer.concat([
      Buffer.from([0x0a, 14]),
      Buffer.from("remote_address"),
      Buffer.from([0x12, value.length]),
      value,
    ]);
    const descriptor = Buffer.concat([Buffer.from([0x0a, entry.length]), entry]);
    const request = [Buffer.from([0x0a, 5]), Buffer.from("envoy"), Buffer.from([0x12, descriptor.length]), descriptor];
    return client.call(SHOULD, Buffer.concat(request));
  };
  for (const byte of [0xff, 0xfe]) {
    for (let i = 0; i < 6; i++) {
      const { code, bytes } = await withValue(Buffer.from([byte]));
      assert.equal(code, 0);
      assert.equal(decoded("RateLimitResponse", bytes as Buffer).overallCode, i < 5 ? OK : OVER);
    }
  }
  const values = ["", "x".repeat(60_000), "\u0000", "🦊", "__proto__", "../..", "a b", "%41", "ip-1.2.3.4"];
  for (const value of values) {
    const { code, overall } = await client.limit({ descriptors: [{ of: { remote_address: value } }] });
    assert.deepEqual([code, overall], [0, OK], value.slice(0, 20));
  }
  for (const hits of [Number.MAX_SAFE_INTEGER, 9_000_000_000_000, 6]) {
    const { code, overall, metadata } = await client.limit({ descriptors: [{ of: { remote_address: "b" }, hits }] });
    assert.deepEqual([code, overall, metadata.code], [0, OVER, "amount_above_capacity"]);
  }
  for (let i = 0; i < 3; i++) {
    const charged = await client.limit({
      descriptors: [{ of: { tenant: "vast", phase: "done" }, hits: Number.MAX_SAFE_INTEGER }],
    });
    assert.equal(charged.overall, OK);
  }
  assert.equal((await left("vast", "tokens")).tpd, 1_000 - 9_000_000_000_000);
});

test("a measure that no level counts is left out, and a part without limits is not limited", async (t) => {
  const text = `domains:
  envoy:
    namespace: default
    rules:
      - { match: { a: "*" }, entity: "{a}", resource: gpt-5, consume: { tpm: hits, other: 7 } }
      - { match: { b: "*" }, entity: "{b}", resource: nothing }
      - { match: { c: "*" }, entity: "{c}", resource: tokens, consume: { other: hits } }
`;
  const { client, left } = await edgeOf(t, { text });
  const one = await client.limit({ descriptors: [{ of: { a: "x" } }], hits: 5 });
  assert.equal(one.overall, OK);
  assert.deepEqual(await left("x", "gpt-5"), { rpm: 9, tpm: 95 });
  for (const entries of [{ b: "x" }, { c: "x" }]) {
    const free = await client.limit({ descriptors: [{ of: entries }] });
    assert.deepEqual([free.overall, free.codes, free.response.statuses[0].currentLimit], [OK, [OK], undefined]);
  }
  const all = await client.limit({
    descriptors: [{ of: { b: "x" } }, { of: { a: "x" } }, { of: { c: "x" } }],
    hits: 5,
  });
  assert.deepEqual([all.overall, all.codes], [OK, [OK, OK, OK]]);
  assert.deepEqual(await left("x", "gpt-5"), { rpm: 8, tpm: 90 });
});

test("what is switched off, unknown or not matched is over the limit, with its code", async (t) => {
  const text = EDGE_FILE.replace("unmatched: allow", "unmatched: refuse");
  const { client, limiter } = await edgeOf(t, { text });
  const unmatched = await client.limit({ descriptors: [{ of: { other: "x" } }, { of: { remote_address: "a" } }] });
  assert.deepEqual(
    [unmatched.overall, unmatched.codes, unmatched.metadata.code],
    [OVER, [OVER, OK], "descriptor_unmatched"],
  );
  await limiter.setAccess({ resource: "http" }, "disabled");
  const off = await client.limit({ descriptors: [{ of: AS_OF_ACME }, { of: { remote_address: "a" } }] });
  assert.deepEqual([off.overall, off.codes, off.metadata.code], [OVER, [OK, OVER], "resource_disabled"]);
});

test("limits of parents show only where the domain says so, and refuse in any case", async (t) => {
  const own = await edgeOf(t);
  const all = await edgeOf(t, { text: EDGE_FILE.replace("levels: own", "levels: all") });
  for (const { limiter } of [own, all]) {
    await limiter.createEntity({ id: "holding-7" });
    await limiter.createEntity({ id: "acme", parentId: "holding-7", cascade: true });
    await limiter.setLimits("holding-7", [Limit.perMinute("tpm", 50)]);
  }
  const ask = { descriptors: [{ of: AS_OF_ACME, hits: 40 }] };
  const shown = await all.client.limit(ask);
  assert.equal(shown.response.statuses[0].limitRemaining, 10);
  assert.match(shown.headers.ratelimit ?? "", /"tpm\^1";r=10/);
  const hidden = await own.client.limit(ask);
  assert.equal(hidden.response.statuses[0].limitRemaining, 60);
  assert.doesNotMatch(hidden.headers.ratelimit ?? "", /\^1/);
  const refused = await own.client.limit(ask);
  assert.deepEqual([refused.overall, refused.response.statuses[0].currentLimit], [OVER, undefined]);
  assert.doesNotMatch(
    JSON.stringify(refused.response, (_, v) => (typeof v === "bigint" ? Number(v) : v)),
    /holding-7/,
  );
  assert.doesNotMatch(Buffer.from(refused.response.rawBody).toString(), /holding-7/);
});

test("wrong calls are errors: no domain, too many descriptors, no message, an unknown method, a compressed one", async (t) => {
  const { client } = await edgeOf(t);
  const of = { remote_address: "a" };
  const codes = async (...calls: Promise<{ code: number }>[]) => (await Promise.all(calls)).map(({ code }) => code);
  assert.deepEqual(
    await codes(
      client.limit({ domain: "", descriptors: [{ of }] }),
      client.limit({ descriptors: [] }),
      client.limit({ descriptors: Array(17).fill({ of }) }),
      client.limit({ descriptors: [{ of: { "": "x" } }] }),
      client.call(SHOULD, Buffer.from([0x0a, 0x7f])),
      client.raw(SHOULD, Buffer.alloc(0)),
      client.raw(SHOULD, Buffer.concat([framed(Buffer.alloc(0)), framed(Buffer.alloc(0))])),
    ),
    Array(7).fill(3),
  );
  assert.deepEqual(
    await codes(
      client.limit({ domain: "other", descriptors: [{ of }] }),
      client.raw(SHOULD, framed(Buffer.alloc(0), 1)),
      client.call("/envoy.service.ratelimit.v3.RateLimitService/Other", Buffer.alloc(0)),
      client.limit({ descriptors: [{ of }] }, { "grpc-timeout": "0m" }),
      client.call(SHOULD, Buffer.alloc(70_000)),
    ),
    [5, 12, 12, 4, 8],
  );
});

test("a namespace that is not there is NOT_FOUND, and one that the token has not is refused before that", async (t) => {
  const { token, entry } = tokenOf("envoy", { namespaces: ["default"], scopes: ["acquire"] });
  const reading = tokenOf("reader", { scopes: ["read"] });
  const text = `${EDGE_FILE}  gone: { rules: [{ match: { a: "*" }, entity: "{a}", resource: r }] }\n`;
  const open = await edgeOf(t, { text });
  assert.equal((await open.client.limit({ domain: "gone", descriptors: [{ of: { a: "x" } }] })).code, 5);
  const { client } = await edgeOf(t, { text, tokens: [entry, reading.entry] });
  const ask = { descriptors: [{ of: { remote_address: "a" } }] };
  const authorization = `Bearer ${token}`;
  assert.equal((await client.limit(ask)).code, 16);
  assert.equal((await client.limit(ask, { authorization: "Bearer zael_wrong" })).code, 16);
  assert.equal((await client.limit(ask, { authorization: `Bearer ${reading.token}` })).code, 7);
  assert.equal((await client.limit(ask, { authorization })).code, 0);
  assert.equal((await client.limit({ ...ask, domain: "gone" }, { authorization })).code, 7);
});

test("limits that descriptors bring are left out and counted, as are calls by method and code", async (t) => {
  const { client, url } = await edgeOf(t);
  await client.limit({ descriptors: [{ of: { remote_address: "a" }, limit: { requestsPerUnit: 9 } }] });
  await client.limit({ domain: "other", descriptors: [{ of: { remote_address: "a" } }] });
  await client.call("/any/thing", Buffer.alloc(0));
  const { body } = await clientOf(url)("GET", "/metrics");
  for (const line of [
    'zae_limiter_edge_ignored_total{field="limit"} 1',
    'zae_limiter_grpc_requests_total{method="ShouldRateLimit",code="OK"} 1',
    'zae_limiter_grpc_requests_total{method="ShouldRateLimit",code="NOT_FOUND"} 1',
    'zae_limiter_grpc_requests_total{method="other",code="UNIMPLEMENTED"} 1',
  ]) {
    assert.ok(body.includes(`${line}\n`), line);
  }
});

test("health is asked without a token, of all services or one", async (t) => {
  const { client } = await edgeOf(t, { tokens: [tokenOf("envoy").entry] });
  const check = async (service: string) => {
    const { code, bytes } = await client.call(`${HEALTH}Check`, encoded("HealthCheckRequest", { service }));
    return code === 0 ? decoded("HealthCheckResponse", bytes ?? Buffer.alloc(0)).status : `status ${code}`;
  };
  assert.equal(await check(""), 1);
  assert.equal(await check("envoy.service.ratelimit.v3.RateLimitService"), 1);
  assert.equal(await check("kuadrant.service.ratelimit.v1.RateLimitService"), 1);
  assert.equal(await check("other"), "status 5");
});

test("while the store is down a call is UNAVAILABLE, or let through with a word where the limiter says so", async (t) => {
  for (const onUnavailable of ["block", "allow"] as const) {
    const store = new FaultStore(openMemory(), {});
    const { client, left } = await edgeOf(t, { open: { store, onUnavailable } });
    for (const entries of [{ remote_address: "a" }, AS_OF_ACME]) {
      store.failNext("take", "refused");
      const { code, overall, metadata } = await client.limit({ descriptors: [{ of: entries }] });
      if (onUnavailable === "block") assert.equal(code, 14);
      else assert.deepEqual([code, overall, /unavailable/.test(String(metadata.degraded))], [0, OK, true]);
    }
    assert.deepEqual(await left("ip-a", "http"), { rps: 5 });
  }
});

test("an entity that was never created is over the limit where the service refuses such ones", async (t) => {
  const { client, limiter } = await edgeOf(t, { open: { unknownEntities: "refuse" } });
  await limiter.createEntity({ id: "acme" });
  const ask = (tenant: string) => client.limit({ descriptors: [{ of: { ...AS_OF_ACME, tenant } }] });
  assert.equal((await ask("acme")).overall, OK);
  const unknown = await ask("other");
  assert.deepEqual([unknown.code, unknown.overall, unknown.metadata.code], [0, OVER, "entity_not_found"]);
});
