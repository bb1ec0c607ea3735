import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Limiter } from "../../src/engine/limiter/limiter.ts";
import { Limit } from "../../src/entry/limits.ts";
import { applyManifest, openPlan, type Plan, savePlan } from "../../src/entry/manifest.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { apply, limiterOn, opened, plan, STORES } from "./apply-kit.ts";

const coded = (code: string) => (error: unknown) => (error as { code?: string }).code === code;
const rpm = (rate: number) => [Limit.perMinute("rpm", rate)];
const TEXT =
  "owner: o\nresources: { a: { limits: { rpm: 2 } }, b: { limits: { rpm: 2 } } }\nentities: { e: { name: New } }";

for (const [name, open] of STORES) {
  describe(`a plan that was approved on ${name}`, () => {
    test("does not replace what it did not show: shown 100 -> 120, meanwhile 5", async (t) => {
      const { limiter } = await opened(t, open);
      await limiter.setResourceDefaults("gpt-4", rpm(100));
      const shown = await plan(limiter, "owner: o\nresources: { gpt-4: { limits: { rpm: 120 } } }");
      await limiter.setResourceDefaults("gpt-4", rpm(5), { principal: "incident-commander" });
      await assert.rejects(applyManifest(limiter, shown), coded("plan_outdated"));
      assert.deepEqual(await limiter.getResourceDefaults("gpt-4"), rpm(5));
    });

    test("is held against each piece when its turn comes, and says how much was done", async (t) => {
      const { limiter } = await opened(t, open);
      await limiter.setResourceDefaults("b", rpm(1));
      const shown = await plan(limiter, TEXT);
      const meanwhile = async (change: () => Promise<unknown>, at: number) => {
        const made: Promise<unknown>[] = [];
        let done = 0;
        const options = { onChange: () => void (++done === at && made.push(change())) };
        const outcome = await applyManifest(limiter, shown, options).catch((error: unknown) => error);
        await Promise.all(made);
        return outcome as { code?: string; message: string };
      };
      const refused = await meanwhile(() => limiter.setResourceDefaults("b", rpm(7)), 1);
      assert.equal(refused.code, "plan_outdated");
      assert.match(refused.message, /2 changes were made before/);
      assert.deepEqual(await limiter.getResourceDefaults("b"), rpm(7));
      // What is done already is not done again, and what is left is planned anew.
      const left = await plan(limiter, TEXT);
      assert.deepEqual(
        left.changes.map(({ action, resource }) => [action, resource]),
        [["update", "b"]],
      );
    });

    test("creates an entity only where none is, and updates the one that it saw", async (t) => {
      const { limiter, store, clock } = await opened(t, open);
      for (const before of [undefined, "Old"]) {
        if (before !== undefined) await limiter.updateEntity("e", { name: before });
        let isFirst = true;
        const slow = await limiterOn(
          new FaultStore(store, {
            pause: async (call, when) => {
              // Between its last look and its write, which is the third: the run, the entry, the entity.
              if (call !== "change" || when !== "applying" || !isFirst) return;
              changes += 1;
              if (changes < 3) return;
              isFirst = false;
              if (before === undefined) await limiter.createEntity({ id: "e", name: "Theirs" });
              else await limiter.updateEntity("e", { name: "Theirs" });
            },
          }),
          clock,
        );
        let changes = 0;
        await assert.rejects(apply(slow, "owner: o\nentities: { e: { name: New } }"), coded("plan_outdated"));
        assert.equal((await limiter.getEntity("e")).name, "Theirs");
      }
    });

    test("can be saved and opened, and is outdated by anything that it did not show", async (t) => {
      const { limiter } = await opened(t, open);
      await limiter.setResourceDefaults("b", rpm(1));
      const text = savePlan(await plan(limiter, TEXT), { store: "here" });
      await assert.rejects(openPlan(limiter, text, { store: "there" }), coded("plan_mismatch"));
      await limiter.setResourceDefaults("b", rpm(5));
      await assert.rejects(openPlan(limiter, text), coded("plan_outdated"));
      await limiter.setResourceDefaults("b", rpm(1));
      const done = await applyManifest(limiter, await openPlan(limiter, text, { store: "here" }));
      assert.equal(done.changes.length, 3);
      assert.deepEqual((await openPlan(limiter, text)).changes, [], "applied again it does nothing");
    });
  });
}

test("a plan that was saved keeps its options, and what is no saved plan is refused", async (t) => {
  const { limiter } = await opened(t, (STORES[0] as (typeof STORES)[number])[1]);
  await apply(limiter, TEXT);
  const nothing = "owner: o\nresources: {}";
  const unpruned = savePlan(await plan(limiter, nothing));
  await assert.rejects(
    openPlan(limiter, unpruned).then((each) => applyManifest(limiter, each)),
    coded("deletions_need_prune"),
  );
  const pruned = savePlan(await plan(limiter, nothing, { prune: true }));
  const parsed = JSON.parse(pruned);
  for (const broken of [
    ...["", "{}", "null", "[]", pruned.slice(1), nothing],
    JSON.stringify({ ...parsed, format: "zae-limiter plan 2" }),
    JSON.stringify({ ...parsed, options: { ...parsed.options, force: true } }),
    JSON.stringify({ ...parsed, manifest: undefined }),
    JSON.stringify({ ...parsed, changes: [null] }),
    JSON.stringify({ ...parsed, changes: parsed.changes.map((each: object) => ({ ...each, before: [null] })) }),
  ]) {
    await assert.rejects(openPlan(limiter, broken), coded("plan_invalid"), broken.slice(0, 80));
  }
  await limiter.registerNamespace("tenant");
  await assert.rejects(openPlan(limiter.namespace("tenant"), pruned), coded("namespace_mismatch"));
  // Changes that a hand has added are compared, never made.
  const forged = { ...parsed, changes: [...parsed.changes, { ...parsed.changes[0], resource: "other" }] };
  assert.equal((await openPlan(limiter, JSON.stringify(forged))).changes.length, parsed.changes.length);
  await applyManifest(limiter, await openPlan(limiter, pruned));
  assert.deepEqual([...(await limiter.listEntities())], []);
});

test("T3: four times the pieces are four times the work, pruned or not, counted by looks at the plan and rows of the record", async (t) => {
  const few = await workOf(t, 50);
  const many = await workOf(t, 200);
  for (const what of ["looks", "rows"] as const) {
    assert.ok(many[what] <= few[what] * 5, `${what}: ${few[what]} for 50, ${many[what]} for 200`);
  }
});

async function workOf(t: Parameters<typeof opened>[0], count: number) {
  const { store, clock } = await opened(t, (STORES[0] as (typeof STORES)[number])[1]);
  let rows = 0;
  const scope = store.scope.bind(store);
  store.scope = (id) => {
    const parts = scope(id);
    const { manifests } = parts;
    const list = manifests.list.bind(manifests);
    manifests.list = async (page) => {
      const found = await list(page);
      rows += found.items.length;
      return found;
    };
    return parts;
  };
  const limiter = await limiterOn(store, clock);
  const names = Array.from({ length: count }, (_, i) => `e-${i}: { name: E, limits: { rpm: 1 } }`);
  let looks = 0;
  const counted = (found: Plan): Plan => {
    const changes = found.changes as Plan["changes"][number][];
    for (const [i, change] of changes.entries()) {
      changes[i] = new Proxy(change, {
        get: (target, key) => {
          looks += 1;
          return Reflect.get(target, key);
        },
      });
    }
    return found;
  };
  await applyManifest(limiter, counted(await plan(limiter, `owner: o\nentities: { ${names.join(", ")} }`)));
  await applyManifest(limiter, counted(await plan(limiter, "owner: o\nresources: {}", { prune: true })));
  assert.equal((await (limiter as Limiter).listEntities()).length, 0);
  return { looks, rows };
}
