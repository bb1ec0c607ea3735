import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import type { DynamoClient } from "../../src/adapters/dynamodb/client.ts";
import type { openTransport } from "../../src/adapters/dynamodb/transport.ts";
import { answer, closed, holding, listening } from "../engines/http-kit.ts";

// The way to DynamoDB as the functions of a stack have it: without undici.

const root = fileURLToPath(new URL("../..", import.meta.url));
const file = join(root, `test/infra/.lambda-http-${process.pid}.mjs`);
const keys = { accessKeyId: "AKID", secretAccessKey: "secret" };
const NOW_MS = Date.UTC(2026, 0, 15, 12);
const LONG = { timeoutMs: 30_000 };
let openTransportOf: typeof openTransport;

before(async () => {
  const { outputFiles } = await build({
    ...{ absWorkingDir: root, entryPoints: ["src/adapters/dynamodb/transport.ts"], bundle: true, write: false },
    ...{ format: "esm", platform: "node", external: ["@aws-sdk/*"] },
    alias: { undici: join(root, "scripts/lambda-http.ts") },
  });
  await writeFile(file, outputFiles[0]?.contents ?? "");
  ({ openTransport: openTransportOf } = await import(pathToFileURL(file).href));
});

after(() => rm(file, { force: true }));

async function open(t: TestContext, endpoint: string, connections: number): Promise<DynamoClient> {
  const client = await openTransportOf({
    region: "eu-west-1",
    endpoint,
    credentials: keys,
    now: () => NOW_MS,
    connections,
  });
  t.after(() => client.close());
  return client;
}

test("requests of a function wait for a connection, and connections are used again", async (t) => {
  const { server, url, held, bodies } = await holding(t, NOW_MS);
  let connections = 0;
  server.on("connection", () => connections++);
  const client = await open(t, url, 1);
  const sending = ["a", "b", "c"].map((body) => client.send("GetItem", body, LONG));
  answer(await held("a"), 200, { Item: { n: { N: "1" } } });
  assert.deepEqual(await sending[0], { kind: "answered", body: { Item: { n: { N: "1" } } } });
  answer(await held("b"), 400, { __type: "x#ThrottlingException", message: "slower" });
  const refused = await sending[1];
  assert.ok(refused?.kind === "failed" && refused.code === "ThrottlingException");
  answer(await held("c"), 200, {});
  assert.equal((await sending[2])?.kind, "answered");
  assert.deepEqual([bodies, connections], [["a", "b", "c"], 1]);
});

test("an answer that is cut off, or does not come at all, is lost; what never reached a connection is unsent", async (t) => {
  const { url, held } = await holding(t, NOW_MS);
  const client = await open(t, url, 1);
  const cut = client.send("UpdateItem", "cut", LONG);
  const half = await held("cut");
  half.writeHead(200, { "content-length": 100 }).write("{");
  half.destroy();
  assert.equal((await cut).kind, "lost");
  const dropped = client.send("UpdateItem", "dropped", LONG);
  (await held("dropped")).destroy();
  assert.equal((await dropped).kind, "lost");
  const free = createServer();
  const port = await listening(t, free);
  await new Promise((resolve) => free.close(resolve));
  const nowhere = await open(t, `http://127.0.0.1:${port}`, 1);
  assert.equal((await nowhere.send("UpdateItem", "x", LONG)).kind, "unsent");
});

test("a request whose time is over before it has a connection is never written", async (t) => {
  const { url, held, bodies } = await holding(t, NOW_MS);
  const client = await open(t, url, 1);
  const first = client.send("UpdateItem", "first", LONG);
  const response = await held("first");
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const waiting = client.send("UpdateItem", "waiting", { timeoutMs: 500 });
  t.mock.timers.tick(500);
  assert.equal((await waiting).kind, "unsent");
  t.mock.timers.reset();
  answer(response, 200, {});
  assert.equal((await first).kind, "answered");
  const next = client.send("UpdateItem", "next", LONG);
  answer(await held("next"), 200, {});
  assert.equal((await next).kind, "answered");
  assert.deepEqual(bodies, ["first", "next"]);
});

test("a function that closes its way to DynamoDB leaves no connection open", async (t) => {
  const { server, url, held } = await holding(t, NOW_MS);
  const client = await open(t, url, 2);
  const sending = client.send("GetItem", "a", LONG);
  answer(await held("a"), 200, {});
  await sending;
  await client.close();
  await closed(server);
  assert.equal((await client.send("GetItem", "b", LONG)).kind, "unsent");
});
