import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import type { AuthInfo } from "@modelcontextprotocol/sdk/server/auth/types.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { currentLease, Limit, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { type LimitToolsOptions, limitTools } from "../../src/entry/mcp.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

const text = (shown: string): CallToolResult => ({ content: [{ type: "text", text: shown }] });

/** Every sentence of the design on tools, with the SDK that is imported here. */
export function mcpCases(version: string | "the installed one"): void {
  if (version !== "the installed one") {
    test("the SDK is the one that is meant", () => {
      const oldest = createRequire(new URL("../oldest/package.json", import.meta.url));
      const file = oldest.resolve("@modelcontextprotocol/sdk/inMemory.js").replace(/\/dist\/.*$/, "/package.json");
      assert.equal(oldest(file).version, version);
      assert.match(import.meta.resolve("@modelcontextprotocol/sdk/inMemory.js"), /\/test\/oldest\//);
    });
  }

  test("a tool is limited on its own resource, and the refusal is a result that a model understands", async (t) => {
    const { limiter, server, call } = await started(t, { entityId: "key-1" });
    server.registerTool("search", { inputSchema: { query: z.string() } }, ({ query }) => text(`found ${query}`));
    for (let i = 0; i < 2; i++)
      assert.deepEqual((await call("search", { query: "a" })).content, text("found a").content);
    const refused = await call("search", { query: "a" });
    assert.equal(refused.isError, true);
    assert.deepEqual(refused.content, [
      {
        type: "text",
        text: "Rate limited: the tool search was not called, because too little is left of calls. Try again in 30 s.",
      },
    ]);
    const problem = refused.structuredContent as Record<string, unknown>;
    assert.equal(problem.status, 429);
    assert.equal(problem.code, "rate_limit_exceeded");
    assert.deepEqual(problem["violated-policies"], ["calls"]);
    assert.equal(problem.retryAfterMs, 30_000);
    assert.deepEqual(await left(limiter, "key-1", "tool:search"), { calls: 0 });
  });

  test("a tool without an input schema, by `tool` in each of its forms, gets what it would have got", async (t) => {
    const seen: unknown[][] = [];
    const told: unknown[] = [];
    const { server, call } = await started(t, {
      entityId: "key-1",
      resource: ({ tool, args }) => {
        told.push([tool, args]);
        return `tool:${tool}`;
      },
    });
    const callback = (...given: unknown[]) => {
      seen.push(given);
      return text("ok");
    };
    server.registerTool("bare", {}, callback);
    server.tool("a", callback);
    server.tool("b", "described", callback);
    server.tool("c", { n: z.number() }, callback);
    server.tool("d", "described", { n: z.number() }, { readOnlyHint: true }, callback);
    for (const name of ["bare", "a", "b"]) await call(name);
    for (const name of ["c", "d"]) await call(name, { n: 1 });
    assert.deepEqual(
      seen.map((given) => given.length),
      [1, 1, 1, 2, 2],
    );
    for (const given of seen) assert.ok((given.at(-1) as { signal: AbortSignal }).signal instanceof AbortSignal);
    assert.deepEqual(told, [
      ["bare", undefined],
      ["a", undefined],
      ["b", undefined],
      ["c", { n: 1 }],
      ["d", { n: 1 }],
    ]);
  });

  test("a tool leaves what it must leave", async (t) => {
    const { limiter, server, call } = await started(t, { entityId: "key-1", leavePercent: 50 });
    server.registerTool("search", {}, () => text("found"));
    assert.equal((await call("search")).isError, undefined);
    assert.equal((await call("search")).isError, true);
    assert.deepEqual(await left(limiter, "key-1", "tool:search"), { calls: 1 });
    assert.throws(() => limitTools(server, { limiter, entityId: "key-1", leavePercent: 100 }), ValidationError);
  });

  test("tools from before stay free, and a function that is put in later is limited", async (t) => {
    const { limiter, server, call } = await started(t, { entityId: "key-1" }, (bare) => {
      bare.registerTool("free", {}, () => text("free"));
    });
    const tool = server.registerTool("search", {}, () => text("first"));
    for (let i = 0; i < 5; i++) assert.equal((await call("free")).isError, undefined);
    assert.deepEqual((await call("search")).content, text("first").content);
    tool.update({ callback: () => text("second") });
    assert.deepEqual((await call("search")).content, text("second").content);
    assert.equal((await call("search")).isError, true);
    tool.update({ name: "find", description: "another name" });
    assert.deepEqual((await call("find")).content, text("second").content);
    assert.deepEqual(await left(limiter, "key-1", "tool:find"), { calls: 1 });
    tool.disable();
    const disabled = await call("find").catch((error: Error) => text(error.message));
    assert.match((disabled.content[0] as { text: string }).text, /disabled/);
  });

  test("a tool with an output schema is refused without a protocol error: the problem stands in _meta", async (t) => {
    const { server, call, client } = await started(t, { entityId: "key-1" });
    const tool = server.registerTool("sum", { outputSchema: { total: z.number() } }, () => ({
      ...text("3"),
      structuredContent: { total: 3 },
    }));
    server.registerTool("plain", {}, () => text("ok"));
    // The client knows the schemas of the tools that it has listed.
    await client.listTools();
    for (let i = 0; i < 2; i++) assert.deepEqual((await call("sum")).structuredContent, { total: 3 });
    const refused = await call("sum");
    assert.equal(refused.isError, true);
    assert.equal(refused.structuredContent, undefined);
    const problem = refused._meta?.["zae-limiter/problem"] as Record<string, unknown>;
    assert.equal(problem.code, "rate_limit_exceeded");
    assert.match((refused.content[0] as { text: string }).text, /^Rate limited: .* Try again in 30 s\.$/);
    tool.remove();
    assert.equal((await call("plain")).isError, undefined);
  });

  test("a disabled resource and an outage are told alike, without what is wrong with the service", async (t) => {
    const { limiter, store, server, call } = await started(t, { entityId: "key-1" });
    server.registerTool("off", {}, () => text("ok"));
    server.registerTool("search", {}, () => text("ok"));
    await limiter.setAccess({ resource: "tool:off" }, "disabled");
    const off = await call("off");
    assert.equal(off.isError, true);
    assert.deepEqual(off.content, text("The tool off was not called: tool:off is disabled.").content);
    assert.equal((off.structuredContent as { status: number }).status, 403);
    await call("search");
    store.failNext("take", "refused");
    const down = await call("search");
    assert.equal(down.isError, true);
    assert.deepEqual(
      down.content,
      text("The tool search was not called: The rate limiter cannot answer; try again later.").content,
    );
    assert.equal((down.structuredContent as { code: string }).code, "unavailable");
  });

  test("a tool that throws gives back; one that answers isError has worked; wrong arguments take nothing", async (t) => {
    const { limiter, server, call } = await started(t, { entityId: "key-1" });
    server.registerTool("throws", {}, () => {
      throw new Error("no connection");
    });
    server.registerTool("fails", {}, () => ({ ...text("not found"), isError: true }));
    server.registerTool("strict", { inputSchema: { n: z.number() } }, () => text("ok"));
    const thrown = await call("throws");
    assert.equal(thrown.isError, true);
    assert.deepEqual(thrown.content, text("no connection").content);
    assert.deepEqual(await left(limiter, "key-1", "tool:throws"), { calls: 2 });
    assert.deepEqual((await call("fails")).content, text("not found").content);
    assert.deepEqual(await left(limiter, "key-1", "tool:fails"), { calls: 1 });
    const wrong = await call("strict", { n: "many" }).catch((error: Error) => ({ isError: true, error }));
    assert.equal(wrong.isError, true);
    assert.deepEqual(await left(limiter, "key-1", "tool:strict"), { calls: 2 });
  });

  test("a tool that was called and then canceled has been called; one that was canceled before has not", async (t) => {
    const { limiter, server, client } = await started(t, { entityId: "key-1" });
    let begun = () => {};
    const ends = { aborts: () => new DOMException("aborted", "AbortError"), fails: () => new Error("no connection") };
    for (const [name, error] of Object.entries(ends)) {
      const done = new Promise<void>((resolve) => {
        server.registerTool(name, {}, async ({ signal }) => {
          begun();
          if (!signal.aborted) await once(signal, "abort");
          resolve();
          throw error();
        });
      });
      const leaving = new AbortController();
      begun = () => leaving.abort();
      await assert.rejects(client.callTool({ name }, undefined, { signal: leaving.signal }));
      await done;
      await new Promise(setImmediate);
      assert.deepEqual(await left(limiter, "key-1", `tool:${name}`), { calls: 1 });
    }
  });

  test("what a tool consumes, its resource and its entity may be functions; the lease is the current one", async (t) => {
    const { limiter, server, call } = await started(t, {
      entityId: async (extra) => `agent-${extra._meta?.progressToken ?? "none"}`,
      resource: "tools",
      consume: ({ tool, args }) => ({ calls: tool === "batch" ? (args as { n: number }).n : 1 }),
    });
    server.registerTool("batch", { inputSchema: { n: z.number() } }, async () => {
      await currentLease()?.adjust({ calls: -1 });
      return text("ok");
    });
    await call("batch", { n: 2 });
    assert.deepEqual(await left(limiter, "agent-none", "tools"), { calls: 1 });
  });

  test("a call waits for its tokens, and one that is canceled waits no longer", async (t) => {
    const { limiter, clock, server, client, call } = await started(t, { entityId: "key-1", wait: { maxMs: 60_000 } });
    let calls = 0;
    server.registerTool("search", {}, () => text(`${++calls}`));
    for (let i = 0; i < 2; i++) await call("search");
    const waiting = call("search");
    while (clock.nextWakeMs === undefined) await new Promise(setImmediate);
    await clock.advance(30_000);
    assert.deepEqual((await waiting).content, text("3").content);
    const leaving = new AbortController();
    const canceled = client.callTool({ name: "search" }, undefined, { signal: leaving.signal });
    while (clock.nextWakeMs === undefined) await new Promise(setImmediate);
    leaving.abort();
    await assert.rejects(canceled);
    while (clock.nextWakeMs !== undefined) await new Promise(setImmediate);
    await clock.advance(60_000);
    assert.equal(calls, 3);
    assert.deepEqual(await left(limiter, "key-1", "tool:search"), { calls: 2 });
  });

  test("over streamable HTTP each client has its own limit, by what it authenticated with", async (t) => {
    const { limiter, server } = await limited(t, { entityId: (extra) => extra.authInfo?.clientId ?? "anonymous" });
    server.registerTool("search", {}, () => text("found"));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
    await server.connect(transport as Transport);
    const http = createServer((request: IncomingMessage & { auth?: AuthInfo }, response) => {
      const [, clientId = ""] = request.headers.authorization?.split(" ") ?? [];
      request.auth = { token: clientId, clientId, scopes: [] };
      void transport.handleRequest(request, response);
    });
    http.listen(0, "127.0.0.1");
    await once(http, "listening");
    const client = new Client({ name: "test", version: "1.0.0" });
    t.after(async () => {
      await client.close();
      await server.close();
      http.closeAllConnections();
      http.close();
    });
    const url = new URL(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`);
    const headers: Record<string, string> = { authorization: "Bearer agent-1" };
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }) as Transport);
    const ask = async () => (await client.callTool({ name: "search" })) as CallToolResult;
    for (let i = 0; i < 2; i++) assert.equal((await ask()).isError, undefined);
    const refused = await ask();
    assert.equal(refused.isError, true);
    assert.equal((refused.structuredContent as { status: number }).status, 429);
    assert.deepEqual(await left(limiter, "agent-1", "tool:search"), { calls: 0 });
    assert.deepEqual(await left(limiter, "anonymous", "tool:search"), { calls: 2 });
  });

  test("what is wrong is said when the server is limited, not at the first call", async () => {
    const limiter = await RateLimiter.open({ store: "memory" });
    const server = () => new McpServer({ name: "test", version: "1.0.0" });
    assert.throws(() => limitTools({} as never, { limiter, entityId: "a" }), { code: "server_invalid" });
    for (const options of [
      { limiter },
      { limiter: {}, entityId: "a" },
      { limiter, entityId: "" },
      { limiter, entityId: "a", resource: 1 },
      { limiter, entityId: "a", consume: 1 },
      { limiter, entityId: "a", wait: { maxMs: -1 } },
      { limiter, entityId: "a", key: "b" },
    ]) {
      assert.throws(() => limitTools(server(), options as never), ValidationError);
    }
    const given = server();
    assert.equal(limitTools(given, { limiter: Promise.resolve(limiter), entityId: "a" }), given);
    await limiter.close();
  });
}

/** A server whose tools are limited to two calls a minute, on memory, a simulated clock and a store that can fail. */
async function limited(
  t: TestContext,
  options: Omit<LimitToolsOptions, "limiter">,
  before: (server: McpServer) => void = () => {},
) {
  const clock = new SimulatedClock(1_800_000_000_000);
  const store = new FaultStore(openMemory(), {});
  const limiter = await RateLimiter.open({ store, clock });
  t.after(() => limiter.close());
  await limiter.setSystemDefaults([Limit.perMinute("calls", 2)]);
  const bare = new McpServer({ name: "test", version: "1.0.0" });
  before(bare);
  return { clock, store, limiter, server: limitTools(bare, { limiter, ...options }) };
}

/** The same with a client that is connected in memory. Tools are registered while it is. */
async function started(
  t: TestContext,
  options: Omit<LimitToolsOptions, "limiter">,
  before: (server: McpServer) => void = () => {},
) {
  // A server tells what it can before a client connects.
  const around = await limited(t, options, (bare) => {
    bare.registerTool("any", {}, () => text("any"));
    before(bare);
  });
  const client = new Client({ name: "test", version: "1.0.0" });
  const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
  await Promise.all([around.server.connect(serverSide), client.connect(clientSide)]);
  t.after(() => client.close());
  const call = async (name: string, args?: Record<string, unknown>): Promise<CallToolResult> =>
    (await client.callTool(args === undefined ? { name } : { name, arguments: args })) as CallToolResult;
  return { ...around, client, call };
}

async function left(limiter: RateLimiter, entityId: string, resource: string): Promise<Record<string, number>> {
  const all = await limiter.available({ entityId, resource });
  return Object.fromEntries(all.map(({ limit, available }) => [limit, available]));
}
