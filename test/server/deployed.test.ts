import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createService } from "../../src/entry/server.ts";
import { zaeLimiter } from "../cli/run-bin.ts";
import { serving } from "./serve-kit.ts";
import { NS, raw, serviceOf, tokenOf } from "./service-kit.ts";

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-deployed-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** What is answered to a request with these fields and no others. */
function asked(port: number, path: string, headers: Readonly<Record<string, string>>): Promise<[number, string]> {
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: "127.0.0.1", path, headers, setHost: false }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve([response.statusCode ?? 0, text]));
    });
    sent.on("error", reject);
    sent.end();
  });
}

test("the image has the packages that any store asks for", () => {
  const installed = readFileSync("Dockerfile", "utf8").match(/^RUN npm install .*$/m)?.[0] ?? "";
  const asked = globSync("src/adapters/**/*.ts")
    .filter((path) => !path.endsWith(".test.ts"))
    .flatMap((path) =>
      [...readFileSync(path, "utf8").matchAll(/\bawait import\("([^"]+)"\)/g)].map(([, name = ""]) => name),
    )
    .filter((name) => !/^(\.|node:)/.test(name));
  assert.ok(asked.includes("pg") && asked.includes("undici"), String(asked));
  assert.deepEqual(
    asked.filter((name) => !installed.includes(` ${name}@`)),
    [],
  );
});

test("probes are answered whatever the Host says, and nothing else is", async (t) => {
  const { port } = await serviceOf(t);
  for (const host of ["10.1.2.3:4780", "ip-10-1-2-3.internal", "rebound.example.com"]) {
    assert.deepEqual(await asked(port, "/healthz", { host }), [200, '{"status":"ok"}']);
    assert.deepEqual(await asked(port, "/readyz", { host }), [200, '{"status":"ready"}']);
    for (const path of ["/v1/me", "/metrics", "/", "/openapi.json", `${NS}/limits`, "/healthz/x"]) {
      assert.equal((await asked(port, path, { host }))[0], 421, path);
    }
  }
  // As old health checks ask: without a Host.
  assert.match(await raw(port, "GET /healthz HTTP/1.0\r\n\r\n"), /^HTTP\/1\.1 200 /);
});

test("metrics have a port of their own, by any name, for who has a token, and nothing else is there", async (t) => {
  const scraper = tokenOf("scraper", { scopes: ["read"] });
  const service = await createService({ store: "memory", tokens: [scraper.entry], metricsPort: 0, log: () => {} });
  const { metricsUrl = "", close } = await service.listen({ port: 0 });
  t.after(close);
  const port = Number(new URL(metricsUrl).port);
  const headers = { host: "10.1.2.3:9090", authorization: `Bearer ${scraper.token}` };
  const [status, text] = await asked(port, "/metrics", headers);
  assert.equal(status, 200);
  assert.match(text, /^zae_limiter_info\{/m);
  assert.equal((await asked(port, "/metrics", { host: "10.1.2.3" }))[0], 401);
  assert.equal((await asked(port, "/readyz", { host: "10.1.2.3" }))[0], 200);
  for (const path of ["/v1/me", `${NS}/limits`, "/"]) assert.equal((await asked(port, path, headers))[0], 404, path);
  // Open, it is for this machine alone, where pages may ask: then the name counts.
  const open = await createService({ store: "memory", metricsPort: 0, log: () => {} });
  const listening = await open.listen({ port: 0 });
  t.after(listening.close);
  const openPort = Number(new URL(listening.metricsUrl ?? "").port);
  assert.equal((await asked(openPort, "/metrics", { host: "rebound.example.com" }))[0], 421);
  assert.equal((await asked(openPort, "/metrics", { host: `localhost:${openPort}` }))[0], 200);
  // Both ports or none: where the second is taken, the first is free again.
  const late = await createService({ store: "memory", metricsPort: openPort, log: () => {} });
  t.after(late.close);
  const gone = await (await createService({ store: "memory", log: () => {} })).listen({ port: 0 });
  await gone.close();
  const taken = { code: "port_unavailable", message: new RegExp(`port ${openPort}:`) };
  for (let again = 0; again < 2; again++) await assert.rejects(late.listen({ port: gone.port }), taken);
});

test("every option of serve can be given by the environment, and what is given wins", {
  timeout: 60_000,
}, async (t) => {
  const folder = folderOf(t);
  const env = {
    ZAEL_STORE: `sqlite:${join(folder, "limiter.db")}`,
    ZAEL_ALLOW_HOST: "limits.example.com,other.example.com",
    ZAEL_BODY_MAX: "1000",
    ZAEL_HOLD_MS: "2000",
    ZAEL_DASHBOARD: "false",
    ZAEL_METRICS_PORT: "0",
    ZAEL_UNIT: "tpm=tokens",
    ZAEL_UNNAMED_LIMITS: "refuse",
    ZAEL_PORT: "1",
  };
  const { line, call } = await serving(t, [], env);
  assert.notEqual(line.port, 1, "--port was given");
  assert.equal((await asked(line.port, "/v1/me", { host: "other.example.com" }))[0], 200);
  assert.equal((await call("GET", "/")).status, 404, "no dashboard");
  assert.equal((await call("POST", `${NS}/entities`, { body: { id: "a", name: "x".repeat(2_000) } })).status, 413);
  assert.match((line as unknown as { metricsUrl: string }).metricsUrl, /^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
  const limits = [{ name: "tpm", capacity: 10, refillAmount: 10, refillPeriodMs: 60_000 }];
  await call("PUT", `${NS}/limits`, { body: { limits } });
  const taken = await call("POST", `${NS}/acquire`, { body: { entityId: "a", resource: "r", consume: { tpm: 1 } } });
  assert.match(taken.headers.get("ratelimit-policy") ?? "", /qu="tokens"/);
  assert.ok(taken.body.expiresAtMs <= Date.now() + 2_000);
});

/** A certificate for localhost that lasts a day. */
function certificate(folder: string, name: string): { cert: string; key: string } {
  const [cert, key] = [join(folder, `${name}.crt`), join(folder, `${name}.key`)];
  const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=DNS:localhost"];
  const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"];
  execFileSync("openssl", [...made, "-keyout", key, "-out", cert, ...subject], { stdio: "ignore" });
  return { cert, key };
}

test("HTTPS by certificate files, which are read again when they are renewed", { timeout: 60_000 }, async (t) => {
  const folder = folderOf(t);
  const [first, renewed, other] = ["first", "renewed", "other"].map((name) => certificate(folder, name));
  assert.ok(first !== undefined && renewed !== undefined && other !== undefined);
  t.mock.timers.enable({ apis: ["setInterval"] });
  const log: string[] = [];
  const service = await createService({
    ...{ store: "memory", tlsCert: first.cert, tlsKey: first.key, log: (line: string) => log.push(line) },
  });
  const { url, port, close } = await service.listen({ port: 0 });
  t.after(close);
  assert.match(url, /^https:/);
  const seen = (ca: string) =>
    new Promise<string>((resolve, reject) => {
      get({ port, host: "localhost", path: "/healthz", ca, agent: false }, (response) => {
        response.resume();
        resolve(String(response.statusCode));
      }).on("error", reject);
    });
  assert.equal(await seen(readFileSync(first.cert, "utf8")), "200");
  writeFileSync(first.cert, readFileSync(renewed.cert));
  t.mock.timers.tick(10_000);
  assert.match(log.at(-1) ?? "", /not a certificate and its key.*stays/, "half of a renewal");
  writeFileSync(first.key, readFileSync(renewed.key));
  t.mock.timers.tick(10_000);
  assert.equal(await seen(readFileSync(renewed.cert, "utf8")), "200");
  await assert.rejects(
    createService({ store: "memory", tlsCert: first.cert, tlsKey: other.key }).then((one) => one.listen({ port: 0 })),
    { code: "option_invalid" },
  );
  await assert.rejects(createService({ store: "memory", tlsCert: first.cert }), { code: "option_invalid" });
});

test("the systemd unit of the guide starts a service as it stands, with a token file that root may change", {
  timeout: 60_000,
}, async (t) => {
  const folder = folderOf(t);
  const guide = readFileSync(new URL("../../docs/guide/deploying.md", import.meta.url), "utf8");
  const [, unit = ""] = /```ini\n([\s\S]*?)```/.exec(guide) ?? [];
  const fields = new Map(unit.split("\n").map((line) => line.split(/=(.*)/s, 2) as [string, string]));
  // A user that changes with every start could not read the file; npx would keep the signal.
  assert.equal(fields.has("DynamicUser"), false);
  assert.equal(fields.get("User"), "zae-limiter");
  const [node, main, command, ...args] = (fields.get("ExecStart") ?? "").split(" ");
  assert.deepEqual([node, command], ["/usr/bin/node", "serve"]);
  const { bin } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    bin: Record<string, string>;
  };
  assert.equal(main, `/opt/zae-limiter/node_modules/zae-limiter/${bin["zae-limiter"]}`);
  const placed = args.map((arg) =>
    arg.replace("/var/lib/zae-limiter", folder).replace("/etc/zae-limiter", join(folder, "etc")),
  );
  const file = placed.at(-1) ?? "";
  const add = ["token", "add", file, "--namespaces", "default", "--scopes", "acquire"];
  assert.equal((await zaeLimiter([...add, "--id", "gateway"])).code, 0);
  const { call, child, ended } = await serving(t, placed);
  const { stdout } = await zaeLimiter([...add, "--id", "second"]);
  while ((await call("GET", "/v1/me", { token: stdout.trim() })).status !== 200);
  child.kill("SIGTERM");
  assert.equal((await ended).code, 0);
});
