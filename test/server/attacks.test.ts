import assert from "node:assert/strict";
import { test } from "node:test";
import { NS, problem, raw, serviceOf, tokenOf } from "./service-kit.ts";

// The table of attacks: a page of another site must not be able to drive a service on this machine, tokens or not.

const ROUTES = [
  "/healthz",
  "/readyz",
  "/openapi.json",
  "/metrics",
  "/v1/me",
  `${NS}/buckets`,
  "/",
  "/assets/x.js",
  "/nope",
];

test("DNS rebinding: a Host that is not ours is 421 on every route but the probes, the page included", async (t) => {
  const { port } = await serviceOf(t);
  const asked = async (host: string, path: string) =>
    raw(port, `GET ${path} HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
  for (const path of ROUTES.filter((one) => one !== "/healthz" && one !== "/readyz")) {
    for (const host of [`Host: evil.example:${port}\r\n`, "Host: evil.example\r\n", "", "Host: \r\n"]) {
      const said = await asked(host, path);
      assert.match(said, /^HTTP\/1\.1 421 /, `${path} ${host}`);
      assert.match(said, /"code":"host_unknown"/);
    }
  }
  // A name of ours with another port is another service's, two names are none, and an absolute address does not help.
  for (const host of [
    "localhost:1",
    "127.0.0.1",
    `localhost.:${port}`,
    `127.0.0.1:${port}@evil`,
    `x.localhost:${port}`,
  ]) {
    assert.match(await asked(`Host: ${host}\r\n`, "/v1/me"), /^HTTP\/1\.1 421 /, host);
  }
  assert.match(await asked(`Host: localhost:${port}\r\nHost: evil.example\r\n`, "/v1/me"), /^HTTP\/1\.1 (421|400) /);
  assert.match(await asked("Host: evil.example\r\n", `http://localhost:${port}/v1/me`), /^HTTP\/1\.1 421 /);
  for (const host of [`localhost:${port}`, `LOCALHOST:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
    assert.match(await asked(`Host: ${host}\r\n`, "/v1/me"), /^HTTP\/1\.1 200 /, host);
  }
});

test("a name that was allowed is ours too, with the port it was given with, or any", async (t) => {
  const { port } = await serviceOf(t, { allowHost: ["limits.example.com", "proxy.example:8443"] });
  const asked = (host: string) => raw(port, `GET /v1/me HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  for (const host of ["limits.example.com", "Limits.Example.com", "limits.example.com:8080", "proxy.example:8443"]) {
    assert.match(await asked(host), /^HTTP\/1\.1 200 /, host);
  }
  for (const host of ["proxy.example", "proxy.example:1", "evil.limits.example.com"]) {
    assert.match(await asked(host), /^HTTP\/1\.1 421 /, host);
  }
});

test("a form or a script of another site: a foreign Origin, or cross-site, is 403 before anything is done", async (t) => {
  const { call, port, limiter } = await serviceOf(t);
  const body = { id: "made-by-a-page" };
  for (const headers of [
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: `http://localhost:${port + 1}` },
    { origin: `http://localhost:${port}.evil.example` },
    { origin: "file://" },
    { "sec-fetch-site": "cross-site" },
  ]) {
    problem(await call("POST", `${NS}/entities`, { body, headers }), 403, "origin_forbidden");
    for (const path of ["/v1/me", "/metrics", "/openapi.json", `${NS}/events`]) {
      problem(await call("GET", path, { headers }), 403, "origin_forbidden");
    }
  }
  assert.deepEqual([...(await limiter.listEntities())], []);
  for (const headers of [
    { origin: `http://localhost:${port}` },
    { origin: `http://127.0.0.1:${port}`, "sec-fetch-site": "same-origin" },
    { "sec-fetch-site": "none" },
  ]) {
    assert.equal((await call("GET", "/v1/me", { headers })).status, 200);
  }
  // The page has no data in it and may be linked to.
  assert.equal((await call("GET", "/", { headers: { "sec-fetch-site": "cross-site" } })).status, 200);
});

test("a body that a form can send is 415, and nothing was done", async (t) => {
  const { call, limiter, url } = await serviceOf(t);
  const body = JSON.stringify({ id: "made-by-a-form" });
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
  ]) {
    problem(
      await call("POST", `${NS}/entities`, { body, headers: { "content-type": type } }),
      415,
      "content_type_unsupported",
    );
  }
  const untyped = await fetch(`${url}${NS.slice(1)}/entities`, {
    method: "POST",
    body: new TextEncoder().encode(body),
  });
  assert.equal(untyped.status, 415);
  assert.deepEqual([...(await limiter.listEntities())], []);
  const typed = { "content-type": "Application/JSON; charset=utf-8" };
  assert.equal((await call("POST", `${NS}/entities`, { body, headers: typed })).status, 201);
});

test("reading by CORS: no header lets another origin read, unless it was allowed; never with credentials", async (t) => {
  const { call, port } = await serviceOf(t, { allowOrigin: "https://ops.example.com" });
  const preflight = (origin: string) =>
    raw(
      port,
      `OPTIONS ${NS}/acquire HTTP/1.1\r\nHost: localhost:${port}\r\nOrigin: ${origin}\r\n` +
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\nConnection: close\r\n\r\n",
    );
  const own = await call("GET", "/v1/me");
  assert.equal(
    [...own.headers.keys()].find((name) => name.startsWith("access-control")),
    undefined,
  );
  const refused = await preflight("https://evil.example");
  assert.match(refused, /^HTTP\/1\.1 403 /);
  assert.doesNotMatch(refused, /access-control/i);
  const allowed = await preflight("https://ops.example.com");
  assert.match(allowed, /^HTTP\/1\.1 204 /);
  assert.match(allowed, /access-control-allow-origin: https:\/\/ops\.example\.com\r\n/i);
  assert.match(allowed, /access-control-allow-headers: [^\r]*authorization/i);
  assert.doesNotMatch(allowed, /allow-credentials|: \*\r/i);
  const headers = { origin: "https://ops.example.com", "sec-fetch-site": "cross-site" };
  const read = await call("GET", "/v1/me", { headers });
  assert.equal(read.headers.get("access-control-allow-origin"), "https://ops.example.com");
  assert.match(read.headers.get("vary") ?? "", /origin/i);
  // An error can be read, too: a page must be able to say what is wrong.
  const wrong = await call("GET", `${NS}/buckets?x=1`, { headers });
  assert.equal(wrong.headers.get("access-control-allow-origin"), "https://ops.example.com");
  // Without the preflight's question OPTIONS is a method like others.
  const plain = await call("OPTIONS", "/v1/me");
  problem(plain, 405, "method_not_allowed");
});

test("script in a name or a reason: every answer forbids it, is no other type than it says, and sends no referrer", async (t) => {
  const { call, limiter } = await serviceOf(t);
  await limiter.createEntity({ id: "a", name: "<script>alert(1)</script>" });
  for (const path of ["/", "/v1/me", `${NS}/entities/a`, "/nope", `${NS}/entities/<script>`]) {
    const { headers } = await call("GET", path);
    assert.equal(
      headers.get("content-security-policy"),
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
        "form-action 'none'; frame-ancestors 'none'",
    );
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.equal(headers.get("set-cookie"), null);
  }
  const { headers, body } = await call("GET", `${NS}/entities/a`);
  assert.equal(headers.get("content-type"), "application/json");
  assert.equal(headers.get("cache-control"), "no-store");
  assert.equal(body.name, "<script>alert(1)</script>");
});

test("the token in a cookie, in the address, or of another scheme is none", async (t) => {
  const { token, entry } = tokenOf("ops");
  const { call } = await serviceOf(t, { tokens: [entry] });
  problem(await call("GET", "/v1/me", { headers: { cookie: `token=${token}` } }), 401, "token_missing");
  problem(await call("GET", "/v1/me", { headers: { authorization: `Basic ${token}` } }), 401, "token_missing");
  problem(await call("GET", `/v1/me?token=${token}`), 401, "token_missing");
  problem(await call("GET", "/v1/me", { token: `${token}x` }), 401, "token_unknown");
  assert.equal((await call("GET", "/v1/me", { headers: { authorization: `bearer ${token}` } })).status, 200);
});
