import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { parseTokens } from "../../src/server/tokens.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { eventsOf, NS, problem, serviceOf, tokenOf } from "./service-kit.ts";

const take = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 }, holdMs: 0 };

test("scopes stand alone: each route wants its own, and names it", async (t) => {
  const tokens = (["acquire", "read", "admin"] as const).map((scope) => tokenOf(scope, { scopes: [scope] }));
  const { call } = await serviceOf(t, { tokens: tokens.map(({ entry }) => entry) });
  const [acquire, read, admin] = tokens.map(({ token }) => token);
  const matrix = [
    ["POST", `${NS}/acquire`, take, acquire],
    ["POST", `${NS}/try`, take, acquire],
    ["GET", `${NS}/leases/l_unknown`, undefined, acquire],
    ["GET", `${NS}/leases`, undefined, read],
    ["GET", `${NS}/available?entityId=a&resource=gpt-4`, undefined, read],
    ["POST", `${NS}/explain`, { entityId: "a", resource: "gpt-4" }, read],
    ["GET", `${NS}/entities`, undefined, read],
    ["POST", `${NS}/entities`, { id: "a" }, admin],
    [
      "PUT",
      `${NS}/limits?resource=x`,
      { limits: [{ name: "rpm", capacity: 1, refillAmount: 1, refillPeriodMs: 1000 }] },
      admin,
    ],
    ["POST", `${NS}/top-up`, { entityId: "a", resource: "gpt-4", amounts: { rpm: 1 } }, admin],
    ["POST", "/v1/namespaces", { name: "n" }, admin],
    ["GET", "/v1/orphans", undefined, admin],
    ["GET", "/metrics", undefined, read],
    ["GET", "/v1/namespaces", undefined, read],
  ] as const;
  for (const [method, path, body, right] of matrix) {
    for (const { token, entry } of tokens) {
      const answer = await call(method, path, { token, ...(body === undefined ? {} : { body }) });
      if (token === right) assert.notEqual(answer.status, 403, `${entry.id} ${method} ${path}`);
      else {
        problem(answer, 403, "insufficient_scope");
        assert.equal(answer.body.scope, tokens.find((one) => one.token === right)?.entry.id);
      }
    }
    const nobody = await call(method, path, body === undefined ? {} : { body });
    problem(nobody, 401, "token_missing");
    assert.equal(nobody.headers.get("www-authenticate"), "Bearer");
  }
  for (const path of ["/healthz", "/readyz", "/openapi.json", "/"]) assert.equal((await call("GET", path)).status, 200);
});

test("whoever may only take must not raise their own limit", async (t) => {
  const taker = tokenOf("gateway", { scopes: ["acquire"] });
  const both = tokenOf("both", { scopes: ["acquire", "admin"] });
  const { call } = await serviceOf(t, { tokens: [taker.entry, both.entry] });
  const limits = [{ name: "rpm", capacity: 1_000_000, refillAmount: 1, refillPeriodMs: 1000 }];
  const refused = await call("POST", `${NS}/acquire`, { token: taker.token, body: { ...take, limits } });
  problem(refused, 403, "insufficient_scope");
  assert.equal(refused.body.scope, "admin");
  assert.equal((await call("POST", `${NS}/acquire`, { token: both.token, body: { ...take, limits } })).status, 200);
});

test("whoever may only take gives nothing back without a lease", async (t) => {
  const taker = tokenOf("gateway", { scopes: ["acquire"] });
  const both = tokenOf("proxy", { scopes: ["acquire", "refund"] });
  const { call } = await serviceOf(t, { tokens: [taker.entry, both.entry] });
  const body = { entityId: "key-1", resource: "gpt-4", amounts: { tpm: 1 } };
  assert.equal((await call("POST", `${NS}/charge`, { token: taker.token, body })).status, 200);
  const refused = await call("POST", `${NS}/give-back`, { token: taker.token, body });
  problem(refused, 403, "insufficient_scope");
  assert.equal(refused.body.scope, "refund");
  assert.deepEqual((await call("POST", `${NS}/give-back`, { token: both.token, body })).body.amounts, { tpm: 1 });
});

test("what a token leaves counts for its requests, and what a request leaves where that is more", async (t) => {
  const batch = tokenOf("batch", { leavePercent: 50 });
  const web = tokenOf("web");
  const { call } = await serviceOf(t, { tokens: [batch.entry, web.entry] });
  assert.equal((await call("GET", "/v1/me", { token: batch.token })).body.leavePercent, 50);
  assert.equal((await call("GET", "/v1/me", { token: web.token })).body.leavePercent, undefined);
  const ask = (token: string, rpm: number, leavePercent?: number) =>
    call("POST", `${NS}/acquire`, { token, body: { ...take, consume: { rpm }, leavePercent } });
  // Of 100: what must be left decides, not what is there.
  problem(await ask(batch.token, 51), 413, "amount_above_capacity");
  problem(await ask(batch.token, 51, 10), 413, "amount_above_capacity");
  problem(await ask(batch.token, 41, 60), 413, "amount_above_capacity");
  problem(await ask(batch.token, 1, 100), 400, "leave_invalid");
  assert.equal((await ask(batch.token, 50)).status, 200);
  problem(await ask(batch.token, 1), 429, "rate_limit_exceeded");
  const explained = await call("POST", `${NS}/explain`, {
    token: batch.token,
    body: { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 } },
  });
  assert.equal(explained.body.primary.floor, 50);
  assert.equal((await ask(web.token, 49)).status, 200);
  // What a lease takes further is a take of whoever asks for it.
  const { leaseId } = (await call("POST", `${NS}/acquire`, { token: web.token, body: { ...take, holdMs: 60_000 } }))
    .body;
  const consume = (token: string) =>
    call("POST", `${NS}/leases/${leaseId}/consume`, { token, body: { amounts: { tpm: 10_001 } } });
  problem(await consume(batch.token), 413, "amount_above_capacity");
  assert.equal((await consume(web.token)).status, 200);
  for (const leavePercent of [-1, 100, 1.5, "50"]) {
    const file = JSON.stringify({ tokens: [{ ...batch.entry, leavePercent }] });
    assert.throws(() => parseTokens(file, "tokens.json"), /leavePercent/);
  }
});

test("what two tokens number alike is not one: each has its own idempotency keys, for everything that takes one", async (t) => {
  const scopes = { scopes: ["acquire", "admin", "read"] } as const;
  const [a, b] = [tokenOf("gateway-a", scopes), tokenOf("gateway-b", scopes)];
  const { call } = await serviceOf(t, { tokens: [a.entry, b.entry] });
  const about = { entityId: "key-1", resource: "gpt-4" };
  const { leaseId } = (
    await call("POST", `${NS}/acquire`, { token: a.token, body: { ...about, consume: { rpm: 9 }, holdMs: 60_000 } })
  ).body;
  for (const [path, body] of [
    ["acquire", { ...about, consume: { rpm: 1 }, holdMs: 60_000 }],
    ["try", { ...about, consume: { rpm: 1 } }],
    [`leases/${leaseId}/adjust`, { delta: { rpm: 1 } }],
    [`leases/${leaseId}/consume`, { amounts: { rpm: 1 } }],
    [`leases/${leaseId}/release`, { amounts: { rpm: 1 } }],
    ["top-up", { ...about, amounts: { rpm: 1 } }],
    ["reset", about],
  ] as const) {
    const headers = { "idempotency-key": `"order 17 ${path}"` };
    const replayed: (string | null)[] = [];
    for (const { token } of [a, b, a, b]) {
      const answered = await call("POST", `${NS}/${path}`, { token, body, headers });
      assert.ok(answered.status < 300, `${path}: ${JSON.stringify(answered.body)}`);
      replayed.push(answered.headers.get("idempotency-replayed"));
    }
    assert.deepEqual(replayed, [null, null, "true", "true"], path);
  }
});

test("a namespace that the token does not have is 403, whether or not it exists", async (t) => {
  const { token, entry } = tokenOf("gateway", { namespaces: ["default", "gone"] });
  const { call, limiter } = await serviceOf(t, { tokens: [entry] });
  await limiter.registerNamespace("tenant-b");
  const answers = await Promise.all(
    ["tenant-b", "tenant-z", "%ff", "a%2Fb"].map((name) => call("GET", `/v1/namespaces/${name}/entities`, { token })),
  );
  for (const answer of answers) problem(answer, 403, "namespace_forbidden");
  const [exists, not] = answers.map(({ body: { requestId: _, ...body } }) => body);
  assert.deepEqual(exists, not);
  problem(await call("GET", "/v1/namespaces/gone/entities", { token }), 404, "namespace_not_found");
  const list = await call("GET", "/v1/namespaces", { token });
  assert.deepEqual(
    list.body.items.map(({ name }: { name: string }) => name),
    ["default"],
  );
  problem(await call("POST", "/v1/namespaces", { token, body: { name: "x" } }), 403, "namespace_forbidden");
  problem(await call("DELETE", "/v1/namespaces/default", { token }), 403, "namespace_forbidden");
  const metrics = await call("GET", "/metrics", { token });
  assert.doesNotMatch(metrics.body, /tenant-b/);
});

test("the audit trail names the token, and without tokens local; /v1/me says what it may do", async (t) => {
  const { token, entry } = tokenOf("ops", { expiresAtMs: 1_900_000_000_000 });
  const secured = await serviceOf(t, { tokens: [entry] });
  await secured.call("POST", `${NS}/entities`, { token, body: { id: "a" } });
  assert.equal((await secured.call("GET", `${NS}/audit`, { token })).body.items[0].principal, "ops");
  assert.deepEqual((await secured.call("GET", "/v1/me", { token })).body, {
    ...{ id: "ops", namespaces: "*", scopes: ["acquire", "read", "admin"], expiresAtMs: 1_900_000_000_000 },
  });
  const open = await serviceOf(t);
  await open.call("POST", `${NS}/entities`, { body: { id: "a" } });
  assert.equal((await open.call("GET", `${NS}/audit`)).body.items[0].principal, "local");
  assert.deepEqual((await open.call("GET", "/v1/me")).body, {
    ...{ id: "local", namespaces: "*", scopes: ["acquire", "read", "admin", "refund"] },
  });
});

function tokenFile(t: TestContext, ...entries: object[]): string {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-tokens-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "tokens.json");
  writeFileSync(file, JSON.stringify({ tokens: entries }));
  return file;
}

/** Asks until it is so. A test that waits in vain is ended by its own time limit. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 50));
}

test("the file is read again: a new token is good, a removed one is refused and its streams end", {
  timeout: 60_000,
}, async (t) => {
  const [old, fresh] = [tokenOf("old"), tokenOf("fresh")];
  const file = tokenFile(t, old.entry);
  const { call, url, log } = await serviceOf(t, { tokenFile: file });
  const events = await eventsOf(url, `${NS}/events`, { authorization: `Bearer ${old.token}` });
  await events.next("hello");
  // A file that cannot be read keeps the old tokens, and says so.
  writeFileSync(file, '{ "tokens": [ {');
  await until(async () => log.length > 0);
  assert.match(log[0] ?? "", /is not JSON.*The previous tokens stay in use\.$/s);
  assert.equal((await call("GET", "/v1/me", { token: old.token })).status, 200);
  writeFileSync(file, JSON.stringify({ tokens: [fresh.entry] }));
  await until(async () => (await call("GET", "/v1/me", { token: fresh.token })).status === 200);
  problem(await call("GET", "/v1/me", { token: old.token }), 401, "token_unknown");
  while ((await events.frame()) !== undefined);
});

test("an expired token is refused from that very millisecond, and its streams end", { timeout: 60_000 }, async (t) => {
  const { token, entry } = tokenOf("short", { expiresAtMs: 1_800_000_060_000 });
  const { call, url, clock } = await serviceOf(t, { tokens: [entry] });
  const events = await eventsOf(url, `${NS}/events`, { authorization: `Bearer ${token}` });
  await events.next("hello");
  await clock.advance(59_999);
  assert.equal((await call("GET", "/v1/me", { token })).status, 200);
  await clock.advance(1);
  problem(await call("GET", "/v1/me", { token }), 401, "token_unknown");
  while ((await events.frame()) !== undefined);
});

test("a token that is narrowed, removed or expires loses its streams within the second, and those it may keep go on", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const full = ["acquire", "read", "admin"] as const;
  const [kept, narrowed, unread, removed] = ["kept", "narrowed", "unread", "removed"].map((id) => tokenOf(id));
  const short = tokenOf("short", { expiresAtMs: 1_800_000_000_700 });
  const file = tokenFile(t, ...[kept, narrowed, unread, removed, short].map((one) => one?.entry ?? {}));
  const clock = new SimulatedClock(1_800_000_000_000);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  const service = await createService({ limiter, tokenFile: file, log: () => {}, dashboard: false });
  t.after(async () => {
    await service.close();
    await limiter.close();
  });
  const ended = new Set<string>();
  for (const one of [kept, narrowed, unread, removed, short]) {
    const { token = "", entry } = one ?? {};
    const headers = { authorization: `Bearer ${token}` };
    const response = await service.fetch(new Request(`http://localhost${NS}/events`, { headers }));
    assert.equal(response.status, 200);
    void (async () => {
      for await (const _ of response.body as ReadableStream<Uint8Array>);
      ended.add(entry?.id ?? "");
    })();
  }
  const second = async () => {
    t.mock.timers.tick(1_000);
    await clock.advance(1_000);
    t.mock.timers.tick(0);
  };
  // More scopes, fewer that matter not: the stream of `kept` stays.
  writeFileSync(
    file,
    JSON.stringify({
      tokens: [
        { ...kept?.entry, scopes: ["read"], namespaces: ["default", "other"] },
        { ...narrowed?.entry, namespaces: ["other"], scopes: full },
        { ...unread?.entry, scopes: ["acquire", "admin"] },
        short.entry,
      ],
    }),
  );
  clock.set(1_800_000_000_700);
  await second();
  assert.deepEqual([...ended].sort(), ["narrowed", "removed", "short", "unread"]);
});

test("what is wrong in a token file is told with the entry, the value and the remedy", () => {
  const { entry } = tokenOf("ops");
  const wrong = (tokens: unknown, message: RegExp) =>
    assert.throws(() => parseTokens(JSON.stringify({ tokens }), "tokens.json"), message);
  wrong({}, /"tokens" of tokens\.json is \{\}; give a list/);
  wrong([entry, { ...tokenOf("ops").entry }], /Entry 2 of tokens\.json has the id "ops" again/);
  wrong([entry, { ...entry, id: "other" }], /has the hash of "ops" again/);
  wrong([{ ...entry, sha256: "abc" }], /sha256 of entry 1.*"abc"; give the 64 hex digits/i);
  wrong([{ ...entry, sha256: entry.sha256.toUpperCase() }], /64 hex digits/);
  wrong([{ ...entry, scope: "read" }], /has the unknown key "scope"/);
  wrong([{ ...entry, scopes: ["write"] }], /the scope "write"; scopes are acquire, read, admin, refund/);
  wrong([{ ...entry, scopes: [] }], /give a list of/);
  wrong([{ ...entry, namespaces: [] }], /give a list of names, or "\*"/);
  wrong([{ ...entry, namespaces: ["a b"] }], /Invalid namespace "a b"/);
  wrong([{ ...entry, expiresAtMs: "2030" }], /whole milliseconds since 1970/);
  wrong([{ ...entry, id: "local" }], /choose another/);
  wrong([{ ...entry, id: "a b" }], /Invalid principal/);
  assert.throws(() => parseTokens('{"tokens":[],"x":1}', "f"), /F has the unknown key "x"/);
  assert.deepEqual(parseTokens(JSON.stringify({ tokens: [entry] }), "f"), [entry]);
});

test("fetch cannot see who is calling: 401 without tokens, unless it was told that it is open", async () => {
  const closed = await createService({ store: "memory" });
  assert.equal((await closed.fetch(new Request("http://localhost/v1/me"))).status, 401);
  assert.equal((await closed.fetch(new Request("http://localhost/healthz"))).status, 200);
  assert.equal((await closed.fetch(new Request("http://evil.example/v1/me"))).status, 421);
  // Probes call by whatever address they know.
  assert.equal((await closed.fetch(new Request("http://evil.example/healthz"))).status, 200);
  await closed.close();
  const open = await createService({ store: "memory", open: true });
  const answer = await open.fetch(new Request("http://localhost:8787/v1/me"));
  assert.deepEqual([answer.status, ((await answer.json()) as { id: string }).id], [200, "local"]);
  const made = await open.fetch(
    new Request("http://localhost/v1/namespaces/default/entities", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id: "a" }),
    }),
  );
  assert.equal(made.status, 201);
  await open.close();
});

test("another host than loopback needs tokens, and wrong options are told before a store is opened", async () => {
  const service = await createService({ store: "memory", open: true });
  await assert.rejects(service.listen({ host: "0.0.0.0", port: 0 }), { code: "tokens_missing" });
  await service.close();
  for (const [options, message] of [
    [{ port: 70_000 }, /port is 70000; give a whole number from 0 to 65535/],
    [{ holdMs: 5 }, /holdMs is 5; give a whole number from 1000 to/],
    [{ allowOrigin: "https://x.org/path" }, /give an origin/],
    [{ allowHost: "http://x" }, /give a host name/],
    [{ onExpiry: "keep" }, /give "charge" or "refund"/],
    [{ unit: { tpm: "" } }, /give a word/],
    [{ tokenFile: "/nowhere/tokens.json" }, /cannot be read/],
    [{ tokenFile: "a", tokens: [] }, /give one/],
    [{ prot: 1 }, /"prot"/],
    [{ limiter: {} }, /not a limiter/],
  ] as const) {
    await assert.rejects(
      createService({
        store: "sqlite:/proc/nowhere/x.db",
        ...(options as object),
        ...("limiter" in options ? { store: undefined } : {}),
      } as never),
      message,
    );
  }
});
