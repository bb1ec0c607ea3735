import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { describeOn } from "../engines/describe-on.ts";
import { tokenOf } from "../server/service-kit.ts";

// The block of docs/guide/python.md, run by Python on a service.

const guide = readFileSync(new URL("../../docs/guide/python.md", import.meta.url), "utf8");
const [, BLOCK = "", USE = ""] = guide.split("```python\n").map((part) => part.split("```")[0] ?? "");

test("the block of the guide has at most 75 lines, and imports nothing that has to be installed", () => {
  assert.ok(BLOCK.trimEnd().split("\n").length <= 75, `${BLOCK.trimEnd().split("\n").length} lines`);
  const imported = [...BLOCK.matchAll(/^(?:import|from) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual([...new Set(imported)].sort(), ["contextlib", "json", "time", "urllib", "uuid"]);
});

const version = spawnSync("python3", ["--version"]);
const found = version.status === 0 ? {} : "python3 does not start";

describeOn("python", "the guide to Python", found, () => {
  test("a lease is settled, rolled back by an exception, and refused with the wait", async (t) => {
    const { url, token, left } = await served(t);
    const said = await python(`
limits = Limits(${JSON.stringify(url)}, token=${JSON.stringify(token)})
with limits.lease("key-1", "gpt-5", {"tpm": 500}) as lease:
    assert lease.consumed == {"tpm": 500}, lease.consumed
    lease.settle({"tpm": 730})
with limits.lease("key-1", "gpt-5", {"tpm": 20}):
    pass
try:
    with limits.lease("key-1", "gpt-5", {"tpm": 100}):
        raise ValueError("the model failed")
except ValueError as error:
    print(error)
try:
    with limits.lease("key-1", "gpt-5", {"tpm": 500}):
        raise AssertionError("not refused")
except Limited as refused:
    print(type(refused.retry_after).__name__, refused.problem["code"])
try:
    with limits.lease("", "gpt-5", {"tpm": 1}):
        raise AssertionError("not refused")
except RuntimeError as error:
    print(str(error).split(":")[0])
`);
    assert.deepEqual(said, ["the model failed", "int rate_limit_exceeded", "400 entity_id_invalid"]);
    assert.equal(await left(), 1_000 - 730 - 20);
  });

  test("an answer that is lost is asked for again, and charged once", async (t) => {
    const { url, token, left } = await served(t);
    let lost = 0;
    // Each request reaches the service, and the first answer to each path is dropped.
    const seen = new Set<string>();
    const lossy = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const { authorization = "", "idempotency-key": key = "" } = request.headers;
      const headers = { authorization, "idempotency-key": String(key), "content-type": "application/json" };
      const answer = await fetch(new URL(request.url ?? "", url), {
        method: "POST",
        headers,
        body: Buffer.concat(parts),
      });
      const text = await answer.text();
      if (!seen.has(String(key))) {
        seen.add(String(key));
        lost++;
        response.destroy();
        return;
      }
      response.writeHead(answer.status, { "content-type": "application/json" });
      response.end(text);
    });
    await new Promise<void>((resolve) => lossy.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      lossy.closeAllConnections();
      lossy.close();
    });
    await python(`
limits = Limits("http://127.0.0.1:${(lossy.address() as AddressInfo).port}", token=${JSON.stringify(token)})
with limits.lease("key-1", "gpt-5", {"tpm": 500}) as lease:
    lease.settle({"tpm": 730})
`);
    assert.deepEqual([lost, await left()], [2, 1_000 - 730]);
  });

  test("the example below the block is Python that names what the block has", async () => {
    const names = [...USE.matchAll(/\b(Limits|Limited|\w+\.lease|lease\.settle|retry_after)\b/g)].map(([name]) => name);
    assert.deepEqual([...new Set(names)], ["Limits", "limits.lease", "lease.settle", "Limited", "retry_after"]);
    await python(`import ast\nast.parse(${JSON.stringify(USE)})`);
  });
});

/** A service with 1,000 tokens a year for everybody. */
async function served(t: { after(work: () => Promise<void>): void }) {
  const limiter = await RateLimiter.open({ store: "memory" });
  await limiter.setSystemDefaults([Limit.quota("tpm", 1_000, { reset: "yearly" })]);
  const { token, entry } = tokenOf("python", { namespaces: ["default"], scopes: ["acquire"] });
  const service = await createService({ limiter, tokens: [entry], log: () => {} });
  const { url } = await service.listen({ port: 0 });
  t.after(async () => {
    await service.close();
    await limiter.close();
  });
  const left = async () => (await limiter.available({ entityId: "key-1", resource: "gpt-5" }))[0]?.available;
  return { url, token, left };
}

/** The lines that Python prints of the block and what uses it. */
async function python(program: string): Promise<readonly string[]> {
  const child = spawn("python3", ["-"], { stdio: ["pipe", "pipe", "pipe"] });
  let [said, failed] = ["", ""];
  child.stdout.on("data", (text) => {
    said += text;
  });
  child.stderr.on("data", (text) => {
    failed += text;
  });
  child.stdin.end(`${BLOCK}\n${program}`);
  const code = await new Promise((resolve) => child.once("close", resolve));
  assert.equal(code, 0, failed);
  return said.trimEnd().split("\n");
}
