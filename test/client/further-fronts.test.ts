import assert from "node:assert/strict";
import { test } from "node:test";
import { Anthropic, RateLimitError } from "@anthropic-ai/sdk";
import middy from "@middy/core";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { Get } from "@nestjs/common";
import { APICallError, generateText, streamText, wrapLanguageModel } from "ai";
import fastify from "fastify";
import { startProvider } from "../../examples/fake-provider/provider.ts";
import { ClientLimiter } from "../../src/client/client.ts";
import { rateLimitMiddleware } from "../../src/entry/ai.ts";
import { limitAnthropic, refusalOf } from "../../src/entry/anthropic.ts";
import { rateLimit as fastifyRateLimit } from "../../src/entry/fastify.ts";
import { type ClosedRequest, rateLimit as fetchRateLimit } from "../../src/entry/fetch.ts";
import { currentLease, RateLimitExceeded } from "../../src/entry/index.ts";
import { type LambdaHttpEvent, rateLimit as lambdaRateLimit, rateLimitMiddy } from "../../src/entry/lambda.ts";
import { limitTools } from "../../src/entry/mcp.ts";
import { chatModel } from "../llm/chat-model.ts";
import { degradedEvents, eventually } from "../llm/limited-provider.ts";
import { controllerOf, decorate, PLATFORMS, startNest } from "../middleware/nest-kit.ts";
import { served } from "./served.ts";

// Each front over a client of a service instead of a limiter of its own process: charged, corrected, given back, refused.

const OPTIONS = { key: () => "key-1", resource: "web", consume: { rpm: 1, tpm: 300 } };

test("Fastify behind a client of a service: charged, adjusted, refused, and told by the service's own fields", async (t) => {
  const { limiter, left } = await served(t);
  const app = fastify();
  t.after(() => app.close());
  await app.register(fastifyRateLimit, { limiter, ...OPTIONS });
  app.get("/", async (request) => {
    await request.lease?.adjust({ tpm: -200 });
    return "done";
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  const first = await fetch(url);
  assert.equal(await first.text(), "done");
  assert.match(first.headers.get("ratelimit") ?? "", /"rpm";r=1/);
  await (await fetch(url)).text();
  assert.deepEqual(await left("web"), { rpm: 0, tpm: 800 });
  const refused = await fetch(url);
  assert.deepEqual([refused.status, refused.headers.get("retry-after")], [429, "30"]);
  assert.equal(((await refused.json()) as { code: string }).code, "rate_limit_exceeded");
});

test("a handler of the web platform behind a client of a service: open while its body runs, given back where it throws", async (t) => {
  const { limiter, left } = await served(t);
  let ended = () => {};
  const closed = new Promise<void>((resolve) => {
    ended = resolve;
  });
  const statuses: unknown[] = [];
  const handler = fetchRateLimit(
    async (request: Request) => {
      if (request.url.endsWith("/throws")) throw new RangeError("no");
      const lease = currentLease();
      return new Response(
        new ReadableStream({
          async pull(controller) {
            statuses.push(lease?.status);
            await lease?.adjust({ tpm: -200 });
            controller.enqueue(new TextEncoder().encode("done"));
            controller.close();
          },
        }),
      );
    },
    { limiter, ...OPTIONS, onClosed: ended },
  );
  await assert.rejects(handler(new Request("http://localhost/throws")), RangeError);
  assert.deepEqual(await left("web"), { rpm: 2, tpm: 1_000 });
  const response = await handler(new Request("http://localhost/"));
  assert.match(response.headers.get("ratelimit") ?? "", /"rpm";r=1/);
  assert.equal(await response.text(), "done");
  await closed;
  assert.deepEqual([statuses, await left("web")], [["open"], { rpm: 1, tpm: 900 }]);
});

for (const [name, wrapped] of [
  [
    "a function on Lambda",
    (handler: (event: LambdaHttpEvent) => Promise<object>, options: never) => lambdaRateLimit(handler, options),
  ],
  [
    "Middy",
    (handler: (event: LambdaHttpEvent) => Promise<object>, options: never) =>
      middy(handler as never).use(rateLimitMiddy(options) as never) as never,
  ],
] as const) {
  test(`${name} behind a client of a service: what it owes is stored before it answers`, async (t) => {
    const { limiter, left } = await served(t);
    const handler = wrapped(
      async (event) => {
        await event.lease?.adjust({ tpm: -200 });
        return { statusCode: 200, body: "done" };
      },
      { limiter, ...OPTIONS } as never,
    ) as (event: LambdaHttpEvent, context: object) => Promise<{ statusCode: number; headers: Record<string, string> }>;
    const ask = () => handler({}, { getRemainingTimeInMillis: () => 3_000 });
    const first = await ask();
    assert.match(first.headers.ratelimit ?? "", /"rpm";r=1/);
    await ask();
    assert.deepEqual(await left("web"), { rpm: 0, tpm: 800 });
    const refused = await ask();
    assert.deepEqual([refused.statusCode, refused.headers["retry-after"]], [429, "30"]);
  });
}

for (const platform of PLATFORMS) {
  test(`Nest on ${platform.platform} behind a client of a service: charged, adjusted and refused`, async (t) => {
    const { limiter, left } = await served(t);
    class Chat {
      async ask(): Promise<string> {
        await currentLease()?.adjust({ tpm: -200 });
        return "done";
      }
    }
    decorate(Chat, "ask", [Get()]);
    const { url, nextClosed } = await startNest(t, platform, { limiter, ...OPTIONS }, [controllerOf("chat", Chat)]);
    for (let i = 0; i < 2; i++) {
      assert.equal(await (await fetch(`${url}/chat`)).text(), "done");
      assert.equal((await nextClosed()).lease.status, "settled");
    }
    assert.deepEqual(await left("web"), { rpm: 0, tpm: 800 });
    const refused = await fetch(`${url}/chat`);
    assert.deepEqual([refused.status, refused.headers.get("retry-after")], [429, "30"]);
  });
}

const USAGE = { input: 20, output: 30 };
const ASKED = [{ role: "user" as const, content: "What is a token bucket?" }];

test("Anthropic behind a client of a service: settled by what was used, whole and streamed, and refused as its own error", async (t) => {
  const { limiter, left } = await served(t);
  const provider = await startProvider(() => ({ kind: "text", text: "An answer.", usage: USAGE }));
  t.after(() => provider.close());
  const anthropic = limitAnthropic(new Anthropic({ apiKey: "sk-test", baseURL: provider.url }), {
    limiter,
    entityId: "key-1",
  });
  const params = { model: "claude-sonnet-5", max_tokens: 100, messages: ASKED };
  await anthropic.messages.create(params);
  assert.deepEqual(await left("claude-sonnet-5"), { rpm: 1, tpm: 950 });
  for await (const _ of await anthropic.messages.create({ ...params, stream: true }));
  assert.deepEqual(await left("claude-sonnet-5"), { rpm: 0, tpm: 900 });
  const error = await anthropic.messages.create(params).then(undefined, (reason: unknown) => reason);
  assert.ok(error instanceof RateLimitError);
  assert.ok(refusalOf(error) instanceof RateLimitExceeded);
  assert.equal(provider.calls.length, 2);
});

test("the AI SDK behind a client of a service: settled by what was used, whole and streamed, and refused", async (t) => {
  const { limiter, left } = await served(t);
  const provider = await startProvider(() => ({ kind: "text", text: "An answer.", usage: USAGE }));
  t.after(() => provider.close());
  const model = wrapLanguageModel({
    model: chatModel(provider.url, "gpt-5", APICallError) as never,
    middleware: rateLimitMiddleware({ limiter, entityId: "key-1" }),
  });
  const asked = { model, prompt: "What is a token bucket?", maxOutputTokens: 100 };
  assert.equal((await generateText(asked)).text, "An answer.");
  assert.deepEqual(await left("gpt-5"), { rpm: 1, tpm: 950 });
  assert.equal(await streamText(asked).text, "An answer.");
  await eventually(async () => assert.deepEqual(await left("gpt-5"), { rpm: 0, tpm: 900 }));
  await assert.rejects(generateText(asked), RateLimitExceeded);
  assert.equal(provider.calls.length, 2);
});

test("MCP behind a client of a service: charged, given back where a tool throws, and refused in words", async (t) => {
  const { limiter, left } = await served(t);
  const server = limitTools(new McpServer({ name: "tools", version: "1.0.0" }), { limiter, entityId: "key-1" });
  let isBroken = true;
  server.registerTool("search", {}, async () => {
    if (isBroken) throw new RangeError("no");
    await currentLease()?.adjust({ tpm: 99 });
    return { content: [{ type: "text", text: "found" }] };
  });
  const client = new Client({ name: "test", version: "1.0.0" });
  const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(serverSide), client.connect(clientSide)]);
  t.after(() => client.close());
  const call = () => client.callTool({ name: "search" });
  assert.equal((await call()).isError, true);
  assert.deepEqual(await left("tool:search"), { rpm: 2, tpm: 1_000 });
  isBroken = false;
  for (let i = 0; i < 2; i++) assert.deepEqual((await call()).content, [{ type: "text", text: "found" }]);
  assert.deepEqual(await left("tool:search"), { rpm: 0, tpm: 800 });
  const refused = await call();
  assert.equal(refused.isError, true);
  assert.match(JSON.stringify(refused.content), /Rate limited: the tool search was not called.*Try again in 30 s/);
});

test("a request that outlasts the hold of its lease ends as any other: there is nothing left to store", async (t) => {
  const { url } = await served(t);
  const degraded = degradedEvents(t);
  let nowMs = 0;
  const never = (_ms: number, signal: AbortSignal | undefined) =>
    new Promise<void>((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  const limiter = new ClientLimiter({ url, holdMs: 1_000 }, { now: () => nowMs, sleep: never });
  const closed: unknown[] = [];
  const options = { limiter, ...OPTIONS, onClosed: ({ lease }: ClosedRequest) => void closed.push(lease.status) };
  const handler = fetchRateLimit(() => {
    // A process that slept: no timer has renewed the hold.
    nowMs += 2_000;
    return new Response(null, { status: 204 });
  }, options);
  assert.equal((await handler(new Request("http://localhost/"))).status, 204);
  await eventually(async () => assert.deepEqual(closed, ["expired"]));
  assert.deepEqual(degraded, []);
});
