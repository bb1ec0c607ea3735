import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { tokenOf } from "../server/service-kit.ts";
import { edgeOf } from "./grpc-kit.ts";

const FILE = `domains:
  web:
    namespace: default
    rules:
      - { match: { tenant: "*", model: "*" }, entity: "{tenant}", resource: gpt-5, consume: { tpm: hits }, hold: 30s }
      - { match: { tenant: "*", path: "*" }, entity: "{tenant}|{path}", resource: http }
      - { match: { remote_address: "*" }, entity: "ip-{remote_address}", resource: http }
      - { match: { method: "*", host: "*", user: "*", kind: web }, entity: "{user}|{method}|{host}", resource: http }
    http:
      entries:
        tenant: header x-tenant
        model: header x-model
        path: path
        remote_address: client
        method: method
        host: host
        user: query user
        kind: text web
      descriptors: [[tenant, model], [tenant, path], [remote_address], [method, host, user, kind]]
      hits: header x-cost
  bare: { namespace: default, rules: [{ match: { a: "*" }, entity: "{a}", resource: http }] }
`;

type Fields = Readonly<Record<string, string>>;

/** Sends the fields as bytes, one to a character, as proxies do. */
function ask(url: string, path: string, headers: Fields, method = "GET", body = "") {
  return new Promise<{ status: number; headers: Fields; body: string }>((resolve, reject) => {
    const asked = request(new URL(path, url), { method, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const fields = response.headers as Fields;
        resolve({ status: response.statusCode ?? 0, headers: fields, body: Buffer.concat(chunks).toString() });
      });
    });
    asked.on("error", reject);
    asked.end(body);
  });
}

const AUTH = "/v1/edge/web/auth";
const FROM_NGINX = { "x-original-uri": "/", "x-original-method": "GET" };

test("200 lets a request through, with what is left; a refusal is 429 with its wait, or the status that deny says", async (t) => {
  const { url, left } = await edgeOf(t, { text: FILE });
  const of = (cost: string) => ({ ...FROM_NGINX, "x-forwarded-for": "10.0.0.1", "x-cost": cost });
  const granted = await ask(url, AUTH, of("4"));
  assert.deepEqual([granted.status, granted.body], [200, ""]);
  assert.equal(granted.headers.ratelimit, '"rps";r=1;t=1');
  assert.equal(granted.headers["ratelimit-policy"], '"rps";q=5;w=1');
  const refused = await ask(url, AUTH, of("3"));
  const problem = JSON.parse(refused.body);
  assert.deepEqual([refused.status, problem.status, problem.code], [429, 429, "rate_limit_exceeded"]);
  assert.deepEqual([refused.headers["retry-after"], refused.headers["zael-status"]], ["1", undefined]);
  assert.match(refused.headers["content-type"] ?? "", /^application\/problem\+json/);
  for (const deny of ["401", "403"]) {
    const denied = await ask(url, `${AUTH}?deny=${deny}`, of("3"));
    assert.deepEqual([denied.status, denied.headers["zael-status"]], [Number(deny), "429"]);
    assert.equal(denied.headers["retry-after"], "1");
  }
  assert.equal((await ask(url, `${AUTH}?deny=500`, of("1"))).status, 400);
  assert.deepEqual(await left("ip-10.0.0.1", "http"), { rps: 1 });
});

test("the client is so many addresses from the right, which nobody but the proxy can write", async (t) => {
  const { url, left } = await edgeOf(t, { text: FILE });
  const from = (addresses: string) => ask(url, AUTH, { ...FROM_NGINX, "x-forwarded-for": addresses });
  for (const spoofed of ["1.1.1.1, 10.0.0.2", "2.2.2.2,10.0.0.2", "10.0.0.2"])
    assert.equal((await from(spoofed)).status, 200);
  assert.deepEqual(await left("ip-10.0.0.2", "http"), { rps: 2 });
  // Addresses of one /64 network are of one customer.
  for (const address of ["2001:db8::1", "2001:DB8:0:0::2"]) assert.equal((await from(address)).status, 200);
  assert.deepEqual(await left("text:ip-2001:db8::_2F64", "http"), { rps: 3 });
});

test("what is asked of the user's request comes from the fields of Traefik and Caddy, of nginx, or is the request's own", async (t) => {
  const { url, limiter } = await edgeOf(t, { text: FILE });
  const entities = async () => {
    const all = [];
    for await (const { entityId } of limiter.listBuckets({ resource: "http" })) all.push(entityId);
    return all.sort();
  };
  const caddy = {
    "x-forwarded-method": "PUT",
    "x-forwarded-uri": "/a/../b%2e/./c?user=ann+b",
    "x-forwarded-host": "shop.example",
  };
  await ask(url, AUTH, { ...caddy, "x-tenant": "t1" }, "POST", "a body that nobody reads");
  await ask(url, AUTH, {
    "x-original-uri": "//x/../y?user=b%c3%a9",
    "x-original-method": "GET",
    host: new URL(url).host,
  });
  await ask(url, `${AUTH}/orders/1?user=own&deny=403`, { "zael-token": "any", "x-tenant": "t2" }, "DELETE");
  const { host } = new URL(url);
  assert.deepEqual(
    await entities(),
    [
      `text:ann_2520b_7CPUT_7Cshop_252Eexample`,
      `text:b_25C3_25A9_7CGET_7C${host.replaceAll(".", "_252E").replace(":", "_253A")}`,
      `text:own_7CDELETE_7C${host.replaceAll(".", "_252E").replace(":", "_253A")}`,
      "text:t1_7C_252Fb_252E_252Fc",
      "text:t2_7C_252Forders_252F1",
    ].sort(),
  );
});

test("any bytes in a field lead to a decision, and strangers share nothing", async (t) => {
  const { url } = await edgeOf(t, { text: FILE });
  const as = (tenant: string) => ask(url, AUTH, { ...FROM_NGINX, "x-tenant": tenant });
  for (const tenant of ["\xff", "\xfe"]) {
    const statuses = [];
    for (let i = 0; i < 6; i++) statuses.push((await as(tenant)).status);
    assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
  }
  for (const tenant of ["", "x".repeat(4_000), "\xc3\xa9", "%00", "a b"]) assert.equal((await as(tenant)).status, 200);
  for (const uri of ["", "*", "//", "/%zz", "http://[", "/\xff", "?user=%ff"]) {
    assert.equal((await ask(url, AUTH, { "x-original-uri": uri, "x-tenant": "t" })).status, 200, uri);
  }
  const cost = (hits: string) => ask(url, AUTH, { ...FROM_NGINX, "x-tenant": "u", "x-cost": hits });
  assert.deepEqual(
    [(await cost("9".repeat(30))).status, (await cost("6")).status, (await cost("-1")).status],
    [413, 413, 400],
  );
  assert.equal(JSON.parse((await cost("x")).body).code, "hits_invalid");
});

test("a rule with hold answers with a lease, which the application settles over HTTP", async (t) => {
  const { url, left } = await edgeOf(t, { text: FILE });
  const { headers } = await ask(url, AUTH, { ...FROM_NGINX, "x-tenant": "t", "x-model": "m", "x-cost": "4" });
  const settled = await fetch(new URL(`/v1/namespaces/default/leases/${headers["zael-lease"]}/settle`, url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ consumed: { tpm: 55 } }),
  });
  assert.equal(settled.status, 200);
  assert.equal((await left("t", "gpt-5")).tpm, 45);
});

test("without tokens a page can neither ask nor rebind: the Host must be ours, and a field of a proxy must be there", async (t) => {
  const { url } = await edgeOf(t, { text: FILE });
  const code = async (headers: Fields) => JSON.parse((await ask(url, AUTH, headers)).body).code;
  assert.equal(await code({}), "origin_forbidden");
  assert.equal(await code({ "x-tenant": "t", origin: "https://evil.example" }), "origin_forbidden");
  assert.equal(await code({ ...FROM_NGINX, host: "evil.example" }), "host_unknown");
  // The Origin is that of the proxy's user.
  assert.equal(
    (await ask(url, AUTH, { ...FROM_NGINX, origin: "https://shop.example", "sec-fetch-site": "cross-site" })).status,
    200,
  );
});

test("with tokens the proxy sends Zael-Token, Authorization is the user's, and neither Host nor Origin counts", async (t) => {
  const { token, entry } = tokenOf("nginx", { namespaces: ["default"], scopes: ["acquire"] });
  const reader = tokenOf("reader", { scopes: ["read"] });
  const elsewhere = tokenOf("elsewhere", { namespaces: ["other"], scopes: ["acquire"] });
  const { url } = await edgeOf(t, { text: FILE, tokens: [entry, reader.entry, elsewhere.entry] });
  const asked = async (path: string, headers: Fields) => {
    const { status, body } = await ask(url, path, { ...FROM_NGINX, ...headers });
    return status === 200 ? "200" : `${status} ${JSON.parse(body).code}`;
  };
  assert.equal(await asked(AUTH, { authorization: `Bearer ${token}` }), "401 token_missing");
  assert.equal(await asked(AUTH, { "zael-token": "zael_wrong" }), "401 token_unknown");
  assert.equal(await asked(AUTH, { "zael-token": reader.token }), "403 insufficient_scope");
  assert.equal(await asked(AUTH, { "zael-token": elsewhere.token }), "403 namespace_forbidden");
  assert.equal(await asked(`${AUTH}?deny=403`, {}), "403 token_missing");
  const foreign = { host: "shop.example", origin: "https://shop.example", authorization: "Bearer of-the-user" };
  assert.equal(await asked(AUTH, { "zael-token": token, ...foreign }), "200");
  assert.equal(await asked("/v1/edge/other/auth", { "zael-token": token }), "404 domain_unknown");
  assert.equal(await asked("/v1/edge/bare/auth", { "zael-token": token }), "404 domain_unknown");
  const { headers } = await ask(url, AUTH, { ...FROM_NGINX, "zael-token": token });
  assert.ok(!JSON.stringify(headers).includes(token));
});

test("what is switched off is 403, and a service without an edge file has no such route", async (t) => {
  const { url, limiter } = await edgeOf(t, { text: FILE });
  await limiter.setAccess({ resource: "http" }, "disabled");
  const off = await ask(url, AUTH, { ...FROM_NGINX, "x-forwarded-for": "10.0.0.1" });
  assert.deepEqual([off.status, JSON.parse(off.body).code], [403, "resource_disabled"]);
});
