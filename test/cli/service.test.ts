import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { tokenOf } from "../server/service-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";
import { leaseStory } from "./lease-story.ts";
import { started } from "./run-bin.ts";
import { dailyStory } from "./story.ts";

/** A service on a file, with a token for everything, as an operator would have it. */
async function served(t: TestContext) {
  const file = tempFile(t);
  const ops = tokenOf("ops", { scopes: ["acquire", "read", "admin", "refund"] });
  const reader = tokenOf("reader", { namespaces: ["default"], scopes: ["read"] });
  const service = await createService({
    ...{ store: `sqlite:${file}`, tokens: [ops.entry, reader.entry], log: () => {} },
    // It runs in the process of the commands: what it warns of would stand among what they print.
    unnamedLimits: "allow",
  });
  const { url, close } = await service.listen({ port: 0 });
  t.after(close);
  const tokenFile = `${file}.token`;
  writeFileSync(tokenFile, `${ops.token}\n`);
  return { file, url, where: ["--url", url, "--token-file", tokenFile], token: ops.token, reader: reader.token };
}

const errorOf = (stderr: string) =>
  (JSON.parse(stderr) as { error: { code: string; message: string; exitCode: number } }).error;

test("the operator's day over HTTP: the same answers and exit codes as on a store", async (t) => {
  const { where } = await served(t);
  await dailyStory(where, /^ops$/);
});

test("leases over HTTP and on the store of the service are the same ones", async (t) => {
  const { where, url, token, file } = await served(t);
  await leaseStory(where, { url, token });
  await leaseStory(["--store", `sqlite:${file}`], { url, token });
});

test("ids of deleted namespaces are drawn, and may begin with an underscore", async (t) => {
  const { where } = await served(t);
  const recover = async (id: string) => {
    const { code, stderr } = await here(["namespace", "recover", id, "--json", ...where]);
    return [code, errorOf(stderr).code];
  };
  assert.deepEqual(await recover("_0nobodyHasThisId"), [4, "namespace_not_found"]);
  assert.deepEqual(await recover(".."), [2, "namespace_id_invalid"]);
});

test("doctor and version tell of the service and of what the token may do", async (t) => {
  const { where, url, reader } = await served(t);
  const well = JSON.parse((await here(["doctor", "--json", ...where])).stdout);
  assert.deepEqual([well.ok, well.checks.map(({ ok }: { ok: boolean }) => ok)], [true, [true, true, true, true, true]]);
  const limited = await here(["doctor", "--json", "--url", url], { env: { ZAEL_TOKEN: reader } });
  assert.equal(limited.code, 1);
  assert.match(limited.stdout, /reader has read, not acquire, admin/);
  const { store, service } = JSON.parse((await here(["version", "--json", ...where])).stdout);
  assert.deepEqual([store, typeof service], [url, "string"]);
  const nobody = await here(["doctor", "--json", "--url", "http://127.0.0.1:1"]);
  assert.deepEqual([nobody.code, JSON.parse(nobody.stdout).checks[0].ok], [1, false]);
});

test("who may not is told so: no token 3, a missing scope 3, a wrong address 3, and never what the token is", async (t) => {
  const { url, reader, token } = await served(t);
  for (const [args, env, code] of [
    [["entity", "list"], {}, "token_missing"],
    [["entity", "list"], { ZAEL_TOKEN: "zael_wrong" }, "token_unknown"],
    [["entity", "create", "a"], { ZAEL_TOKEN: reader }, "insufficient_scope"],
    [["entity", "list", "-N", "other"], { ZAEL_TOKEN: reader }, "namespace_forbidden"],
  ] as const) {
    const ran = await here([...args, "--url", url, "--json", "--debug"], { env });
    const [line = ""] = ran.stderr.split("\n");
    assert.deepEqual([ran.code, errorOf(line).code], [3, code], ran.stderr);
    for (const secret of [token, reader, "zael_wrong"]) assert.ok(!ran.stderr.includes(secret));
  }
  const refused = await here(["entity", "list", "--url", "http://127.0.0.1:1", "--json"]);
  assert.deepEqual([refused.code, errorOf(refused.stderr).code], [3, "unavailable"]);
});

test("the service or a store: one of them, and what only a store can do is refused", async (t) => {
  const { where, url, file, token } = await served(t);
  const env = { ZAEL_URL: url, ZAEL_TOKEN: token };
  assert.equal((await here(["entity", "list", "--json"], { env })).code, 0, "by the environment");
  // An option wins over the environment.
  assert.equal(
    (await here(["entity", "list", "--store", `sqlite:${file}`], { env: { ZAEL_URL: "http://127.0.0.1:1" } })).code,
    0,
  );
  writeFileSync(`${file}.hashes`, JSON.stringify({ tokens: [] }));
  for (const [args, given, message] of [
    [["entity", "list", "--store", "sqlite:x", ...where], {}, /give one of them/],
    [["entity", "list"], { ...env, ZAEL_STORE: `sqlite:${file}` }, /unset one/],
    [["entity", "create", "a", "--principal", "me", ...where], {}, /names the token/],
    [["init", ...where], {}, /does not work over a service/],
    [["init"], env, /does not work over a service/],
    [["serve"], env, /does not work over a service/],
    [["loadtest"], env, /does not work over a service/],
    [["entity", "list", "--url", "limits.internal"], {}, /give an http or https URL/],
    [["entity", "list", "--url", "ftp://limits.internal"], {}, /give an http or https URL/],
    [["entity", "list", "--url", url, "--token-file", `${file}.none`], {}, /cannot be read/],
    [["entity", "list", "--url", url, "--token-file", `${file}.hashes`], {}, /has only hashes/],
    [["events", "follow", "--store", `sqlite:${file}`], {}, /give --url/],
  ] as const) {
    const ran = await here([...args], { env: given });
    assert.deepEqual([ran.code, ran.stdout], [2, ""], `${args.join(" ")}: ${ran.stderr}`);
    assert.match(ran.stderr, message);
  }
});

test("events follow shows refusals as they happen, by filter, and ends by Ctrl-C with 0", async (t) => {
  const { where, file } = await served(t);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}` });
  t.after(() => limiter.close());
  await limiter.setResourceDefaults("api", [Limit.quota("money", 1, { reset: "monthly" })]);
  const run = started(["events", "follow", "-t", "refused", "-e", "key-1", ...where]);
  t.after(() => run.child.kill("SIGKILL"));
  // Asked again until the stream stands: what happened before it is not told.
  while (!run.said.stdout.includes("\n")) {
    assert.equal(run.child.exitCode, null, run.said.stderr);
    for (const id of ["key-1", "key-2"])
      await here(["acquire", id, "api", "-c", "money=1", "--allow-unknown", ...where]);
  }
  run.child.kill("SIGINT");
  const { code, stdout, stderr } = await run.ended;
  assert.deepEqual([code, stderr], [0, ""]);
  const [first] = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual([first.type, first.entityId, first.resource], ["refused", "key-1", "api"]);
  assert.ok(!stdout.includes("key-2"));
});

test("system set-defaults --on-unavailable over HTTP writes back only what it read, where the service has tags", async (t) => {
  // Somebody changes the limits between the first read and the write.
  let stored = { tag: '"1"', limits: [{ ...Limit.perMinute("rpm", 1) }] };
  const writes: unknown[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const answer = (status: number, body: object) =>
      response.writeHead(status, { "content-type": "application/json", etag: stored.tag }).end(JSON.stringify(body));
    if (request.method === "GET") return void answer(200, { level: "system", limits: stored.limits });
    if (stored.tag === '"1"') stored = { tag: '"2"', limits: [{ ...Limit.perMinute("rpm", 2) }] };
    const body = JSON.parse(Buffer.concat(chunks).toString());
    if (request.headers["if-match"] !== stored.tag)
      return void answer(412, { code: "precondition_failed", detail: "Changed." });
    writes.push(body);
    answer(200, { level: "system", ...body, changed: true });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ran = await here(["system", "set-defaults", "--on-unavailable", "allow", "--json", "--url", url]);
  assert.equal(ran.code, 0, ran.stderr);
  assert.deepEqual(writes, [{ limits: [{ ...Limit.perMinute("rpm", 2) }], onUnavailable: "allow" }]);
});
