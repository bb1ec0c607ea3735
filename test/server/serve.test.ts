import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { here } from "../cli/in-process.ts";
import { started } from "../cli/run-bin.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { storyOfInstances, storyTimeout } from "./instances.ts";
import { serving } from "./serve-kit.ts";
import { NS, problem } from "./service-kit.ts";

test("serve says where it listens, serves the API and the page, and ends with 0", storyTimeout, async (t) => {
  const file = tempFile(t);
  const { line, child, ended, call } = await serving(t, ["--store", `sqlite:${file}`]);
  const { version, pid, port, ...rest } = line as unknown as Record<string, unknown>;
  assert.deepEqual(rest, {
    event: "listening",
    url: `http://127.0.0.1:${port}/`,
    host: "127.0.0.1",
    store: `sqlite:${file}`,
    auth: "open",
  });
  assert.deepEqual([pid, /^\d+\.\d+\.\d+/.test(String(version))], [child.pid, true]);
  assert.ok(existsSync(file), "the file is made where there is none");
  assert.equal((await call("GET", "/readyz")).status, 200);
  const page = await fetch(line.url);
  assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
  const [, script] = /src="(\/assets\/[^"]+\.js)"/.exec(await page.text()) ?? [];
  const asset = await fetch(new URL(script ?? "/", line.url));
  assert.deepEqual([asset.status, asset.headers.get("cache-control")], [200, "public, max-age=31536000, immutable"]);
  const etag = asset.headers.get("etag") ?? "";
  assert.equal((await fetch(new URL(script ?? "/", line.url), { headers: { "if-none-match": etag } })).status, 304);
  child.kill("SIGTERM");
  const { code, stdout, stderr } = await ended;
  assert.deepEqual([code, stderr], [0, ""]);
  assert.deepEqual(stdout.trimEnd().split("\n").slice(1), ['{"event":"stopped","reason":"SIGTERM"}']);
});

test("for people it is one sentence; SIGINT ends it with 0; the options reach the service", storyTimeout, async (t) => {
  const file = tempFile(t);
  const tokens = join(dirname(file), "tokens.json");
  const added = await here([
    "token",
    "add",
    tokens,
    "--id",
    "ops",
    "--namespaces",
    "*",
    "--scopes",
    "acquire,read,admin",
    "--json",
  ]);
  const { token } = JSON.parse(added.stdout) as { token: string };
  assert.match(token, /^zael_[A-Za-z0-9_-]{43}$/);
  const { child, ended, said } = started(
    ["serve", "--port", "0", "--no-dashboard", "--hold-ms", "1000", "--on-expiry", "refund", "--unit", "rpm=calls"],
    {
      ZAEL_STORE: `sqlite:${file}`,
      ZAEL_TOKEN_FILE: tokens,
    },
  );
  t.after(() => child.kill("SIGKILL"));
  while (!said.stdout.includes("\n")) await new Promise((resolve) => child.stdout.once("data", resolve));
  const [, url = ""] =
    /^zae-limiter listens on (http:\/\/127\.0\.0\.1:\d+\/) \(sqlite:.*limiter.*, with tokens\)\n$/s.exec(
      said.stdout.replace(file, "limiter"),
    ) ?? [];
  assert.notEqual(url, "", said.stdout);
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  assert.equal((await fetch(url)).status, 404);
  assert.equal((await fetch(`${url}v1/me`)).status, 401);
  const limits = [{ name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 60_000 }];
  await fetch(`${url}${NS.slice(1)}/limits`, { method: "PUT", headers, body: JSON.stringify({ limits }) });
  const taken = await fetch(`${url}${NS.slice(1)}/acquire`, {
    method: "POST",
    headers,
    body: JSON.stringify({ entityId: "a", resource: "b", consume: { rpm: 1 } }),
  });
  assert.equal(((await taken.json()) as { onExpiry: string }).onExpiry, "refund");
  assert.equal(taken.headers.get("ratelimit-policy"), '"rpm";q=5;qu="calls";w=60');
  child.kill("SIGINT");
  assert.equal((await ended).code, 0);
});

test("a service that refuses unknown entities gives a misspelled key no bucket of its own", storyTimeout, async (t) => {
  const { call } = await serving(t, ["--store", "memory", "--unknown-entities", "refuse"]);
  const limits = [{ name: "rpm", capacity: 10, refillAmount: 10, refillPeriodMs: 60_000 }];
  await call("PUT", `${NS}/limits?resource=api`, { body: { limits } });
  const body = { entityId: "kay-1", resource: "api", consume: { rpm: 1 } };
  problem(await call("POST", `${NS}/acquire`, { body }), 404, "entity_not_found");
  problem(await call("PUT", `${NS}/limits?entityId=kay-1`, { body: { limits } }), 404, "entity_not_found");
  problem(await call("PUT", `${NS}/access?entityId=kay-1`, { body: { access: "bypass" } }), 404, "entity_not_found");
  await call("POST", `${NS}/entities`, { body: { id: "kay-1" } });
  assert.equal((await call("POST", `${NS}/acquire`, { body })).status, 201);
});

test("a service counts what callers use beside the buckets, or only what buckets count", storyTimeout, async (t) => {
  const usedBy = async (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const { call } = await serving(t, ["--store", "memory", ...args], env);
    await call("POST", `${NS}/entities`, { body: { id: "acme" } });
    await call("POST", `${NS}/entities`, { body: { id: "key-1", parentId: "acme", cascade: true } });
    await call("PUT", `${NS}/limits?entityId=acme&resource=api`, { body: { limits: ["rpm:100"] } });
    const take = { entityId: "key-1", resource: "api", consume: { rpm: 7 }, holdMs: 0 };
    assert.equal((await call("POST", `${NS}/acquire`, { body: take })).status, 200);
    const { items } = (await call("GET", `${NS}/usage?window=monthly`)).body;
    return items.map(({ entityId, counters }: { entityId: string; counters: object }) => [entityId, counters]);
  };
  const counted = ["acme", { rpm: 7 }];
  assert.deepEqual(await usedBy([]), [counted, ["key-1", { rpm: 7 }]]);
  assert.deepEqual(await usedBy(["--no-caller-usage"]), [counted]);
  assert.deepEqual(await usedBy([], { ZAEL_CALLER_USAGE: "false" }), [counted]);
});

test("a service logs a limit that is left out, and a strict one refuses it", storyTimeout, async (t) => {
  const limits = ["rpm", "tpm"].map((name) => ({ name, capacity: 9, refillAmount: 9, refillPeriodMs: 60_000 }));
  const body = { entityId: "a", resource: "api", consume: { rpm: 1 } };
  const warned = await serving(t, ["--store", "memory"]);
  await warned.call("PUT", `${NS}/limits?resource=api`, { body: { limits } });
  for (let i = 0; i < 2; i++) assert.equal((await warned.call("POST", `${NS}/acquire`, { body })).status, 201);
  assert.match(warned.said.stderr, /^ZAEL_LIMIT_UNNAMED: [^\n]* does not say how much tpm it uses[^\n]*\n$/);
  const uncounted = { ...body, consume: { rpm: 1, tpm: 0, usd: 5 } };
  problem(await warned.call("POST", `${NS}/acquire`, { body: uncounted }), 400, "limit_unknown");
  for (const how of ["ignore", "report"]) {
    const taken = await warned.call("POST", `${NS}/acquire`, { body: { ...uncounted, uncounted: how } });
    assert.deepEqual(taken.body.consumed, { rpm: 1, tpm: 0 });
    assert.equal(/No limit "usd"/.test(warned.said.stderr), how === "report");
  }
  const strict = await serving(t, ["--store", "memory", "--strict"]);
  await strict.call("PUT", `${NS}/limits?resource=api`, { body: { limits } });
  problem(await strict.call("POST", `${NS}/acquire`, { body }), 404, "entity_not_found");
  await strict.call("POST", `${NS}/entities`, { body: { id: "a" } });
  problem(await strict.call("POST", `${NS}/acquire`, { body }), 400, "measure_missing");
  const ignoring = { ...uncounted, uncounted: "ignore" };
  assert.equal((await strict.call("POST", `${NS}/acquire`, { body: ignoring })).status, 201);
  const reporting = { ...uncounted, uncounted: "report" };
  problem(await strict.call("POST", `${NS}/acquire`, { body: reporting }), 400, "limit_unknown");
  assert.equal(strict.said.stderr, "");
});

test("wrong options: 2 and nothing is made; a store or a port that cannot be had: 3", storyTimeout, async (t) => {
  const file = tempFile(t);
  const taken = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => taken.once("listening", resolve));
  t.after(() => taken.close());
  const { port } = taken.address() as { port: number };
  for (const [args, code, message] of [
    [["--port", "x"], 2, /--port is "x"; give a whole number/],
    [["--port", "70000"], 2, /from 0 to 65535/],
    [["--host", "0.0.0.0"], 2, /Without tokens the service listens on this machine only/],
    [["--token-file", "/nowhere/t.json"], 2, /cannot be read/],
    [["--unit", "tpm"], 2, /give LIMIT=UNIT/],
    [["--on-expiry", "x"], 2, /charge/],
    [["--durability", "x"], 2, /normal or full/],
    [["--unknown-entities", "x"], 2, /allow or refuse/],
    [["--unnamed-limits", "x"], 2, /allow or warn or refuse/],
    [["--allow-origin", "x"], 2, /give an origin/],
    [["--namespace", "x"], 2, /leave --namespace out/],
    [["--prot", "1"], 2, /did you mean --port/],
  ] as const) {
    const ran = await here(["serve", "--store", `sqlite:${file}`, ...args]);
    assert.deepEqual([ran.code, ran.stdout], [code, ""], `${args.join(" ")}: ${ran.stderr}`);
    assert.match(ran.stderr, message);
    assert.equal(ran.stderr.trimEnd().split("\n").length, 1);
  }
  assert.equal(existsSync(file), false);
  const busy = await here(["serve", "--store", "memory", "--port", String(port)]);
  assert.deepEqual([busy.code, busy.stdout], [3, ""]);
  assert.match(busy.stderr, /another program uses it/);
  const elsewhere = await here(["serve", "--port", "0", "--store", `sqlite:${process.execPath}/x.db`, "--json"]);
  assert.equal(elsewhere.code, 3);
  assert.equal(JSON.parse(elsewhere.stderr).error.exitCode, 3);
});

test("tokens are added, listed without their hashes, and removed; what is wrong changes nothing", async (t) => {
  const file = join(dirname(tempFile(t)), "folder", "tokens.json");
  const add = (...args: string[]) =>
    here(["token", "add", file, "--namespaces", "default", "--scopes", "acquire", ...args]);
  assert.equal((await add("--id", "a", "--dry-run")).code, 0);
  assert.equal(existsSync(file), false);
  const first = await add("--id", "a");
  assert.match(first.stdout, /^zael_[A-Za-z0-9_-]{43}\n$/);
  assert.equal((await add("--id", "a")).code, 1);
  assert.equal((await add("--id", "b", "--scopes", "write")).code, 2);
  assert.equal((await add()).code, 2);
  assert.equal((await add("--id", "b", "--expires-in", "30d")).code, 0);
  const list = JSON.parse((await here(["token", "list", file, "--json"])).stdout);
  assert.deepEqual(list.items[0], { id: "a", namespaces: ["default"], scopes: ["acquire"] });
  assert.ok(list.items[1].expiresAtMs > Date.now());
  assert.equal((await here(["token", "remove", file, "--id", "nope"])).code, 4);
  assert.equal((await here(["token", "remove", file, "a"])).code, 0);
  assert.deepEqual(
    JSON.parse((await here(["token", "list", file, "--json"])).stdout).items.map(({ id }: { id: string }) => id),
    ["b"],
  );
});

test("SQLite: two services are one, a crash loses no lease, a deploy gives none back", storyTimeout, async (t) => {
  const file = tempFile(t);
  await storyOfInstances(() => serving(t, ["--store", `sqlite:${file}`, "--no-dashboard"]));
});
