import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LimiterClient } from "../../src/entry/client.ts";
import { Limit } from "../../src/entry/limits.ts";
import {
  applyManifest,
  type Change,
  driftOf,
  exportManifest,
  ManifestInvalid,
  openPlan,
  parseManifest,
  planManifest,
  savePlan,
} from "../../src/entry/manifest.ts";
import { serviceOf } from "../server/service-kit.ts";

// Declared limits over a service: the same functions, given a client.

const MANIFEST = parseManifest(`
owner: platform
system: { on_unavailable: allow }
resources: { api: { limits: { rpm: 100, month: "1M,reset=monthly,tz=Europe/Berlin" }, disabled: bypass } }
entities: { org: { name: Org }, key: { parent: org, limits: { rpm: 5 } } }
`);

async function opened(t: TestContext) {
  const { url, limiter, clock } = await serviceOf(t);
  await limiter.deleteResourceDefaults("gpt-4");
  const client = new LimiterClient({ url });
  t.after(() => client.close());
  return { limiter, client, clock, url };
}

/** Each entity takes so long to be made. */
function slow(t: TestContext, { limiter, clock }: Awaited<ReturnType<typeof opened>>, ms: number): void {
  const create = limiter.createEntity.bind(limiter);
  t.mock.method(limiter, "createEntity", async (...given: Parameters<typeof create>) => {
    await clock.advance(ms);
    return create(...given);
  });
}

test("plan, apply, drift and export of a client are those of the store", async (t) => {
  const { limiter, client, url } = await opened(t);
  const theirs = await planManifest(limiter, MANIFEST);
  const ours = await planManifest(client, MANIFEST);
  assert.deepEqual([ours, ours.summary.create], [theirs, 6]);
  await assert.rejects(driftOf(client, { owner: "platform" }), { code: "manifest_not_applied", name: "NotFoundError" });
  const told: Change[] = [];
  const applied = await applyManifest(client, ours, { onChange: (change) => told.push(change) });
  assert.deepEqual(applied, { ...theirs, changes: theirs.changes.map((change) => ({ ...change, done: true })) });
  assert.deepEqual(told, applied.changes);
  const { events } = await limiter.auditEvents();
  assert.deepEqual([...new Set(events.slice(0, 6).map(({ principal }) => principal))], ["local"]);
  assert.deepEqual((await planManifest(client, MANIFEST)).changes, []);
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 1)], { principal: "mallory" });
  const drift = await driftOf(client, { owner: "platform" });
  assert.deepEqual([drift, drift.drift[0]?.by?.principal], [await driftOf(limiter, { owner: "platform" }), "mallory"]);
  for (const options of [{}, { owned: true }, { owned: "platform" }]) {
    assert.equal(await exportManifest(client, options), await exportManifest(limiter, options));
  }
  await limiter.registerNamespace("tenant");
  await using other = new LimiterClient({ url, namespace: "tenant" });
  await assert.rejects(applyManifest(other, ours), { code: "namespace_mismatch" });
});

test("what the store refuses, a client is refused alike, and nothing is changed", async (t) => {
  const { limiter, client } = await opened(t);
  await applyManifest(client, await planManifest(client, MANIFEST));
  const before = (await limiter.auditEvents()).events.length;
  const others = parseManifest("owner: other\nresources: { api: { limits: { rpm: 7 } } }");
  const empty = parseManifest("owner: platform\nresources: {}");
  const orphan = parseManifest("entities: { c: { parent: nobody } }");
  const wrong = [
    [others, {}, "owned_by_other"],
    [empty, {}, "deletions_need_prune"],
    [orphan, {}, "parent_not_found"],
    [parseManifest("namespace: tenant\nresources: {}"), {}, "namespace_mismatch"],
    [empty, { owner: "other" }, "owner_mismatch"],
    [empty, { keep: true, prune: true }, "options_invalid"],
  ] as const;
  for (const [manifest, options, code] of wrong) {
    for (const on of [limiter, client]) {
      const run = async () => applyManifest(on, await planManifest(on, manifest, options));
      await assert.rejects(run, { code }, code);
    }
  }
  await assert.rejects(planManifest(client, empty, { prnue: true } as object), { code: "request_invalid" });
  await assert.rejects(exportManifest(client, { ownd: true } as object), { code: "request_invalid" });
  const plan = await planManifest(client, empty, { prune: true });
  await assert.rejects(applyManifest(client, plan, { principal: "me" }), { code: "option_unknown" });
  await assert.rejects(applyManifest(client, { ...plan }), { code: "plan_invalid" });
  await assert.rejects(applyManifest(client, plan, { signal: AbortSignal.abort(new Error("stop")) }), /stop/);
  await assert.rejects(planManifest({} as LimiterClient, empty), { code: "limiter_invalid" });
  // A service of another version may know less than the client.
  const unknown = {
    pieces: [{ piece: { what: "limits", level: "resource", resource: "a b" }, value: [] }],
    warnings: [],
  };
  await assert.rejects(planManifest(client, unknown as never), (error) => {
    assert.ok(error instanceof ManifestInvalid);
    assert.deepEqual(error.problems.map(({ path, line }) => [path, line])[0], ["/resources/a b", 0]);
    assert.match(error.message, /^\/resources\/a b: /);
    return true;
  });
  assert.equal((await limiter.auditEvents()).events.length, before);
  // A plan that was refused stays so, also where another one would not be.
  await limiter.setTotals("org", [Limit.perMinute("rpm", 1)]);
  const blocked = await Promise.all([limiter, client].map((on) => planManifest(on, empty, { prune: true })));
  await limiter.deleteTotals("org");
  for (const [i, on] of [limiter, client].entries()) {
    await assert.rejects(applyManifest(on, blocked[i] as typeof plan), { code: "entity_in_use" });
  }
  assert.equal((await limiter.listEntities()).length, 2);
});

test("a plan is applied as it was shown: what was changed since is not overwritten, and what was made is told", async (t) => {
  const { limiter, client } = await opened(t);
  const plan = await planManifest(client, MANIFEST);
  await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 3)]);
  await assert.rejects(applyManifest(client, plan), { code: "plan_outdated", name: "ConflictError" });
  assert.deepEqual([...(await limiter.listEntities())], []);
  await limiter.deleteResourceDefaults("api");
  // While it runs.
  const create = limiter.createEntity.bind(limiter);
  t.mock.method(limiter, "createEntity", async (...given: Parameters<typeof create>) => {
    if (given[0].id === "key") await limiter.setResourceDefaults("api", [Limit.perMinute("rpm", 3)]);
    return create(...given);
  });
  const told: string[] = [];
  const onChange = ({ what, entityId = "" }: Change) => told.push(`${what} ${entityId}`.trim());
  await assert.rejects(applyManifest(client, plan, { onChange }), {
    code: "plan_outdated",
    message: /4 changes were made before; plan again/,
  });
  assert.deepEqual(told, ["entity org", "entity key", "onUnavailable", "access"]);
  assert.deepEqual(await limiter.getResourceDefaults("api"), [Limit.perMinute("rpm", 3)]);
});

test("a saved plan goes over the service, and is no plan of another one", async (t) => {
  const { limiter, client, url } = await opened(t);
  const text = savePlan(await planManifest(client, MANIFEST), { store: url });
  assert.equal(text, savePlan(await planManifest(limiter, MANIFEST), { store: url }));
  await assert.rejects(openPlan(client, text, { store: "http://other" }), { code: "plan_mismatch" });
  await applyManifest(client, await openPlan(client, text, { store: url }));
  assert.equal((await limiter.listEntities()).length, 2);
  await limiter.setSystemDefaults([], { onUnavailable: "block" });
  await assert.rejects(openPlan(client, text), { code: "plan_outdated" });
});

test("a long apply is made part by part, is told as one, and ends after a part when it is aborted", async (t) => {
  const ground = await opened(t);
  const { limiter, client } = ground;
  slow(t, ground, 3_000);
  const names = Array.from({ length: 7 }, (_, i) => `e-${i}: { name: E }`);
  const manifest = parseManifest(`entities: { ${names.join(", ")} }`);
  const plan = await planManifest(client, manifest);
  const aborting = new AbortController();
  const told: Change[] = [];
  const options = {
    signal: aborting.signal,
    onChange: (change: Change) => {
      told.push(change);
      aborting.abort(new Error("stop"));
    },
  };
  await assert.rejects(applyManifest(client, plan, options), /stop/);
  // Each part makes changes for five seconds, and there is none after the first.
  assert.deepEqual([told.length, (await limiter.listEntities()).length], [2, 2]);
  const rest = await planManifest(client, manifest);
  const done = await applyManifest(client, rest);
  assert.deepEqual(
    [done.changes.length, done.summary, done.changes.every((change) => change.done)],
    [5, { create: 5, update: 0, delete: 0, adopt: 0, release: 0, unchanged: 2 }, true],
  );
  assert.deepEqual((await planManifest(client, manifest)).changes, []);
});

test("an apply whose answer is lost is not sent again: what is left is planned again", async (t) => {
  const { client } = await opened(t);
  const plan = await planManifest(client, MANIFEST);
  const send = globalThis.fetch;
  let applies = 0;
  t.mock.method(globalThis, "fetch", async (...given: Parameters<typeof send>) => {
    const response = await send(...given);
    if (!String(given[0]).endsWith("/apply")) return response;
    applies += 1;
    throw new TypeError("fetch failed");
  });
  await assert.rejects(applyManifest(client, plan), { code: "unavailable" });
  assert.equal(applies, 1);
  assert.deepEqual((await planManifest(client, MANIFEST)).changes, []);
});
