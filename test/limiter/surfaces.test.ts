import assert from "node:assert/strict";
import { test } from "node:test";
import { LimiterError } from "../../src/entry/index.ts";
import { here } from "../cli/in-process.ts";
import { LIMITS, NS, serviceOf } from "../server/service-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { openLimiter } from "./limiter-kit.ts";

/** Calls of the library, which nobody can make on the command line, over HTTP or on the page. */
const CALL =
  /\b(?:create|update|ensure|set|delete|register|recover|list|reset)[A-Z]\w+|\btopUp\b|\w+Of\(text\)|RateLimiter/;

async function messageOf(call: () => Promise<unknown>): Promise<string> {
  return call().then(
    () => assert.fail("nothing was thrown"),
    (error: unknown) => {
      assert.ok(error instanceof LimiterError, String(error));
      return error.message;
    },
  );
}

test("in code a remedy is a call", async () => {
  const { limiter } = await openLimiter();
  await limiter.createEntity({ id: "key-1" });
  await limiter.setAccess({ entityId: "key-1" }, "disabled");
  const ask = (entityId: string, resource: string) => limiter.acquire({ entityId, resource, consume: { rpm: 1 } });
  for (const [call, message] of [
    [() => limiter.getEntity("ghost"), /create it with createEntity\.$/],
    [() => limiter.createEntity({ id: "key-1" }), /change it with updateEntity\.$/],
    [() => limiter.createEntity({ id: "x", parentId: "ghost" }), /create it first with createEntity\.$/],
    [() => limiter.getPlan("ghost"), /create it with createPlan\.$/],
    [() => ask("key-2", "other"), /Set some with setLimits, .* or pass them in `limits`\.$/],
    [() => ask("key-1", "gpt-4"), /is disabled for key-1 \(entityDefault\); enable it with setAccess\.$/],
    [() => limiter.getEntity("a b"), /entityIdOf\(text\) makes one from any text\.$/],
    [() => limiter.recoverNamespace("nowhere"), /listOrphanNamespaces lists/],
  ] as const) {
    assert.match(await messageOf(call), message);
  }
});

test("over HTTP a remedy is a route, on the page what stands there to press", async (t) => {
  const { call, limiter } = await serviceOf(t);
  await limiter.setResourceDefaults("gpt-4", LIMITS);
  await limiter.createEntity({ id: "key-1" });
  await limiter.setAccess({ entityId: "key-1" }, "disabled");
  const take = (entityId: string, resource: string) => ({ entityId, resource, consume: { rpm: 1 }, holdMs: 0 });
  for (const [method, path, body, route, button] of [
    [
      "GET",
      `${NS}/entities/ghost`,
      undefined,
      /create it with POST \S+\/entities\.$/,
      /create it with New entity under Entities/,
    ],
    ["POST", `${NS}/entities`, { id: "key-1" }, /change it with PATCH \S+\/entities\/\{id\}\.$/, /Edit under Entities/],
    ["POST", `${NS}/entities`, { id: "x", parentId: "ghost" }, /first with POST \S+\/entities\.$/, /New entity/],
    [
      "POST",
      `${NS}/acquire`,
      take("key-2", "other"),
      /PUT \S+\/limits.*or send them in `limits`/,
      /Save under Limits\.$/,
    ],
    [
      "POST",
      `${NS}/acquire`,
      take("key-1", "gpt-4"),
      /for this entity on all resources.*PUT \S+\/access\.$/,
      /Access and cascade/,
    ],
    ["GET", `${NS}/plans/ghost`, undefined, /create it with POST \S+\/plans\.$/, /New plan under Plans/],
    ["POST", `${NS}/entities`, { id: "a b" }, /Invalid entity id "a b"/, /Invalid entity id "a b"/],
    ["GET", "/v1/namespaces/nowhere/entities", undefined, /with POST \/v1\/namespaces\.$/, /Create under Namespaces/],
    ["POST", "/v1/orphans/nowhere/recover", undefined, /GET \/v1\/orphans lists/, /the page Namespaces lists/],
  ] as const) {
    for (const [headers, message] of [
      [{}, route],
      [{ "zae-limiter-surface": "page" }, button],
    ] as const) {
      const { detail } = (await call(method, path, { headers, ...(body === undefined ? {} : { body }) })).body;
      assert.match(detail, message);
      assert.doesNotMatch(detail, CALL);
    }
  }
});

test("on the command line a remedy is a command", async (t) => {
  const store = `sqlite:${tempFile(t)}`;
  const run = (line: string) => here([...line.split(" "), "--store", store]);
  for (const line of ["init", "resource set-defaults gpt-4 -l rpm:10", "entity create key-1"]) {
    assert.equal((await run(line)).code, 0, line);
  }
  await run("access set disabled -e key-1 -r gpt-4");
  for (const [line, message] of [
    ["entity show ghost", /`zae-limiter entity create ghost`/],
    ["entity create key-1", /`zae-limiter entity update`/],
    ["entity create x --parent ghost", /`zae-limiter entity create ghost`/],
    ["acquire key-2 other -c rpm=1", /resource/],
    [
      "acquire key-1 gpt-4 -c rpm=1",
      /\(for this entity on this resource\); enable it with `zae-limiter access set enforce`/,
    ],
    ["entity create a/b", /Invalid entity id "a\/b"/],
    ["namespace recover nowhere --yes", /`zae-limiter namespace orphans`/],
  ] as const) {
    const { code, stderr } = await run(line);
    assert.notEqual(code, 0, line);
    assert.match(stderr, message, line);
    assert.doesNotMatch(stderr, CALL, line);
  }
});
