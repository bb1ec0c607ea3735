import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, request } from "node:http";
import { request as requestTls } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { json } from "node:stream/consumers";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { APIError, OpenAI, RateLimitError } from "openai";
import { Limit } from "../../src/entry/index.ts";
import { certificate } from "../engines/certificate.ts";
import { eventually, KEY, proxied, text } from "./proxy-kit.ts";

const CHAT = { model: "gpt-5", messages: [{ role: "user" as const, content: "Hello?" }], max_tokens: 500 };
const MESSAGE = { model: "claude", messages: [{ role: "user" as const, content: "Hello?" }], max_tokens: 500 };
/** A quota, so that nothing drips in while a test runs. */
const TPM = Limit.quota("tpm", 10_000, { reset: "yearly" });

test("OpenAI's client is limited by its base URL alone, whole and streamed, and settled by what the provider reports", async (t) => {
  const { limiter, url, token, left, provider } = await proxied(t);
  await limiter.setSystemDefaults([TPM]);
  const client = new OpenAI({ baseURL: `${url}openai/v1`, apiKey: token, maxRetries: 0 });
  const { data, response } = await client.chat.completions.create(CHAT).withResponse();
  assert.equal(data.choices[0]?.message.content, "one two three");
  assert.equal(await left("tpm"), 10_000 - 120);
  // 500 of output and the input were held when it was granted.
  assert.match(response.headers.get("ratelimit") ?? "", /^"tpm";r=94\d\d/);
  assert.match(response.headers.get("ratelimit-policy") ?? "", /^"tpm";q=10000/);
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ ...CHAT, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
  }
  assert.equal(streamed, "one two three");
  assert.equal(await left("tpm"), 10_000 - 240);
  assert.deepEqual(
    provider.calls.map(({ path }) => path),
    ["/v1/chat/completions", "/v1/chat/completions"],
  );
});

test("Anthropic's client is limited by its base URL alone, whole and streamed", async (t) => {
  const { limiter, url, token, left } = await proxied(t);
  await limiter.setSystemDefaults([TPM]);
  const client = new Anthropic({ baseURL: `${url}anthropic`, apiKey: token, maxRetries: 0 });
  const reply = await client.messages.create(MESSAGE);
  assert.deepEqual(
    reply.content.map((block) => "text" in block && block.text),
    ["one two three"],
  );
  const stream = client.messages.stream(MESSAGE);
  assert.equal(await stream.finalText(), "one two three");
  assert.equal(await left("tpm", "claude"), 10_000 - 240);
});

test("a call that does not fit is refused in the provider's words, and nothing is sent", async (t) => {
  const { limiter, url, token, provider } = await proxied(t);
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);
  const client = new OpenAI({ baseURL: `${url}openai/v1`, apiKey: token });
  await client.chat.completions.create(CHAT);
  // Its own retries do not help: x-should-retry says so.
  const refused = await client.chat.completions.create(CHAT).catch((error: unknown) => error);
  assert.ok(refused instanceof RateLimitError);
  assert.equal(refused.headers.get("x-should-retry"), "false");
  assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/);
  assert.match(refused.headers.get("ratelimit") ?? "", /^"rpm";r=0;t=\d+/);
  const other = new Anthropic({ baseURL: `${url}anthropic`, apiKey: token, maxRetries: 0 });
  await other.messages.create(MESSAGE);
  const also = await other.messages.create(MESSAGE).catch((error: unknown) => error);
  assert.ok(also instanceof Anthropic.RateLimitError);
  assert.equal(provider.calls.length, 2);
});

test("only callers with a token of the scope proxy get through; others hear it in the wire's form", async (t) => {
  const { url, provider, token } = await proxied(t, { entry: { scopes: ["acquire"] } });
  const status = async (path: string, headers: Record<string, string>) => {
    const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: "{}" });
    const { error, type } = (await answer.json()) as { error: { code: string; type: string }; type?: string };
    return [answer.status, error.code, error.type, type];
  };
  const chat = "openai/v1/chat/completions";
  assert.deepEqual(await status(chat, {}), [401, "token_missing", "zae_limiter_error", undefined]);
  assert.deepEqual(await status("anthropic/v1/messages", { "x-api-key": "no" }), [
    ...[401, "token_unknown", "authentication_error", "error"],
  ]);
  assert.deepEqual((await status(chat, { authorization: `Bearer ${token}` })).slice(0, 2), [403, "insufficient_scope"]);
  // Nobody learns from outside which paths there are.
  assert.equal((await status("nobody/v1/x", {}))[0], 401);
  assert.equal(provider.calls.length, 0);
});

test("what is not metered is not sent, but the list of models and what is allowed", async (t) => {
  const { url, token, provider, limiter } = await proxied(t);
  await limiter.setSystemDefaults([Limit.quota("requests", 1, { reset: "yearly" })]);
  // Not by fetch, which would take the dots out of a path.
  const answer = async (method: string, path: string) => {
    const { hostname, port } = new URL(url);
    const sent = request({ hostname, port, method, path: `/${path}`, headers: { "x-api-key": token } });
    sent.end(method === "POST" ? "{}" : undefined);
    const [received] = (await once(sent, "response")) as [IncomingMessage];
    const { error } = (await json(received)) as { error?: { code: string } };
    return [received.statusCode, error?.code];
  };
  assert.deepEqual(await answer("GET", "openai/v1/models"), [200, undefined]);
  assert.deepEqual(await answer("POST", "anthropic/v1/messages/count_tokens"), [200, undefined]);
  for (const [method, path] of [
    ["GET", "openai/v1/models/gpt-5"],
    ["POST", "openai/v1/images/generations"],
    ["POST", "openai/v1/messages/count_tokens"],
    ["GET", "openai/v1/chat/completions"],
    ["DELETE", "openai/v1/models"],
    ["POST", "openai/v1/files/%2e%2e/chat/completions"],
    ["POST", "openai/v1/files%2f..%2fchat/completions"],
    ["POST", "openai/v1/%zz/chat/completions"],
    ["POST", "nobody/v1/chat/completions"],
  ] as const) {
    assert.deepEqual(await answer(method, path), [404, "route_unmetered"], path);
  }
  assert.equal(provider.calls.length, 0, "no metered call was sent");
});

test("a call in the background, whose usage nobody would see, is not sent", async (t) => {
  const { post, provider, limiter } = await proxied(t);
  await limiter.setSystemDefaults([Limit.quota("requests", 1, { reset: "yearly" })]);
  const call = { model: "gpt-5", input: "hello" };
  const answer = await post("openai/v1/responses", { ...call, background: true, store: true });
  const { error } = (await answer.json()) as { error: { code: string; message: string } };
  assert.deepEqual([answer.status, error.code], [400, "background_unmetered"]);
  assert.match(error.message, /leave out background\.$/);
  assert.equal(provider.calls.length, 0);
  assert.equal((await post("openai/v1/responses", { ...call, background: false })).status, 200);
});

test("the provider gets its own key and few header fields; the caller nothing of the account behind it", async (t) => {
  const { post, provider, limiter } = await proxied(t, {
    answer: () => ({
      ...{ kind: "error", status: 500 },
      headers: {
        ...{ "set-cookie": "a=1", "x-ratelimit-remaining-tokens": "7", "openai-organization": "acme" },
        ...{ "anthropic-ratelimit-requests-limit": "1", "x-request-id": "req_1", "openai-project": "p" },
      },
    }),
  });
  await limiter.setSystemDefaults([TPM]);
  const answer = await post("openai/v1/chat/completions", CHAT, {
    ...{ "openai-beta": "b", "x-stainless-lang": "js", "idempotency-key": "once", "user-agent": "ours/1" },
    ...{
      cookie: "session=1",
      "x-forwarded-for": "10.0.0.1",
      "zael-entity": "somebody",
      "openai-organization": "theirs",
    },
  });
  const { authorization, host, connection, "content-length": length, ...sent } = provider.calls[0]?.headers ?? {};
  assert.equal(authorization, `Bearer ${KEY}`);
  assert.ok(host !== undefined && connection !== undefined && length !== undefined);
  assert.deepEqual(sent, {
    ...{ "content-type": "application/json", accept: "*/*", "accept-encoding": "identity" },
    ...{ "openai-beta": "b", "x-stainless-lang": "js", "idempotency-key": "once", "user-agent": "ours/1" },
  });
  assert.equal(answer.status, 500);
  const names = [...answer.headers.keys()];
  assert.deepEqual(
    names.filter((name) => /cookie|x-ratelimit|anthropic|openai/.test(name)),
    [],
  );
  assert.equal(answer.headers.get("x-request-id"), "req_1");
});

test("a model without a price is refused, and a resource that is switched off, before anything is sent", async (t) => {
  const folder = mkdtempSync(`${tmpdir()}/proxy-`);
  t.after(() => rmSync(folder, { recursive: true }));
  const models = { "gpt-5": { input: 2, output: 10 } };
  writeFileSync(`${folder}/prices.json`, JSON.stringify({ asOf: "2026-11-01", models }));
  const config = "prices: prices.json\nestimate: plain";
  const { post, provider, limiter, left } = await proxied(t, { config, options: { folder } });
  await limiter.setSystemDefaults([Limit.quota("usd", 1_000_000, { reset: "yearly" })]);
  const codeOf = async (body: object) => {
    const answer = await post("openai/v1/chat/completions", body);
    return [answer.status, ((await answer.json()) as { error?: { code: string } }).error?.code];
  };
  assert.deepEqual(await codeOf({ ...CHAT, model: "new" }), [400, "price_missing"]);
  assert.deepEqual(await codeOf({ messages: [] }), [400, "model_missing"]);
  await limiter.setAccess({ resource: "off" }, "disabled");
  assert.equal((await codeOf({ ...CHAT, model: "off" }))[0], 400, "the price is missing first");
  assert.equal(provider.calls.length, 0);
  assert.deepEqual(await codeOf(CHAT), [200, undefined]);
  assert.equal(await left("usd"), 1_000_000 - (100 * 2 + 20 * 10));
  await limiter.setAccess({ resource: "gpt-5" }, "disabled");
  assert.deepEqual(await codeOf(CHAT), [403, "resource_disabled"]);
  assert.equal(provider.calls.length, 1);
});

test("bodies that are no JSON, compressed or too large are refused, and the connection stays usable", async (t) => {
  const { post, provider } = await proxied(t, { options: { bodyMax: 1_000 } });
  const codeOf = async (body: string, headers: Record<string, string> = {}) => {
    const answer = await post("openai/v1/chat/completions", body, headers);
    return [answer.status, ((await answer.json()) as { error: { code: string } }).error.code];
  };
  assert.deepEqual(await codeOf("{"), [400, "body_invalid"]);
  assert.deepEqual(await codeOf("[]"), [400, "body_invalid"]);
  assert.deepEqual(await codeOf("x", { "content-encoding": "gzip" }), [415, "content_encoding_unsupported"]);
  assert.deepEqual(await codeOf("x".repeat(1_001)), [413, "body_too_large"]);
  assert.equal(provider.calls.length, 0);
});

test("a provider that cannot be reached, or answers with an error, costs nothing", async (t) => {
  for (const { kit, status, code } of [
    { kit: { baseUrl: "http://127.0.0.1:9" }, status: 502, code: "provider_unreachable" },
    { kit: { answer: () => ({ kind: "error", status: 503 }) as const }, status: 503, code: undefined },
    { kit: { answer: () => ({ kind: "error", status: 429 }) as const }, status: 429, code: "rate_limit_exceeded" },
  ]) {
    const { post, limiter, left, logged } = await proxied(t, kit);
    await limiter.setSystemDefaults([TPM]);
    const answer = await post("openai/v1/chat/completions", CHAT);
    const { error } = (await answer.json()) as { error: { code?: string | null } };
    assert.deepEqual([answer.status, error.code ?? undefined], [status, code]);
    assert.equal(await left("tpm"), 10_000);
    assert.ok(!logged.join("\n").includes(KEY));
  }
});

test("a provider that was sent a call and hangs up costs its input, as with the adapters", async (t) => {
  const { post, limiter, left } = await proxied(t, { answer: () => ({ kind: "cut" }) });
  await limiter.setSystemDefaults([TPM]);
  const answer = await post("openai/v1/chat/completions", CHAT);
  const { error } = (await answer.json()) as { error: { code: string; message: string } };
  assert.deepEqual([answer.status, error.code], [502, "provider_unreachable"]);
  assert.match(error.message, /ended the connection before it answered/);
  // "Hello?" is 2 tokens.
  assert.equal(await left("tpm"), 10_000 - 2);
});

test("a provider that is silent for --provider-timeout-ms is given up, and costs its input", async (t) => {
  const { post, limiter, left, provider } = await proxied(t, {
    answer: () => new Promise(() => {}),
    options: { providerTimeoutMs: 5_000 },
  });
  await limiter.setSystemDefaults([TPM]);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const asked = post("openai/v1/chat/completions", CHAT);
  await eventually(async () => assert.equal(provider.calls.length, 1));
  t.mock.timers.tick(5_000);
  const answer = await asked;
  const { error } = (await answer.json()) as { error: { code: string; message: string } };
  assert.deepEqual([answer.status, error.code], [504, "provider_timeout"]);
  assert.match(error.message, /sent nothing for 5 s/);
  assert.equal(await left("tpm"), 10_000 - 2);
  assert.equal(await provider.calls[0]?.ended, "left", "the provider hears that it was given up");
});

test("over HTTPS by certificate files, as the service has it", async (t) => {
  const folder = mkdtempSync(`${tmpdir()}/proxy-`);
  t.after(() => rmSync(folder, { recursive: true }));
  const { cert, key } = certificate(folder, "localhost", ["-addext", "subjectAltName=DNS:localhost"]);
  const { url, token, limiter, left } = await proxied(t, { options: { tlsCert: cert, tlsKey: key } });
  await limiter.setSystemDefaults([TPM]);
  const { protocol, port } = new URL(url);
  assert.equal(protocol, "https:");
  const asked = requestTls({
    ...{ host: "localhost", port, path: "/openai/v1/chat/completions", method: "POST", agent: false },
    ...{ ca: readFileSync(cert), headers: { authorization: `Bearer ${token}` } },
  });
  asked.end(JSON.stringify(CHAT));
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  answer.resume();
  await once(answer, "end");
  assert.equal(answer.statusCode, 200);
  assert.equal(await left("tpm"), 10_000 - 120);
});

test("a key that the provider refuses is the proxy's fault, and told as that", async (t) => {
  for (const status of [401, 403]) {
    const { post, limiter, left, logged } = await proxied(t, { answer: () => ({ kind: "error", status }) });
    await limiter.setSystemDefaults([TPM]);
    const answer = await post("anthropic/v1/messages", MESSAGE);
    const { error } = (await answer.json()) as { error: { code: string } };
    assert.deepEqual([answer.status, error.code], [502, "provider_key_refused"]);
    assert.equal(await left("tpm", "claude"), 10_000);
    assert.match(logged.join("\n"), /anthropic refused its key/);
  }
});

test("a caller who leaves pays for what has come, and the provider hears that he has left", async (t) => {
  let goOn = () => {};
  const isPaused = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const { url, token, limiter, provider, left } = await proxied(t, {
    answer: () => text({ text: "word ".repeat(40), pause: (i) => (i === 20 ? isPaused : Promise.resolve()) }),
  });
  await limiter.setSystemDefaults([TPM]);
  const client = new OpenAI({ baseURL: `${url}openai/v1`, apiKey: token, maxRetries: 0 });
  const stream = await client.chat.completions.create({ ...CHAT, stream: true });
  let words = 0;
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content && ++words === 20) break;
  assert.equal(await provider.calls[0]?.ended, "left");
  goOn();
  // 20 words of 5 characters are 25 tokens; "Hello?" is 2.
  await eventually(async () => assert.equal(await left("tpm"), 10_000 - 25 - 2));
});

test("a provider is read as fast as its caller reads: what nobody takes stays with the provider", async (t) => {
  const CHUNK = Buffer.from(`: ${"x".repeat(256 * 1024)}\n\n`);
  let sent = 0;
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const more = () => {
      for (let hasRoom = true; hasRoom && sent < 400; sent++) hasRoom = response.write(CHUNK);
    };
    response.on("drain", more);
    more();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { url, token, limiter } = await proxied(t, {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  });
  await limiter.setSystemDefaults([TPM]);
  const headers = { authorization: `Bearer ${token}` };
  const asked = request(`${url}openai/v1/chat/completions`, { method: "POST", headers });
  asked.end(JSON.stringify({ ...CHAT, stream: true }));
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  // Nobody reads. What sockets keep on the way is a few megabytes of the hundred.
  for (let before = -1, turns = 0; turns < 2_000; turns = sent === before ? turns + 1 : 0) {
    before = sent;
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(sent > 0 && sent < 100, `${sent} chunks were sent`);
  answer.destroy();
});

test("a stop lets calls under way come to their end, and takes nobody new", async (t) => {
  let goOn = () => {};
  const isPaused = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const { url, token, limiter, left, close } = await proxied(t, {
    answer: () => text({ pause: (i) => (i === 1 ? isPaused : Promise.resolve()) }),
  });
  await limiter.setSystemDefaults([TPM]);
  const client = new OpenAI({ baseURL: `${url}openai/v1`, apiKey: token, maxRetries: 0 });
  const stream = (await client.chat.completions.create({ ...CHAT, stream: true }))[Symbol.asyncIterator]();
  await stream.next();
  const closed = close();
  await assert.rejects(client.chat.completions.create(CHAT), (error) => error instanceof APIError);
  goOn();
  let answer = "";
  for (let next = await stream.next(); !next.done; next = await stream.next()) {
    answer += next.value.choices[0]?.delta.content ?? "";
  }
  assert.equal(answer, "one two three");
  await closed;
  assert.equal(await left("tpm"), 10_000 - 120);
});

test("a stop that is over cuts off what is left, and charges what has come", async (t) => {
  const { url, token, limiter, left, close } = await proxied(t, {
    answer: () =>
      text({ text: "word ".repeat(40), pause: (i) => (i === 20 ? new Promise(() => {}) : Promise.resolve()) }),
    options: { drainMs: 0 },
  });
  await limiter.setSystemDefaults([TPM]);
  const client = new OpenAI({ baseURL: `${url}openai/v1`, apiKey: token, maxRetries: 0 });
  const stream = (await client.chat.completions.create({ ...CHAT, stream: true }))[Symbol.asyncIterator]();
  // The first chunk has no word.
  for (let i = 0; i < 21; i++) await stream.next();
  await close();
  await assert.rejects(stream.next());
  assert.equal(await left("tpm"), 10_000 - 25 - 2);
});

test("no more calls are under way than --inflight-max", async (t) => {
  let goOn = () => {};
  const isPaused = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const { post, limiter, provider } = await proxied(t, {
    answer: () => text({ pause: () => isPaused }),
    options: { inflightMax: 1 },
  });
  await limiter.setSystemDefaults([TPM]);
  const first = post("openai/v1/chat/completions", CHAT);
  await eventually(async () => assert.equal(provider.calls.length, 1));
  const second = await post("openai/v1/chat/completions", CHAT);
  assert.deepEqual([second.status, second.headers.get("retry-after")], [503, "1"]);
  goOn();
  assert.equal((await first).status, 200);
});
