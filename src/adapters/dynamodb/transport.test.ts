import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import { answer, closed, deferred, listening, serve, text } from "../../../test/engines/http-kit.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import type { DynamoClient } from "./client.ts";
import { openTransport, type TransportOptions } from "./transport.ts";

const keys = { accessKeyId: "AKID", secretAccessKey: "secret" };
const LONG = { timeoutMs: 30_000 };
const NOW_MS = Date.UTC(2026, 0, 15, 12);

test("an answer is its JSON, a refusal its exception; both on one connection", async (t) => {
  const seen: string[] = [];
  const { server, url } = await serve(t, async (request, response) => {
    seen.push(`${request.method} ${request.headers["x-amz-target"]} ${await text(request)}`);
    if (seen.length === 1) return answer(response, 200, { Item: { name: { S: "Zoë 🪣" } } });
    answer(response, 400, {
      __type: "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
      message: "The conditional request failed",
      Item: { tk: { N: "7" } },
    });
  });
  let connections = 0;
  server.on("connection", () => connections++);
  const client = await open(t, { endpoint: url, connections: 1 });
  assert.deepEqual(await client.send("GetItem", '{"Key":"ü"}', LONG), {
    kind: "answered",
    body: { Item: { name: { S: "Zoë 🪣" } } },
  });
  const refused = await client.send("UpdateItem", "{}", LONG);
  assert.equal(refused.kind, "failed");
  assert.partialDeepStrictEqual(refused, {
    status: 400,
    code: "ConditionalCheckFailedException",
    message: "The conditional request failed",
    body: { Item: { tk: { N: "7" } } },
  });
  assert.deepEqual(seen, ['POST DynamoDB_20120810.GetItem {"Key":"ü"}', "POST DynamoDB_20120810.UpdateItem {}"]);
  assert.equal(connections, 1);
});

test("refusals come with the exception's bare name, wherever the service wrote it", async (t) => {
  const cases: [number, Record<string, string>, string, string][] = [
    [400, {}, '{"__type":"com.amazon.coral.availability#ThrottlingException","Message":"slow"}', "ThrottlingException"],
    [500, {}, '{"__type":"InternalServerError"}', "InternalServerError"],
    [503, { "x-amzn-errortype": "ServiceUnavailable:http://internal/" }, "{}", "ServiceUnavailable"],
    [413, {}, "<html>too large</html>", "Http413"],
    [301, {}, "", "Http301"],
  ];
  const { url } = await serve(t, async (request, response) => {
    const [status, headers, body] = cases[Number(await text(request))] as (typeof cases)[number];
    response.writeHead(status, headers).end(body);
  });
  const client = await open(t, { endpoint: url });
  for (const [i, [status, , , code]] of cases.entries()) {
    const refused = await client.send("PutItem", String(i), LONG);
    assert.partialDeepStrictEqual(refused, { kind: "failed", status, code });
  }
});

test("an answer that cannot be believed is lost: damaged, no JSON, no object, cut short, or of some gateway", async (t) => {
  const cases: ((response: ServerResponse) => void)[] = [
    (response) => response.writeHead(200, { "x-amz-crc32": "12345" }).end("{}"),
    (response) => response.writeHead(400, { "x-amz-crc32": "12345" }).end('{"__type":"x#ThrottlingException"}'),
    (response) => response.end("<html>Welcome to the hotel network</html>"),
    (response) => response.end("[]"),
    (response) => response.end("null"),
    (response) => response.end(),
    (response) => response.writeHead(502).end("<html>Bad Gateway</html>"),
    (response) => response.writeHead(504).end("{}"),
    (response) => response.writeHead(200, { "content-length": 100 }).write("{", () => response.destroy()),
    (response) => response.write('{"Item":', () => response.destroy()),
    (response) => response.socket?.end("HTTP/1.1 200 OK\r\n"),
    (response) => response.socket?.end("what is this?\r\n\r\n"),
    (response) => response.destroy(),
    (response) => response.socket?.resetAndDestroy(),
  ];
  const { url } = await serve(t, async (request, response) => cases[Number(await text(request))]?.(response));
  const client = await open(t, { endpoint: url });
  for (const i of cases.keys()) {
    const lost = await client.send("UpdateItem", String(i), LONG);
    assert.equal(lost.kind, "lost", `case ${i}: ${JSON.stringify(lost)}`);
  }
});

test("a checksum is checked over all of a long answer in pieces", async (t) => {
  const whole = Buffer.from(JSON.stringify({ Items: Array.from({ length: 20_000 }, (_, i) => ({ N: `ü${i}` })) }));
  const { url } = await serve(t, (request, response) => {
    request.resume();
    response.writeHead(200, { "x-amz-crc32": crc32(whole) });
    for (let from = 0; from < whole.length; from += 4001) response.write(whole.subarray(from, from + 4001));
    response.end();
  });
  const client = await open(t, { endpoint: url });
  const found = await client.send("Query", "{}", LONG);
  assert.deepEqual(found, { kind: "answered", body: JSON.parse(whole.toString()) });
});

test("what no connection was made for is unsent: refused, unknown, no TLS on the other side", async (t) => {
  const { server, url } = await serve(t, (_request, response) => response.end("{}"));
  const tls = await open(t, { endpoint: url.replace("http:", "https:") });
  assert.equal((await tls.send("GetItem", "{}", LONG)).kind, "unsent");
  const unknown = await open(t, { endpoint: "http://no-such-host.invalid" });
  assert.equal((await unknown.send("GetItem", "{}", LONG)).kind, "unsent");
  server.closeAllConnections();
  await closed(server);
  const refused = await (await open(t, { endpoint: url })).send("GetItem", "{}", LONG);
  assert.ok(refused.kind === "unsent");
  assert.match(String((refused.cause as { code?: string }).code), /ECONNREFUSED/);
});

test("a certificate nobody vouches for gets nothing sent to it", async (t) => {
  const server = createTlsServer({ key: KEY, cert: CERT }, (request, response) => {
    request.resume();
    answer(response, 200, { TableNames: [] });
  });
  const port = await listening(t, server);
  const strict = await open(t, { endpoint: `https://localhost:${port}` });
  assert.equal((await strict.send("Scan", "{}", LONG)).kind, "unsent");
  const trusting = await open(t, { endpoint: `https://localhost:${port}`, ca: CERT });
  assert.equal((await trusting.send("Scan", "{}", LONG)).kind, "answered");
});

test("requests queued behind a connection that cannot be made are all unsent, and the next ones get through", async (t) => {
  const { server, url } = await serve(t, (_request, response) => answer(response, 200, {}));
  const { port } = server.address() as AddressInfo;
  await closed(server);
  const client = await open(t, { endpoint: url, connections: 2 });
  const all = await Promise.all(Array.from({ length: 20 }, () => client.send("GetItem", "{}", LONG)));
  assert.deepEqual(new Set(all.map(({ kind }) => kind)), new Set(["unsent"]));
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const again = await Promise.all(Array.from({ length: 20 }, () => client.send("GetItem", "{}", LONG)));
  assert.deepEqual(new Set(again.map(({ kind }) => kind)), new Set(["answered"]));
  await client.close();
  // Returns only when no connection is left.
  await closed(server);
});

test("a clock an hour off is corrected by the server's Date at the first refusal, and the request sent once more", async (t) => {
  for (const skewMs of [-3_600_000, 3_600_000]) {
    const dates: string[] = [];
    const { url } = await serve(t, (request, response) => {
      request.resume();
      const signed = String(request.headers["x-amz-date"]);
      dates.push(signed);
      response.setHeader("date", new Date(NOW_MS).toUTCString());
      if (signed === "20260115T120000Z") answer(response, 200, {});
      else
        answer(response, 400, { __type: "com.amazon.coral.service#InvalidSignatureException", message: "Signature…" });
    });
    const client = await open(t, { endpoint: url, now: () => NOW_MS + skewMs });
    assert.equal((await client.send("UpdateItem", "{}", LONG)).kind, "answered");
    assert.equal((await client.send("UpdateItem", "{}", LONG)).kind, "answered");
    assert.deepEqual(dates.slice(1), ["20260115T120000Z", "20260115T120000Z"]);
  }
});

test("a wrong key is not a wrong clock: the refusal is handed on, after one attempt", async (t) => {
  let requests = 0;
  const { url } = await serve(t, (request, response) => {
    request.resume();
    requests++;
    response.setHeader("date", new Date(NOW_MS).toUTCString());
    answer(response, 400, { __type: "com.amazon.coral.service#InvalidSignatureException" });
  });
  const client = await open(t, { endpoint: url, now: () => NOW_MS });
  const refused = await client.send("UpdateItem", "{}", LONG);
  assert.partialDeepStrictEqual(refused, { kind: "failed", code: "InvalidSignatureException" });
  assert.equal(requests, 1);
});

test("a server that always finds the clock wrong is asked twice, not for ever", async (t) => {
  let requests = 0;
  const { url } = await serve(t, (request, response) => {
    request.resume();
    response.setHeader("date", new Date(NOW_MS + 3_600_000 * ++requests).toUTCString());
    answer(response, 403, { __type: "RequestTimeTooSkewed" });
  });
  const client = await open(t, { endpoint: url, now: () => NOW_MS });
  const refused = await client.send("UpdateItem", "{}", LONG);
  assert.partialDeepStrictEqual(refused, { kind: "failed", code: "RequestTimeTooSkewed" });
  assert.equal(requests, 2);
});

test("a token that the service calls expired is replaced, and the request sent once more", async (t) => {
  const tokens: unknown[] = [];
  const { url } = await serve(t, (request, response) => {
    request.resume();
    tokens.push(request.headers["x-amz-security-token"]);
    if (tokens.length > 1) answer(response, 200, {});
    else answer(response, 400, { __type: "com.amazon.coral.service#ExpiredTokenException" });
  });
  let asked = 0;
  const client = await open(t, {
    endpoint: url,
    credentials: async () => ({ ...keys, sessionToken: `token-${++asked}` }),
  });
  assert.equal((await client.send("UpdateItem", "{}", LONG)).kind, "answered");
  assert.deepEqual(tokens, ["token-1", "token-2"]);
});

test("without credentials nothing is sent: neither when they fail nor when they take too long", async (t) => {
  const { url } = await serve(t, () => assert.fail("nothing was to be sent"));
  const failing = await open(t, { endpoint: url, credentials: () => Promise.reject(new Error("no role")) });
  const unsent = await failing.send("UpdateItem", "{}", LONG);
  assert.ok(unsent.kind === "unsent" && unsent.cause instanceof LimiterError);
  assert.equal(unsent.cause.code, "credentials_unavailable");
  const late = deferred<typeof keys>();
  const slow = await open(t, { endpoint: url, credentials: () => late.promise });
  assert.equal((await slow.send("UpdateItem", "{}", { timeoutMs: 1 })).kind, "unsent");
  late.resolve(keys);
  await new Promise((resolve) => setImmediate(resolve));
});

test("under cuts, throttles, 500s and garbage at concurrency 64, every call gets its own answer and every socket goes", async (t) => {
  const { server, url } = await serve(t, async (request, response) => {
    const n = Number(await text(request));
    if (n % 11 === 3) request.socket.resetAndDestroy();
    else if (n % 11 === 5) response.end("garbage");
    else if (n % 11 === 7) answer(response, 500, { __type: "x#InternalServerError", n });
    else if (n % 11 === 9) answer(response, 400, { __type: "x#ThrottlingException", n });
    else answer(response, 200, { n });
  });
  const client = await open(t, { endpoint: url, connections: 16 });
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < 2000) {
      const n = next++;
      const got = await client.send("UpdateItem", String(n), LONG);
      const kinds: Record<number, string> = { 3: "lost", 5: "lost", 7: "failed", 9: "failed" };
      assert.equal(got.kind, kinds[n % 11] ?? "answered");
      if (got.kind === "answered" || got.kind === "failed") assert.equal(got.body.n, n);
    }
  };
  await Promise.all(Array.from({ length: 64 }, worker));
  await client.close();
  await closed(server);
});

async function open(t: TestContext, options: Partial<TransportOptions>): Promise<DynamoClient> {
  const client = await openTransport({ region: "us-east-1", credentials: keys, now: Date.now, ...options });
  t.after(() => client.close());
  return client;
}

// For localhost, until the year 2126; guards nothing.
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQggWAqC9uO1Ok9oMXq
XO9HL9BTn2sPnXHz0sQwrRXBS0ihRANCAASfic9JJus4BJzz2ZfCaQ3EE4ELKudP
91CA1GPeWx1h/HgHCinXAg0Js76+yW6KjOGXJ1JOtc209OmN99drM4u0
-----END PRIVATE KEY-----`;
const CERT = `-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUQvB4R6dmgsCFObXF9XZ4i3kms8AwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNTA4MDkyM1oYDzIxMjYxMDIy
MDgwOTIzWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASfic9JJus4BJzz2ZfCaQ3EE4ELKudP91CA1GPeWx1h/HgHCinXAg0J
s76+yW6KjOGXJ1JOtc209OmN99drM4u0o28wbTAdBgNVHQ4EFgQUjiugAGk8r4E1
a3cTU4ihxbPqMzIwHwYDVR0jBBgwFoAUjiugAGk8r4E1a3cTU4ihxbPqMzIwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgf6dZcNIf41gz5mYCMNxAmFyu4D3Tbvsl4AmQn4MOkcMCIBvL
WJliYBDxvsxlIn8nC9zrPD8s0kybhCAudRmvhE5h
-----END CERTIFICATE-----`;
