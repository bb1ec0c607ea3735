import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { describeOn } from "../engines/describe-on.ts";
import { tokenOf } from "../server/service-kit.ts";
import { edgeOf } from "./grpc-kit.ts";
import {
  application,
  ask,
  blockOf,
  configured,
  envoyBinary,
  installed,
  proxy,
  traefikBinary,
  withPorts,
} from "./proxies.ts";

const TENANT = { "x-tenant": "acme", "x-model": "gpt-5" };

/** Waits for what a proxy does after its response. */
async function eventually(check: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (await check()) return;
    await sleep(25);
  }
  assert.fail("it did not happen");
}

describeOn("envoy", "Envoy by the configuration of its guide", await envoyBinary(), ({ path }) => {
  /** Envoy in front of an application, on a service whose limits the test sets. */
  async function through(t: Parameters<typeof edgeOf>[0], respond: Parameters<typeof application>[1] = () => ({})) {
    const text = blockOf("envoy", "yaml", 0);
    const edge = await edgeOf(t, { text });
    const app = await application(t, respond);
    const limits = Number(new URL(edge.grpcUrl.replace("grpc", "http")).port);
    const { port, file } = await configured(t, "envoy.yaml", (port) =>
      // On a busy machine an answer may take longer than in production.
      withPorts(blockOf("envoy", "yaml", 1).replace("timeout: 0.25s", "timeout: 30s"), {
        8080: port,
        3000: app.port,
        4790: limits,
      }),
    );
    const command = [path, "-c", file, "--base-id", String(port), "--concurrency", "1", "-l", "error"];
    await proxy(t, command, port);
    return { ...edge, app, get: (headers: Record<string, string>) => ask(port, "/", headers) };
  }

  test("lets through what fits and refuses the rest with its wait and the problem", async (t) => {
    const { get, clock } = await through(t);
    const first = await get({});
    assert.equal(first.status, 200);
    assert.match(String(first.headers.ratelimit), /^"rps";r=\d/);
    const statuses = [];
    for (let i = 0; i < 6; i++) statuses.push((await get({})).status);
    assert.ok(statuses.includes(429), statuses.join());
    const refused = await get({});
    assert.deepEqual([refused.status, refused.headers["retry-after"]], [429, "1"]);
    assert.equal(JSON.parse(refused.body).code, "rate_limit_exceeded");
    clock.set(clock.now() + 1_000);
    assert.equal((await get({})).status, 200);
  });

  test("holds the estimate and settles to the true number when the response has ended", async (t) => {
    const { get, left, limiter, app } = await through(t, () => ({ "x-tokens": "730" }));
    await limiter.setLimits("acme", [{ name: "tpm", capacity: 1_000, refillAmount: 1, refillPeriodMs: 86_400_000 }]);
    assert.equal((await get(TENANT)).status, 200);
    assert.match(String(app.seen.at(-1)?.["zael-lease"]), /^l_/);
    await eventually(async () => (await left("acme", "gpt-5")).tpm === 270);
    // The rest is less than the estimate: nothing reaches the application, and nothing is taken of the address.
    const before = await left("ip-127.0.0.1", "http");
    assert.equal((await get(TENANT)).status, 429);
    assert.deepEqual(await left("ip-127.0.0.1", "http"), before);
  });

  test("a response without the number leaves the lease to its end", async (t) => {
    const { get, left, limiter } = await through(t);
    await limiter.setLimits("acme", [{ name: "tpm", capacity: 1_000, refillAmount: 1, refillPeriodMs: 86_400_000 }]);
    assert.equal((await get(TENANT)).status, 200);
    await sleep(300);
    assert.deepEqual(await left("acme", "gpt-5"), { tpm: 500 });
  });

  test("a byte that is no UTF-8 in a field is limited like any other, and no way around the limit", async (t) => {
    const { get, limiter } = await through(t);
    await limiter.setLimits("acme", [{ name: "tpm", capacity: 1_000, refillAmount: 1, refillPeriodMs: 86_400_000 }]);
    await limiter.setResourceDefaults("http", [
      { name: "rps", counts: "requests", capacity: 1_000, refillAmount: 1_000, refillPeriodMs: 1_000 },
    ]);
    await limiter.setResourceDefaults("gpt-5", [
      { name: "tpm", capacity: 1_000, refillAmount: 1, refillPeriodMs: 86_400_000 },
    ]);
    await limiter.resetBucket({ entityId: "ip-127.0.0.1", resource: "http" });
    for (const tenant of ["\xff", "\xfe", "\xc3\x28"]) {
      const statuses = [];
      for (let i = 0; i < 3; i++) statuses.push((await get({ ...TENANT, "x-tenant": tenant })).status);
      assert.deepEqual(statuses, [200, 200, 429], JSON.stringify(tenant));
    }
  });
});

describeOn("nginx", "nginx by the configuration of its guide", installed("nginx"), ({ path }) => {
  test("asks before it passes on, sends the status and the wait on, and lets the application's own 403 pass", async (t) => {
    const { token, entry } = tokenOf("nginx", { scopes: ["acquire"] });
    const edge = await edgeOf(t, { text: blockOf("nginx-caddy-traefik", "yaml", 0), tokens: [entry] });
    const app = await application(t, (headers) => ({ "x-app-status": headers["x-want"] === "403" ? "403" : "200" }));
    const { port, file } = await configured(t, "nginx.conf", (port) => {
      const ports = { 8080: port, 3000: app.port, 4780: Number(new URL(edge.url).port) };
      const server = withPorts(blockOf("nginx-caddy-traefik", "nginx"), ports);
      const maps = `map $host $zael_token { default "${token}"; }\nmap $host $tenant { default "acme"; }`;
      const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
        (name) => `${name}_temp_path /tmp/zael-nginx-${port};`,
      );
      const http = `access_log off;\n${paths.join("\n")}\n${maps}\n${server}`;
      return `daemon off; master_process off; pid /tmp/zael-nginx-${port}.pid; error_log stderr;\nevents {}\nhttp {\n${http}\n}\n`;
    });
    await proxy(t, [path, "-c", file], port);
    await edge.limiter.resetBucket({ entityId: "tenant-acme", resource: "http" });
    await edge.limiter.resetBucket({ entityId: "ip-127.0.0.1", resource: "http" });
    const get = (headers: Record<string, string> = {}) => ask(port, "/some/page?x=1", headers);
    const spoofed = {
      "x-tenant": "other",
      "zael-token": "x",
      "zael-lease": "l_mine",
      "x-forwarded-for": "9.9.9.9",
      authorization: "Bearer mine",
    };
    assert.equal((await get(spoofed)).status, 200);
    const seen = app.seen.at(-1);
    assert.deepEqual(
      [seen?.authorization, seen?.["zael-token"], seen?.["zael-lease"]],
      ["Bearer mine", undefined, undefined],
    );
    assert.deepEqual(await edge.left("tenant-acme", "http"), { rps: 4 });
    assert.deepEqual(await edge.left("ip-127.0.0.1", "http"), { rps: 4 });
    assert.equal((await get({ "x-want": "403" })).status, 403);
    for (let i = 0; i < 3; i++) assert.equal((await get()).status, 200);
    const refused = await get();
    assert.deepEqual([refused.status, refused.headers["retry-after"]], [429, "1"]);
    await edge.close();
    assert.ok([403, 500, 503].includes((await get()).status));
  });
});

describeOn("caddy", "Caddy by the configuration of its guide", installed("caddy"), ({ path }) => {
  test("asks before it passes on, and answers a refusal as the service does", async (t) => {
    const { token, entry } = tokenOf("caddy", { scopes: ["acquire"] });
    const edge = await edgeOf(t, { text: blockOf("nginx-caddy-traefik", "yaml", 0), tokens: [entry] });
    const app = await application(t, () => ({}));
    const { port, file } = await configured(t, "Caddyfile", (port) => {
      const ports = { 8080: port, 3000: app.port, 4780: Number(new URL(edge.url).port) };
      const site = withPorts(blockOf("nginx-caddy-traefik", "caddyfile"), ports).replace("{$ZAEL_TOKEN}", token);
      return `{\n\tadmin off\n\tauto_https off\n}\n${site}`;
    });
    await proxy(t, [path, "run", "--config", file, "--adapter", "caddyfile"], port);
    await edge.limiter.resetBucket({ entityId: "ip-127.0.0.1", resource: "http" });
    const get = (headers: Record<string, string> = {}) => ask(port, "/some/page", headers);
    const spoofed = { "x-tenant": "other", "x-cost": "0", "zael-lease": "l_mine", authorization: "Bearer mine" };
    assert.equal((await get(spoofed)).status, 200);
    const seen = app.seen.at(-1);
    assert.deepEqual(
      [seen?.authorization, seen?.["zael-token"], seen?.["zael-lease"]],
      ["Bearer mine", undefined, undefined],
    );
    assert.deepEqual(await edge.left("ip-127.0.0.1", "http"), { rps: 4 });
    for (let i = 0; i < 4; i++) assert.equal((await get()).status, 200);
    const refused = await get();
    assert.deepEqual([refused.status, refused.headers["retry-after"]], [429, "1"]);
    assert.equal(JSON.parse(refused.body).code, "rate_limit_exceeded");
  });
});

describeOn("traefik", "Traefik by the configuration of its guide", await traefikBinary(), ({ path }) => {
  test("asks before it passes on, and neither the token nor what a user sends for it reaches the application", async (t) => {
    const { token, entry } = tokenOf("traefik", { scopes: ["acquire"] });
    const edge = await edgeOf(t, { text: blockOf("nginx-caddy-traefik", "yaml", 0), tokens: [entry] });
    const app = await application(t, () => ({}));
    const limits = Number(new URL(edge.url).port);
    const { port, file } = await configured(t, "traefik.yaml", () =>
      withPorts(blockOf("nginx-caddy-traefik", "yaml", 1).replace("zael_…", token), { 3000: app.port, 4780: limits }),
    );
    await proxy(
      t,
      [
        ...[path, `--providers.file.filename=${file}`, `--entrypoints.web.address=127.0.0.1:${port}`],
        ...["--global.checknewversion=false", "--global.sendanonymoususage=false", "--log.level=ERROR"],
      ],
      port,
    );
    // Until it has read its configuration it answers 404.
    await eventually(async () => (await ask(port, "/is-it-ready", {})).status !== 404);
    await edge.limiter.resetBucket({ entityId: "ip-127.0.0.1", resource: "http" });
    const get = (headers: Record<string, string> = {}) => ask(port, "/some/page", headers);
    const spoofed = {
      ...{
        "x-tenant": "other",
        "x-cost": "0",
        "zael-lease": "l_mine",
        "zael-token": "x",
        authorization: "Bearer mine",
      },
      "x-forwarded-for": "9.9.9.9",
    };
    const first = await get(spoofed);
    assert.equal(first.status, 200, first.body);
    const seen = app.seen.at(-1);
    assert.deepEqual(
      [seen?.authorization, seen?.["zael-token"], seen?.["zael-lease"], seen?.["x-tenant"]],
      ["Bearer mine", undefined, undefined, undefined],
    );
    assert.deepEqual(await edge.left("ip-127.0.0.1", "http"), { rps: 4 });
    for (let i = 0; i < 4; i++) assert.equal((await get()).status, 200);
    const refused = await get();
    assert.deepEqual([refused.status, refused.headers["retry-after"]], [429, "1"]);
    assert.equal(JSON.parse(refused.body).code, "rate_limit_exceeded");
    await edge.close();
    assert.notEqual((await get()).status, 200, "nothing passes while nobody decides");
  });
});
