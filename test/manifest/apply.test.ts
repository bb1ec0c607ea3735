import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ConflictError, NotFoundError, ResourceDisabled, ValidationError } from "../../src/domain/names/errors.ts";
import { Limit } from "../../src/entry/limits.ts";
import { applyManifest, driftOf, exportManifest, parseManifest } from "../../src/entry/manifest.ts";
import { apply, lines, opened, plan, STORES } from "./apply-kit.ts";

const MANIFEST = `
owner: platform
system: { on_unavailable: allow, limits: { rpm: 1000 } }
resources:
  gpt-4: { limits: { rpm: 100, tpm: 10k/min:20k }, cascade: true }
  off: { disabled: true }
entities:
  key-1: { parent: proj-1, resources: { gpt-4: { limits: { rpm: 10 } } }, limits: { rpm: 5 } }
  proj-1: { name: Production }
  ghost: { create: false, limits: { rpm: 1 } }
`;

const EMPTY = "owner: platform\nresources: {}\n";
const coded = (code: string) => (error: unknown) => (error as ConflictError).code === code;

for (const [name, open] of STORES) {
  describe(`declared limits on ${name}`, () => {
    test("a plan reads only; applied, everything is there, audited, and the second plan is empty", async (t) => {
      const { limiter, store } = await opened(t, open);
      const first = await plan(limiter, MANIFEST);
      assert.deepEqual(lines(first.changes), [
        "create entity proj-1",
        "create entity key-1",
        "create limits system",
        "create onUnavailable system",
        "create cascade resource gpt-4",
        "create limits resource gpt-4",
        "create access resource off",
        "create limits entityDefault ghost",
        "create limits entityDefault key-1",
        "create limits entity key-1 gpt-4",
      ]);
      assert.deepEqual(first.summary, { create: 10, update: 0, delete: 0, adopt: 0, release: 0, unchanged: 0 });
      assert.equal((await store.scope("default").audit.list({}, { limit: 100 })).items.length, 0);
      const seen: boolean[] = [];
      const done = await applyManifest(limiter, first, {
        principal: "ci",
        onChange: ({ done }) => seen.push(done === true),
      });
      assert.deepEqual([done.changes.length, done.changes.every((change) => change.done), seen.length], [10, true, 10]);
      assert.deepEqual(await limiter.getLimits("key-1", { resource: "gpt-4" }), [Limit.perMinute("rpm", 10)]);
      assert.equal((await limiter.getEntity("key-1")).cascade, true);
      assert.deepEqual(await limiter.getSystemDefaults(), {
        limits: [Limit.perMinute("rpm", 1000)],
        onUnavailable: "allow",
      });
      const { events } = await limiter.auditEvents();
      assert.equal(events.length, 10);
      assert.ok(events.every(({ principal }) => principal === "ci"));
      const second = await plan(limiter, MANIFEST);
      assert.deepEqual([second.changes, second.summary.unchanged, second.conflicts], [[], 10, []]);
      await apply(limiter, MANIFEST);
      assert.equal((await limiter.auditEvents()).events.length, 10, "what is equal is not written");
      assert.deepEqual((await driftOf(limiter, { owner: "platform" })).drift, []);
    });

    test("values are compared, not texts; an update shows both", async (t) => {
      const { limiter } = await opened(t, open);
      await apply(limiter, MANIFEST);
      const other = MANIFEST.replace(
        "rpm: 100, tpm: 10k/min:20k",
        "tpm: { capacity: 20000, refill_amount: 10000 }, rpm: 100/min",
      );
      assert.deepEqual((await plan(limiter, other)).changes, []);
      const [change] = (await plan(limiter, MANIFEST.replace("rpm: 100,", "rpm: 90,"))).changes;
      assert.equal(change?.action, "update");
      const [before, after] = [change?.before as readonly Limit[], change?.after as readonly Limit[]];
      assert.deepEqual([before?.[0]?.capacity, after?.[0]?.capacity, change?.drift], [100, 90, false]);
    });

    test("what is there, unowned and equal is adopted; different, it is updated; not declared, it is not touched", async (t) => {
      const { limiter } = await opened(t, open);
      await limiter.setResourceDefaults("a", [Limit.perMinute("rpm", 1)]);
      await limiter.setResourceDefaults("b", [Limit.perMinute("rpm", 1)]);
      await limiter.setResourceDefaults("c", [Limit.perMinute("rpm", 1)]);
      const text = "resources: { a: { limits: { rpm: 1 } }, b: { limits: { rpm: 2 } } }";
      assert.deepEqual(lines((await apply(limiter, text)).changes), [
        "adopt limits resource a",
        "update limits resource b",
      ]);
      assert.deepEqual(await limiter.getResourceDefaults("c"), [Limit.perMinute("rpm", 1)]);
      assert.deepEqual((await plan(limiter, text)).changes, []);
    });

    test("Y5: an apply does not lift a kill switch that it does not declare, and limits and policies keep each other", async (t) => {
      const { limiter } = await opened(t, open);
      const text =
        "resources: { gpt-4: { limits: { rpm: 100 } } }\nentities: { key-1: { resources: { gpt-4: { limits: { rpm: 5 } } } } }";
      await apply(limiter, text);
      await limiter.setAccess({ entityId: "key-1", resource: "gpt-4" }, "disabled", { principal: "operator" });
      await limiter.setSystemDefaults([Limit.perMinute("rpm", 7)], { onUnavailable: "allow" });
      assert.deepEqual((await plan(limiter, text)).changes, []);
      await apply(limiter, text);
      await apply(limiter, text.replace("rpm: 5", "rpm: 6"));
      const request = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 } };
      await assert.rejects(limiter.acquire(request), ResourceDisabled);
      // On the system level too: one of the two is declared, the other stays.
      await apply(limiter, `${text}\nsystem: { on_unavailable: block }`);
      assert.deepEqual(await limiter.getSystemDefaults(), {
        limits: [Limit.perMinute("rpm", 7)],
        onUnavailable: "block",
      });
      await apply(limiter, text, { prune: true });
      assert.deepEqual(await limiter.getSystemDefaults(), { limits: [Limit.perMinute("rpm", 7)] });
    });

    test("what is no longer declared is deleted with prune, released with keep, and else refused as a whole", async (t) => {
      const { limiter } = await opened(t, open);
      await apply(limiter, MANIFEST);
      const audited = (await limiter.auditEvents()).events.length;
      const next = `${EMPTY.replace("{}", "{ gpt-4: { limits: { rpm: 1 } } }")}`;
      await assert.rejects(apply(limiter, next), coded("deletions_need_prune"));
      assert.equal((await limiter.auditEvents()).events.length, audited);
      const kept = await plan(limiter, next, { keep: true });
      assert.deepEqual([kept.summary.delete, kept.summary.release], [0, 9]);
      const done = await apply(limiter, EMPTY, { prune: true });
      assert.deepEqual(lines(done.changes), [
        "delete limits entityDefault ghost",
        "delete limits entityDefault key-1",
        "delete limits entity key-1 gpt-4",
        "delete cascade resource gpt-4",
        "delete limits resource gpt-4",
        "delete access resource off",
        "delete limits system",
        "delete onUnavailable system",
        "delete entity key-1",
        "delete entity proj-1",
      ]);
      assert.deepEqual(await limiter.listEntities(), Object.assign([], {}));
      assert.deepEqual(await limiter.getSystemDefaults(), { limits: [] });
      assert.deepEqual((await plan(limiter, EMPTY)).changes, []);
    });

    test("released it stays, is nobody's, and another may have it", async (t) => {
      const { limiter } = await opened(t, open);
      await apply(limiter, MANIFEST);
      const done = await apply(limiter, EMPTY, { keep: true });
      assert.equal(done.summary.release, 10);
      assert.deepEqual(await limiter.getLimits("ghost"), [Limit.perMinute("rpm", 1)]);
      const other = await plan(limiter, MANIFEST.replace("owner: platform", "owner: other"));
      assert.deepEqual([other.summary.adopt, other.conflicts], [10, []]);
    });

    test("a piece has one owner: another's is a conflict and nothing is changed, unless it is taken over", async (t) => {
      const { limiter } = await opened(t, open);
      await apply(limiter, "owner: a\nresources: { r: { limits: { rpm: 1 } } }");
      const text = "owner: b\nresources: { r: { limits: { rpm: 2 } }, s: { limits: { rpm: 2 } } }";
      const found = await plan(limiter, text);
      assert.deepEqual(found.conflicts, [{ what: "limits", level: "resource", resource: "r", owner: "a" }]);
      await assert.rejects(applyManifest(limiter, found), coded("owned_by_other"));
      assert.deepEqual(await limiter.getResourceDefaults("s"), []);
      await apply(limiter, text, { takeOver: true });
      assert.deepEqual(await limiter.getResourceDefaults("r"), [Limit.perMinute("rpm", 2)]);
      // Y2: the old one's manifest is emptied, and finds nothing of its own.
      const left = await apply(limiter, "owner: a\nresources: {}", { prune: true });
      assert.deepEqual(left.changes, []);
      assert.deepEqual(await limiter.getResourceDefaults("r"), [Limit.perMinute("rpm", 2)]);
      assert.deepEqual((await plan(limiter, text)).changes, []);
    });

    test("Y1: an owner that never applied owns nothing, and pruning for it deletes nothing", async (t) => {
      const { limiter } = await opened(t, open);
      await apply(limiter, MANIFEST);
      const failed = "owner: stack.Limits\nresources: { gpt-4: { limits: { rpm: 1 } } }";
      await assert.rejects(apply(limiter, failed), ConflictError);
      const done = await apply(limiter, "owner: stack.Limits\nresources: {}", { prune: true });
      assert.deepEqual(done.changes, []);
      assert.deepEqual((await plan(limiter, MANIFEST)).changes, []);
    });

    test("drift tells who did it; the plan marks it, and the apply brings it back", async (t) => {
      const { limiter, clock } = await opened(t, open);
      await assert.rejects(driftOf(limiter, { owner: "platform" }), coded("manifest_not_applied"));
      await apply(limiter, MANIFEST);
      await clock.advance(60_000);
      await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 3)], { principal: "mallory" });
      await limiter.setAccess({ resource: "off" }, "inherit", { principal: "eve" });
      await limiter.updateEntity("proj-1", { name: "Changed" }, { principal: "bob" });
      await limiter.setAccess({ resource: "gpt-4" }, "bypass", { principal: "not-declared" });
      const { drift, appliedAtMs } = await driftOf(limiter, { owner: "platform" });
      assert.deepEqual(
        drift
          .map(({ what, resource, entityId, by }) => [what, resource ?? entityId, by?.principal, by?.action])
          .toSorted(),
        [
          ["access", "off", "eve", "access_set"],
          ["entity", "proj-1", "bob", "entity_updated"],
          ["limits", "gpt-4", "mallory", "limits_set"],
        ],
      );
      assert.ok(drift.every(({ by }) => by?.atMs === clock.now()));
      assert.equal(appliedAtMs, clock.now() - 60_000);
      assert.equal(drift.find(({ what }) => what === "access")?.live, null);
      assert.deepEqual(lines((await plan(limiter, MANIFEST)).changes), [
        "update entity proj-1 (drift)",
        "update limits resource gpt-4 (drift)",
        "create access resource off (drift)",
      ]);
      await apply(limiter, MANIFEST);
      assert.deepEqual((await driftOf(limiter, { owner: "platform" })).drift, []);
    });

    test("what is exported and planned there is nothing but adoptions", async (t) => {
      const { limiter } = await opened(t, open);
      await apply(limiter, MANIFEST, {});
      await limiter.setAccess({ entityId: "only-policy" }, "bypass");
      await limiter.setCascade({ entityId: "key-1", resource: "x/y" }, false);
      await limiter.createEntity({ id: "plain" });
      await limiter.createEntity({
        id: "child",
        parentId: "plain",
        cascade: false,
        metadata: { a: "1", "b c": "true" },
      });
      await limiter.setResourceDefaults("kinds", [
        Limit.quota("month", 9, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } }),
        Limit.perMinute("w", 9, {
          soft: true,
          notifyAt: [80, 95],
          schedule: [{ cron: "* 1 * * *", tz: "Europe/Berlin", capacity: 4 }],
        }),
        Limit.quota("s", 9, { resetAfterMs: 60_000 }),
      ]);
      const owned = await exportManifest(limiter, { owned: true });
      assert.match(owned, /^owner: platform$/m);
      assert.deepEqual((await plan(limiter, owned)).changes, []);
      // What has no owner is exported, too, and adopted by the one owner that there is.
      const all = (await plan(limiter, await exportManifest(limiter))).changes;
      assert.deepEqual([all.length > 0, all.every(({ action }) => action === "adopt")], [true, true]);
      await apply(limiter, EMPTY, { keep: true });
      const text = await exportManifest(limiter);
      assert.match(text, /^namespace: default$/m);
      assert.doesNotMatch(text, /^owner:/m);
      const found = await plan(limiter, text);
      assert.deepEqual(
        [...new Set(found.changes.map(({ action }) => action))],
        ["adopt"],
        JSON.stringify(lines(found.changes)),
      );
      assert.equal(found.summary.adopt, 15);
    });

    test("an export names the owner; of several one is picked, and its manifest plans nothing", async (t) => {
      const { limiter } = await opened(t, open);
      const of = (owner: string, name: string) => `owner: ${owner}\nresources: { ${name}: { limits: { rpm: 1 } } }`;
      await apply(limiter, of("b", "one"));
      await apply(limiter, of("a", "two"));
      await limiter.setResourceDefaults("nobodys", [Limit.perMinute("rpm", 1)]);
      for (const owned of [false, true]) {
        await assert.rejects(exportManifest(limiter, { owned }), {
          code: "owners_several",
          httpStatus: 409,
          message: /namespace default have 2 owners, a, b, .* --owner/,
        });
      }
      const text = await exportManifest(limiter, { owned: "b" });
      assert.match(text, /^namespace: default\nowner: b\nresources:\n {2}one:/m);
      assert.doesNotMatch(text, /two|nobodys/);
      assert.deepEqual((await plan(limiter, text)).changes, []);
      assert.deepEqual((await driftOf(limiter, { owner: "b" })).drift, []);
      await assert.rejects(exportManifest(limiter, { owned: "bb" }), coded("manifest_not_applied"));
      await assert.rejects(exportManifest(limiter, { owned: "" }), ValidationError);
    });

    test("entities: a parent must be declared or there; one in use is not deleted, one still needed is released", async (t) => {
      const { limiter } = await opened(t, open);
      await assert.rejects(plan(limiter, "entities: { c: { parent: nobody } }"), coded("parent_not_found"));
      await apply(limiter, "entities: { p: { name: P }, q: { name: Q }, r: { name: R, limits: { rpm: 1 } } }");
      await limiter.createEntity({ id: "child", parentId: "p" });
      await limiter.setAccess({ entityId: "q", resource: "api" }, "disabled");
      const nothing = "resources: {}";
      const found = await plan(limiter, nothing, { prune: true });
      assert.equal(found.warnings.length, 2);
      await assert.rejects(applyManifest(limiter, found), coded("entity_has_children"));
      await limiter.deleteEntity("child");
      await assert.rejects(apply(limiter, nothing, { prune: true }), coded("entity_in_use"));
      await limiter.setAccess({ entityId: "q", resource: "api" }, "inherit");
      const kept = await apply(limiter, "entities: { r: { create: false, limits: { rpm: 1 } } }", { prune: true });
      assert.deepEqual(lines(kept.changes), ["delete entity p", "delete entity q", "release entity r"]);
      assert.equal((await limiter.getEntity("r")).name, "R");
      // The whole of a declared entity is written: what is absent has its default.
      await apply(limiter, "entities: { r: { parent: s }, s: { metadata: { a: b } } }", { prune: true });
      const { parentId, cascade, name: display } = await limiter.getEntity("r");
      assert.deepEqual([parentId, cascade, display], ["s", true, "r"]);
    });

    test("whatever stands under entities is an entity: created if it is missing, otherwise left as it is", async (t) => {
      const { limiter } = await opened(t, open);
      const text =
        "owner: o\nentities: { acme: { totals: { usd: $50/month } }, web: { parent: acme }, own: { limits: { rpm: 1 } }, bare: {} }";
      await limiter.createEntity({ id: "own", name: "Of the program" });
      const first = await apply(limiter, text);
      assert.deepEqual(
        lines(first.changes).filter((line) => line.includes(" entity ")),
        ["create entity acme", "create entity bare", "create entity web"],
      );
      assert.equal((await limiter.getEntity("web")).parentId, "acme");
      // What a program makes of it later is drift that the next apply takes over, and changes nothing.
      await limiter.updateEntity("acme", { name: "Acme" });
      assert.deepEqual(lines((await apply(limiter, text)).changes), ["adopt entity acme (drift)"]);
      assert.deepEqual((await plan(limiter, text)).changes, []);
      assert.deepEqual((await driftOf(limiter, { owner: "o" })).drift, []);
      // Another manifest may set limits of it, too; it is nobody else's by that.
      const other = "owner: p\nentities: { acme: { limits: { rpm: 5 } } }";
      assert.deepEqual(lines((await apply(limiter, other)).changes), ["create limits entityDefault acme"]);
      await apply(limiter, "owner: p\nresources: {}", { prune: true });
      await apply(limiter, "owner: o\nresources: {}", { prune: true });
      assert.deepEqual(
        (await limiter.listEntities()).map(({ id, name }) => [id, name]),
        [["own", "Of the program"]],
      );
    });

    test("Y13: a quota that is taken out and declared again keeps what was spent", async (t) => {
      const { limiter } = await opened(t, open);
      const text = 'resources: { r: { limits: { q: "100,reset=daily", rpm: 1000 } } }';
      await apply(limiter, text);
      const request = { entityId: "e", resource: "r", consume: { q: 60 } };
      await limiter.acquire(request);
      await apply(limiter, "resources: { r: { limits: { rpm: 1000 } } }");
      await limiter.acquire({ ...request, consume: { rpm: 1 } });
      await apply(limiter, text);
      assert.equal((await limiter.tryAcquire(request)).ok, false);
      assert.equal((await limiter.tryAcquire({ ...request, consume: { q: 40 } })).ok, true);
    });

    test("bad options and foreign plans are refused, and nothing is changed", async (t) => {
      const { limiter } = await opened(t, open);
      const good = await plan(limiter, MANIFEST);
      await assert.rejects(applyManifest(limiter, { ...good }), ValidationError);
      await assert.rejects(applyManifest(limiter, good, { principal: "a b" }), ValidationError);
      await assert.rejects(plan(limiter, MANIFEST, { owner: "other" }), coded("owner_mismatch"));
      await assert.rejects(plan(limiter, "namespace: other\nresources: {}"), coded("namespace_mismatch"));
      await assert.rejects(plan(limiter, EMPTY, { keep: true, prune: true }), ValidationError);
      await assert.rejects(plan(limiter, EMPTY, { prnue: true } as object), ValidationError);
      await assert.rejects(plan({} as typeof limiter, EMPTY), ValidationError);
      await limiter.registerNamespace("tenant");
      await assert.rejects(applyManifest(limiter.namespace("tenant"), good), coded("namespace_mismatch"));
      await assert.rejects(plan(limiter.namespace("tenant"), "namespace: gone\nresources: {}"), ValidationError);
      const aborted = AbortSignal.abort(new Error("stop"));
      await assert.rejects(applyManifest(limiter, good, { signal: aborted }), /stop/);
      assert.equal(parseManifest(EMPTY).pieces.length, 0);
      const { events } = await limiter.auditEvents();
      assert.deepEqual(
        events.map(({ action }) => action),
        ["namespace_registered"],
      );
      await assert.rejects(async () => driftOf(limiter.namespace("nowhere"), {}), NotFoundError);
    });
  });
}
