import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import express from "express";
import { Hono } from "hono";
import { OpenAI, RateLimitError } from "openai";
import { startProvider } from "../../examples/fake-provider/provider.ts";
import { rateLimit as expressRateLimit } from "../../src/entry/express.ts";
import { rateLimit as honoRateLimit } from "../../src/entry/hono.ts";
import { currentLease, RateLimitExceeded } from "../../src/entry/index.ts";
import { limitTool } from "../../src/entry/llm.ts";
import { limitOpenAI, refusalOf } from "../../src/entry/openai.ts";
import { served } from "./served.ts";

test("Express behind a client of a service: charged, adjusted, refused, and told by the service's own fields", async (t) => {
  const { limiter, left } = await served(t);
  const app = express();
  app.use(expressRateLimit({ limiter, key: () => "key-1", resource: "chat", consume: { rpm: 1, tpm: 300 } }));
  app.get("/", async (_req, res) => {
    await currentLease()?.adjust({ tpm: -200 });
    res.send("done");
  });
  const server = app.listen(0, "127.0.0.1");
  t.after(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const first = await fetch(url);
  assert.equal(await first.text(), "done");
  assert.match(first.headers.get("ratelimit") ?? "", /"rpm";r=1/);
  await (await fetch(url)).text();
  assert.deepEqual(await left("chat"), { rpm: 0, tpm: 800 });
  const refused = await fetch(url);
  assert.equal(refused.status, 429);
  assert.equal(refused.headers.get("retry-after"), "30");
  assert.match(refused.headers.get("ratelimit") ?? "", /"rpm";r=0/);
  assert.equal(((await refused.json()) as { code: string }).code, "rate_limit_exceeded");
});

test("Hono behind a client of a service: what fails is given back", async (t) => {
  const { limiter, left } = await served(t);
  const app = new Hono();
  const options = { limiter, key: () => "key-1", resource: "web", consume: { rpm: 1, tpm: 10 } };
  const closed = new Promise((onClosed) => void app.use(honoRateLimit({ ...options, onClosed })));
  app.get("/", (c) => c.text("no", 500));
  const response = await app.request("/");
  assert.equal(response.status, 500);
  await response.text();
  await closed;
  assert.deepEqual(await left("web"), { rpm: 2, tpm: 1_000 });
});

test("OpenAI behind a client of a service: settled by what was used, whole and streamed, and refused as its own error", async (t) => {
  const { limiter, left } = await served(t);
  const usage = { input: 20, output: 30 };
  const provider = await startProvider(() => ({ kind: "text", text: "An answer.", usage }));
  t.after(() => provider.close());
  const openai = limitOpenAI(new OpenAI({ apiKey: "sk-test", baseURL: `${provider.url}/v1` }), {
    limiter,
    entityId: "key-1",
  });
  const messages = [{ role: "user" as const, content: "What is a token bucket?" }];
  await openai.chat.completions.create({ model: "gpt-5", messages, max_tokens: 100 });
  assert.deepEqual(await left("gpt-5"), { rpm: 1, tpm: 950 });
  const stream = await openai.chat.completions.create({ model: "gpt-5", messages, max_tokens: 100, stream: true });
  for await (const _ of stream);
  assert.deepEqual(await left("gpt-5"), { rpm: 0, tpm: 900 });
  const error = await openai.chat.completions
    .create({ model: "gpt-5", messages, max_tokens: 100 })
    .then(undefined, (reason: unknown) => reason);
  assert.ok(error instanceof RateLimitError);
  assert.ok(refusalOf(error) instanceof RateLimitExceeded);
  assert.equal(provider.calls.length, 2);
});

test("a tool behind a client of a service: charged where it works, given back where it throws", async (t) => {
  const { limiter, left } = await served(t);
  const tool = limitTool(
    async (word: string) => {
      if (word === "") throw new RangeError("no word");
      return word.length;
    },
    { limiter, entityId: "key-1", resource: "tool:count", consume: { rpm: 1, tpm: 5 } },
  );
  assert.equal(await tool("four"), 4);
  await assert.rejects(tool(""), RangeError);
  assert.deepEqual(await left("tool:count"), { rpm: 1, tpm: 995 });
});
